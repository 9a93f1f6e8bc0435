"""Training on a GPU: what is saved is resumed, with every option that holds tensors of its own; memory that runs out is survived."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from random_model import random_checkpoint
from small_runs import Bench, small_config

from harness.base_policy.pretrained import Config as Pretrained
from harness.base_policy.pretrained import Lora
from harness.cli import main
from harness.configuration.schema import RunConfig
from harness.model.shapes import SHAPES
from harness.rollout.engine import transformers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


TINY = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 512}
TINY |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
CASES: list[dict[str, Any]] = [
    {"shape": "qwen2.5-0.5b"},
    {"shape": "qwen3-0.6b", "precision": "bfloat16", "checkpointing": True, "kl": True},
    {"shape": "qwen2.5-0.5b", "precision": "bfloat16", "checkpointing": True, "lora": True},
    {"shape": "qwen2.5-0.5b", "lora": True, "kl": True, "engine": "transformers"},
]


def case_name(case: dict[str, Any]) -> str:
    """`checkpointing-kl`."""
    return "-".join(name for name in case if name != "shape") or "plain"


def tiny(shape: str) -> dict[str, Any]:
    """A narrow model of the architecture of this shape."""
    values = SHAPES[shape]
    return {**values, **{key: value for key, value in TINY.items() if key != "head_dim" or key in values}}


def case_config(scratch: Path, case: dict[str, Any]) -> tuple[RunConfig, Path]:
    """Two steps of a case, and its checkpoint folder."""
    folder = random_checkpoint(tiny(case["shape"]), 0, scratch)
    model = Pretrained(path=str(folder), precision=case.get("precision", "float32"))
    model.lora = Lora(rank=4) if case.get("lora") else model.lora
    config = small_config(
        model=model,
        runtime__device="cuda",
        runtime__rollout_rows=32,
        runtime__gradient_checkpointing=bool(case.get("checkpointing")),
        training__steps=2,
        training__evaluate_every=2,
        algorithm__entropy_coefficient=0.01,  # every response has a gradient, dead groups too
        algorithm__kl__coefficient=0.1 if case.get("kl") else 0.0,
    )
    if case.get("engine"):
        config.engine = transformers.Config()
    return config, folder


# cuBLAS reads it once, at the first product of the process.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_run_that_was_stopped_ends_as_one_that_was_not(
    bench: Bench, tmp_path: Path, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit: a few steps move weights by less than any tolerance that rounding would need."""
    config, folder = case_config(tmp_path, case)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)
    torch.use_deterministic_algorithms(True)
    try:
        one = bench.trained(config, "a", base=folder)
        bench.trained(config, "b", stop_after=1, base=folder)
        other = bench.trained(config, "b", base=folder)
    finally:
        torch.use_deterministic_algorithms(False)
    straight, parted = one.run, other.run
    assert parted.steps()["step"].tolist() == straight.steps()["step"].tolist() == [1, 2]
    for a, b in zip(one.policy.named_weights(), other.policy.named_weights(), strict=True):
        assert a[0] == b[0]
        assert a[1].is_cuda
        assert torch.equal(a[1], b[1]), a[0]
    assert straight.steps()["loss"].tolist() == parted.steps()["loss"].tolist()


def test_a_checkpoint_is_evaluated_by_the_transformers_engine(base_policy: Path, tmp_path: Path) -> None:
    problems = tmp_path / "chains.jsonl"
    problems.write_text("".join(f'{{"id": "{n}", "problem": "{n}+1=", "answer": "{n + 1}"}}\n' for n in range(4)))
    command = ["evaluate", f"model={base_policy}", f"data.path={problems}", "template=plain", "engine=transformers"]
    command += ["evaluation.samples_per_problem=2", "evaluation.caps=[12]", "runtime.device=cuda"]
    assert main([*command, f"runtime.results={tmp_path}"]) == 0
