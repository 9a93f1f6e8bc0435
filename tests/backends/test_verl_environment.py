"""The real verl 0.9.1, on a CPU: every key that we write exists in its configuration and has its type, its own checks accept each arm,
and its merger exports a policy that we load.

Optional: needs `python tests/parity/build_peer.py verl` (an environment of its own, no GPU) and is skipped without it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tables import tables
from transformers import AutoTokenizer

from harness.backends.verl.metrics import export
from harness.backends.verl.overrides import WRITTEN_PROMPT, Place, overrides, refusals
from harness.backends.verl.process import interpreter as find_interpreter
from harness.configuration.compose import compose_run, options
from harness.configuration.schema import RunConfig
from harness.model.checkpoint import copy_side_files
from harness.store import ResultStore

sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))  # the environment is that of the loss parity
from build_peer import interpreter, ready

pytestmark = [
    pytest.mark.optional,
    pytest.mark.skipif(not ready("verl"), reason="no verl environment: python tests/parity/build_peer.py verl"),
]
PLACE = Place(Path("/store/runs/0123456789abcdef"), Path("/store/data"), Path("/models/base"), 200, (2,), 0)
COMMON = [
    "backend=verl",
    "model=qwen25_0_5b",
    "backend.accept=[warmup_from_zero]",
    "optimizer.warmup_steps=5",
]
MORE: dict[str, list[str]] = tables(__file__)["more"]


def ask(peer: str, question: Any, **variables: str) -> Any:
    """What a script in verl's environment answers."""
    result = subprocess.run(
        [str(interpreter("verl")), str(Path(__file__).with_name(peer))],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **variables},
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.rpartition("ANSWER ")[2])


def accepted() -> dict[str, RunConfig]:
    """Every system, rung and special case that verl is said to train."""
    given = {f"algorithm={name}": [f"algorithm={name}"] for name in options("algorithm")}
    given |= {f"rung={name}": [f"rung={name}"] for name in options("rung")} | MORE
    composed = {name: compose_run([*COMMON, *items]) for name, items in given.items()}
    return {name: config for name, config in composed.items() if not refusals(config)}


WRONG = {
    "nonsense": "actor_rollout_ref.actor.nonsense=1",
    "replaces True": "data.shuffle=3",
    "already at": "+data.seed=3",
}  # what verl says, and about which override


@pytest.fixture(scope="module")
def answers() -> dict[str, list[str]]:
    """What verl says of every accepted arm, of every wrong override and of one that is missing, by name: one process for all."""
    asked = {name: overrides(config, PLACE) for name, config in accepted().items()}
    lines = overrides(compose_run([*COMMON, "algorithm=grpo"]), PLACE)
    asked |= {said: [*lines, item] for said, item in WRONG.items()}
    asked["micro_batch_size"] = [line for line in lines if "use_dynamic_bsz" not in line]
    different = sorted({tuple(lines) for lines in asked.values()})  # some arms are the same to verl
    said = dict(zip(different, ask("verl_peer_config.py", different), strict=True))
    return {name: said[tuple(lines)] for name, lines in asked.items()}


def test_every_key_of_every_arm_exists_and_has_its_type(answers: dict[str, list[str]]) -> None:
    arms = accepted()
    assert arms.keys() >= {*MORE, "algorithm=dr_grpo", "algorithm=gspo", *(f"rung={name}" for name in options("rung"))}
    # A pair of bounds is a text in verl, too, beside a default that is a number.
    pair = "rollout_is_threshold='0.5_5' replaces 2.0"
    found = {name: [line for line in answers[name] if pair not in line] for name in arms}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("said", [*WRONG, "micro_batch_size"])
def test_a_wrong_key_type_or_plus_is_noticed(answers: dict[str, list[str]], said: str) -> None:
    assert any(said in line for line in answers[said])


def test_its_merger_exports_a_policy_with_our_tokenizer(tmp_path: Path, base_policy: Path) -> None:
    run = ResultStore(tmp_path / "results").run("0123456789abcdef")
    run.path.mkdir(parents=True)
    place = Place(run.path, tmp_path, base_policy, 20, (1,), 0)
    actor = place.checkpoints / "global_step_4" / "actor"
    (actor / "huggingface").mkdir(parents=True)
    copy_side_files(base_policy, actor / "huggingface")
    changed = AutoTokenizer.from_pretrained(base_policy)
    changed.chat_template = WRITTEN_PROMPT
    changed.save_pretrained(actor / "huggingface")
    weights = load_file(base_policy / "model.safetensors")
    torch.save(weights, actor / "model_world_size_1_rank_0.pt")
    (actor / "fsdp_config.json").write_text('{"FSDP_version": 2, "world_size": 1}')
    (place.checkpoints / "latest_checkpointed_iteration.txt").write_text("4")
    assert run.resume_step() == 4
    folder = export(str(interpreter("verl")), run, place, 4, tmp_path / "log")
    merged = load_file(folder / "model.safetensors")
    assert merged.keys() == weights.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(merged[name].float(), weight.bfloat16().float(), rtol=0, atol=0)
    # As before, not the one for prompts that are written out.
    assert AutoTokenizer.from_pretrained(folder).chat_template is None


def test_its_version_is_the_one_the_overrides_are_written_for() -> None:
    runtime = RunConfig().runtime.verl
    runtime.python = str(interpreter("verl"))
    assert find_interpreter(runtime) == str(interpreter("verl"))
