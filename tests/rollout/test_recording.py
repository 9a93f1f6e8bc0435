"""Recorded responses: what a run samples is in its record once, whatever interrupted it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from engine_support import seeds_for
from small_runs import claimed, finished, small_config

from harness.configuration.registry import member
from harness.configuration.schema import RunConfig
from harness.model.policy import NativePolicy
from harness.rollout.engine import transformers as transformers_engine
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.types import SamplingParams
from harness.rollout.wrappers import RecordingEngine
from harness.store import RunDir
from harness.training.loop import train_run

PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12]]
PARAMS = SamplingParams(8, stop_token_ids=(1,))


def test_a_line_holds_a_prompt_and_its_responses_to_the_bit(base_policy: Path, tmp_path: Path) -> None:
    path, seeds = tmp_path / "made" / "step-000003.jsonl", seeds_for(PROMPTS, 4)
    engine = RecordingEngine(NativeEngine(NativePolicy.load(base_policy, "torch").decoder), path.parent)
    engine.begin(3)
    made = engine.generate(PROMPTS, seeds, PARAMS)
    engine.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["prompt"] for line in lines] == PROMPTS
    assert lines[0]["sampling"]["max_response_tokens"] == 8
    responses = [response for line in lines for response in line["responses"]]
    assert [response["tokens"] for response in responses] == made.token_lists()
    assert [response["seed"] for response in responses] == [int(seed) for seed in seeds.reshape(-1)]
    assert [response["finish_reason"] == "stop" for response in responses] == made.finished_R.tolist()
    for name in ("log_probs", "entropy"):
        values = torch.tensor([value for response in responses for value in response[name]])
        assert torch.equal(values, getattr(made, f"{name}_N"))


def stopped(config: RunConfig, root: Path, steps: int) -> RunDir:
    """The run of this configuration, asked to stop after some steps."""
    run = claimed(config, root, "interrupted")
    asked = iter(range(1, 100))
    assert not train_run(config, run, lambda: next(asked) >= steps, attempt=1)
    return run


def recorded(root: Path, **changes: Any) -> list[list[dict[str, Any]]]:
    """The responses that a run of one step has in its record, by line."""
    config = small_config(
        runtime__record_rollouts=True, runtime__results=str(root), training__steps=1, training__evaluate_every=1, **changes
    )  # fmt: skip
    files = sorted((finished(config, root).path / "rollouts").iterdir())
    return [json.loads(line)["responses"] for file in files for line in file.open()]


def test_checks_of_the_weights_are_no_rollouts(tmp_path: Path) -> None:
    """An engine with weights of its own is asked for a few responses after every load; the record has those of the one without."""
    shared, own = recorded(tmp_path / "shared"), recorded(tmp_path / "own", engine=transformers_engine.Config())
    seeds = [[[response["seed"] for response in line] for line in lines] for lines in (shared, own)]
    assert seeds[0] == seeds[1]


def test_responses_of_the_initial_policy_are_recorded_as_those_of_the_policy_are(tmp_path: Path) -> None:
    initial = member("harness.sampling.source", "initial_policy").Config()
    assert len(recorded(tmp_path / "a", algorithm__source=initial)) == len(recorded(tmp_path / "b"))


def test_a_stopped_run_records_what_an_undisturbed_one_does(tmp_path: Path) -> None:
    """Stopped after a checkpoint, with a torn step recorded beyond it that nothing will know of."""
    changes: dict[str, Any] = {"runtime__record_rollouts": True, "runtime__checkpoint_every": 1}
    whole = finished(small_config(**changes, runtime__results=str(tmp_path / "a")), tmp_path / "a")
    config = small_config(**changes, runtime__results=str(tmp_path / "b"))
    parted = stopped(config, tmp_path / "b", steps=2)
    (parted.path / "rollouts" / "step-000003.jsonl").write_text('{"prompt": [1')
    assert train_run(config, parted, lambda: False, attempt=2)
    files = [{file.name: file.read_bytes() for file in (run.path / "rollouts").iterdir()} for run in (whole, parted)]
    assert files[0] == files[1]
    assert len(files[0]) == 5
