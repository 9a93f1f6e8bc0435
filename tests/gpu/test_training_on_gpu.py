"""Training on a GPU: what is saved is resumed, with every option that holds tensors of its own; memory that runs out is survived."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import Bench
from training_cases import CASES, case_config, case_name

from harness.cli import main
from harness.training.attempt import deterministic

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


# cuBLAS reads it once, at the first product of the process.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_run_that_was_stopped_ends_as_one_that_was_not(bench: Bench, tmp_path: Path, case: dict[str, Any]) -> None:
    """To the bit: a few steps move weights by less than any tolerance that rounding would need."""
    config, folder = case_config(tmp_path, case)
    with deterministic(True):
        one = bench.trained(config, "a", base=folder)
        bench.trained(config, "b", stop_after=1, base=folder)
        other = bench.trained(config, "b", base=folder)
    straight, parted = one.run, other.run
    assert parted.steps()["step"].tolist() == straight.steps()["step"].tolist() == [1, 2]
    for a, b in zip(one.policy.named_weights(), other.policy.named_weights(), strict=True):
        assert a[0] == b[0]
        assert a[1].is_cuda
        assert torch.equal(a[1], b[1]), a[0]
    assert straight.steps()["loss"].tolist() == parted.steps()["loss"].tolist()


def test_deterministic_runs_repeat_their_bits(bench: Bench, tmp_path: Path) -> None:
    config, folder = case_config(tmp_path, {"shape": "qwen2.5-0.5b", "precision": "bfloat16"})
    with deterministic(True):
        runs = [bench.trained(config, name, base=folder) for name in "ab"]
    for a, b in zip(*(run.policy.named_weights() for run in runs), strict=True):
        assert torch.equal(a[1], b[1]), a[0]


def test_a_checkpoint_is_evaluated_by_the_transformers_engine(base_policy: Path, tmp_path: Path) -> None:
    problems = tmp_path / "chains.jsonl"
    problems.write_text("".join(f'{{"id": "{n}", "problem": "{n}+1=", "answer": "{n + 1}"}}\n' for n in range(4)))
    command = ["evaluate", f"model={base_policy}", f"data.path={problems}", "template=plain", "engine=transformers"]
    command += ["evaluation.samples_per_problem=2", "evaluation.caps=[12]", "runtime.device=cuda", "figures=false"]
    assert main([*command, f"runtime.results={tmp_path}"]) == 0
