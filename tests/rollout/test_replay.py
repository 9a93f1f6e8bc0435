"""Recorded responses: what is written comes back, and what is not there is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from engine_support import seeds_for
from small_runs import claimed, finished, small_config

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.model.checkpoint import read_state
from harness.model.policy import NativePolicy
from harness.rollout.engine import native, replay
from harness.rollout.engine import transformers as transformers_engine
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.engine.replay.recording import RecordingEngine, ReplayEngine
from harness.rollout.types import Completions, SamplingParams
from harness.store import RunDir
from harness.training.run import train_run

PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12]]
PARAMS = SamplingParams(8, stop_token_ids=(1,))


@pytest.fixture
def recorded(base_policy: Path, tmp_path: Path) -> tuple[Path, Completions]:
    """Four responses to each prompt, and the file that holds them."""
    path = tmp_path / "made" / "rollouts.jsonl"
    engine = RecordingEngine(NativeEngine(NativePolicy.load(base_policy, "torch").decoder), path)
    made = engine.generate(PROMPTS, seeds_for(PROMPTS, 4), PARAMS)
    engine.close()
    return path, made


def same(a: Completions, b: Completions) -> bool:
    names = ("tokens_N", "log_probs_N", "entropy_N", "lengths_R", "finished_R")
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in names)


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_request_comes_back_bit_for_bit_in_any_batch(recorded: tuple[Path, Completions]) -> None:
    path, made = recorded
    engine = ReplayEngine(path)
    assert same(engine.generate(PROMPTS, seeds_for(PROMPTS, 4), PARAMS), made)
    part = engine.generate([PROMPTS[2], PROMPTS[0]], seeds_for(PROMPTS, 4)[[2, 0], 1:3], PARAMS)
    assert same(part, made.select(torch.tensor([9, 10, 1, 2])))


def test_a_smaller_cap_cuts_and_a_larger_one_is_refused(recorded: tuple[Path, Completions]) -> None:
    path, made = recorded
    short = SamplingParams(3, stop_token_ids=(1,))
    assert same(ReplayEngine(path).generate(PROMPTS, seeds_for(PROMPTS, 4), short), made.prefix(3))
    assert not bool(made.finished_R.all())
    with pytest.raises(ConfigError, match="cut at 8 tokens, asked for up to 9"):
        ReplayEngine(path).generate(PROMPTS, seeds_for(PROMPTS, 4), SamplingParams(9, stop_token_ids=(1,)))


def test_what_is_missing_is_named(recorded: tuple[Path, Completions]) -> None:
    engine = ReplayEngine(recorded[0])
    with pytest.raises(ConfigError, match=r"no responses to the prompt \[2, 3\] \(2 tokens\)"):
        engine.generate([[2, 3]], seeds_for([[2, 3]], 1), PARAMS)
    with pytest.raises(
        ConfigError, match=r"has 4 responses to the prompt .* none with the seed 17; .*engine.match=order"
    ):
        engine.generate(PROMPTS[:1], np.array([[17]], dtype=np.uint64), PARAMS)
    with pytest.raises(ConfigError, match=r"recorded with temperature=1.0, asked for temperature=0.5"):
        engine.generate(PROMPTS, seeds_for(PROMPTS, 4), SamplingParams(8, 0.5, stop_token_ids=(1,)))


def test_in_order_seeds_do_not_matter(recorded: tuple[Path, Completions]) -> None:
    path, made = recorded
    engine = ReplayEngine(path, match="order")
    assert same(engine.generate(PROMPTS, seeds_for(PROMPTS, 4, "others"), PARAMS), made)
    with pytest.raises(ConfigError, match=r"has 4 responses to the prompt .* asked for sample 5"):
        engine.generate(PROMPTS, seeds_for(PROMPTS, 5), PARAMS)


def test_a_pair_recorded_several_times_is_served_in_its_order(base_policy: Path, tmp_path: Path) -> None:
    """An evaluation repeats its seeds at every step, with other weights."""
    policy = NativePolicy.load(base_policy, "torch")
    engine = RecordingEngine(NativeEngine(policy.decoder), tmp_path / "rollouts.jsonl")
    made = []
    for _ in range(3):
        made.append(engine.generate(PROMPTS, seeds_for(PROMPTS, 2), PARAMS))
        with torch.no_grad():
            policy.decoder.head.add_(0.2 * torch.randn_like(policy.decoder.head))
    engine.close()
    served = ReplayEngine(tmp_path / "rollouts.jsonl")
    for wanted in [*made, made[-1]]:
        assert same(served.generate(PROMPTS, seeds_for(PROMPTS, 2), PARAMS), wanted)
    assert not same(made[0], made[2])


def test_a_file_from_elsewhere_needs_only_prompts_and_tokens(tmp_path: Path) -> None:
    short, long = (
        {"tokens": [7, 1], "finish_reason": "stop"},
        {"tokens": [7, 8, 9], "finish_reason": "length"},
    )
    path = write(tmp_path / "theirs.jsonl", {"prompt": [5, 6], "responses": [short, long]})
    engine = ReplayEngine(path, match="order")
    made = engine.generate([[5, 6]], seeds_for([[5]], 2), SamplingParams(3))
    assert made.token_lists() == [[7, 1], [7, 8, 9]]
    assert made.finished_R.tolist() == [True, False]
    assert bool(made.log_probs_N.isnan().all())
    assert bool(made.entropy_N.isnan().all())
    with pytest.raises(ConfigError, match=r"a response has no seed; set engine.match=order"):
        ReplayEngine(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"prompt": [5]}, "KeyError: 'responses'"),
        ({"prompt": [5], "responses": [{"tokens": [], "finish_reason": "stop"}]}, "0 tokens"),
        ({"prompt": [5], "responses": [{"tokens": [7], "log_probs": [0, 0], "finish_reason": "stop"}]}, "2 log_probs"),
        ({"prompt": [5], "responses": [{"tokens": [7], "finish_reason": "eos"}]}, "'eos' is neither"),
        ({"prompt": ["x"], "responses": []}, "ValueError"),
        ([1, 2], "TypeError"),
    ],
)  # fmt: skip
def test_a_malformed_line_is_named(line: Any, said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.jsonl", {"prompt": [5], "responses": []}, line)
    with pytest.raises(ConfigError, match=rf"bad.jsonl:2 is no recorded prompt .*{said}"):
        ReplayEngine(path, match="order")


def test_a_torn_last_line_is_dropped(recorded: tuple[Path, Completions]) -> None:
    path, made = recorded
    whole = path.read_text()
    path.write_text(whole[:-20])
    engine = ReplayEngine(path)
    kept = engine.generate(PROMPTS[:2], seeds_for(PROMPTS, 4)[:2], PARAMS)
    assert same(kept, made.select(torch.arange(8)))
    with pytest.raises(ConfigError, match="no responses"):
        engine.generate(PROMPTS[2:], seeds_for(PROMPTS, 4)[2:], PARAMS)


def test_a_record_goes_on_after_a_torn_line(recorded: tuple[Path, Completions], base_policy: Path) -> None:
    path, made = recorded
    path.write_text(path.read_text()[:-20])
    engine = RecordingEngine(NativeEngine(NativePolicy.load(base_policy, "torch").decoder), path)
    last = engine.generate(PROMPTS[2:], seeds_for(PROMPTS, 4)[2:], PARAMS)
    engine.close()
    served = ReplayEngine(path).generate(PROMPTS, seeds_for(PROMPTS, 4), PARAMS)
    assert same(served, Completions.concatenate([made.select(torch.arange(8)), last]))
    path.write_text("torn")
    RecordingEngine(engine.engine, path).close()
    assert path.read_text() == ""


def stopped(config: RunConfig, root: Path, steps: int) -> RunDir:
    """The run of this configuration, asked to stop after some steps."""
    run = claimed(config, root, "interrupted")
    asked = iter(range(1, 100))
    assert not train_run(config, run, lambda: next(asked) >= steps, attempt=1)
    return run


def test_a_run_replayed_trains_the_same_policy(tmp_path: Path) -> None:
    """With refill, whose rounds depend on what came before, and evaluations between the updates."""
    changes = {
        "algorithm__dead_groups__policy": "refill",
        "runtime__results": str(tmp_path),
        "runtime__record_rollouts": True,
    }
    first = finished(small_config(**changes), tmp_path)
    changes |= {
        "runtime__record_rollouts": False,
        "engine": replay.Config(path=str(first.path / "rollouts.jsonl")),
    }
    second = finished(small_config(**changes), tmp_path)
    assert first.run_id != second.run_id
    timed = [name for name in first.steps() if name.startswith("seconds")]
    pd.testing.assert_frame_equal(first.steps().drop(columns=timed), second.steps().drop(columns=timed))
    policies = [read_state(run.checkpoints()[-1][1] / "policy") for run in (first, second)]
    assert all(torch.equal(policies[1][name], tensor) for name, tensor in policies[0].items())
    shutil.rmtree(second.path)  # a second replay finds no evaluation of the first one's base policy
    second = finished(small_config(**changes), tmp_path)
    for step in (0, 2, 4):
        pd.testing.assert_frame_equal(
            first.samples("arithmetic_heldout", step), second.samples("arithmetic_heldout", step)
        )


def test_checks_of_the_weights_are_no_rollouts(tmp_path: Path) -> None:
    """An engine with weights of its own is asked for a few responses after every load; the record has those of the one without."""
    lines = []
    for name, engine in (("shared", native.Config()), ("own", transformers_engine.Config())):
        config = small_config(
            engine=engine, runtime__record_rollouts=True, runtime__results=str(tmp_path / name), training__steps=1,
            training__evaluate_every=1,
        )  # fmt: skip
        run = finished(config, tmp_path / name)
        recorded = [json.loads(line)["responses"] for line in (run.path / "rollouts.jsonl").open()]
        lines.append([[response["seed"] for response in responses] for responses in recorded])
    assert lines[0] == lines[1]


def test_a_stopped_run_records_what_an_undisturbed_one_does_and_its_replay_begins_anew(
    tmp_path: Path,
) -> None:
    """Stopped after a checkpoint, with a step recorded beyond it that nothing will know of."""
    changes: dict[str, Any] = {"runtime__record_rollouts": True, "runtime__checkpoint_every": 1}
    whole = finished(small_config(**changes, runtime__results=str(tmp_path / "a")), tmp_path / "a")
    config = small_config(**changes, runtime__results=str(tmp_path / "b"))
    parted = stopped(config, tmp_path / "b", steps=2)
    lost = (parted.path / "rollouts.jsonl").read_text().splitlines(keepends=True)[-1]
    with (parted.path / "rollouts.jsonl").open("a") as file:
        file.write(lost)
    assert train_run(config, parted, lambda: False, attempt=2)
    recorded = [(run.path / "rollouts.jsonl").read_bytes() for run in (whole, parted)]
    assert recorded[0] == recorded[1]
    served = small_config(
        engine=replay.Config(path=str(whole.path / "rollouts.jsonl")), runtime__checkpoint_every=1
    )
    again = stopped(served, tmp_path / "c", steps=2)
    assert train_run(served, again, lambda: False, attempt=2)
    for step in (0, 2, 4):
        pd.testing.assert_frame_equal(
            whole.samples("arithmetic_heldout", step), again.samples("arithmetic_heldout", step)
        )


def test_the_identity_is_the_files_content(recorded: tuple[Path, Completions], tmp_path: Path) -> None:
    path, _ = recorded
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(path.read_bytes())
    identity = replay.identity(replay.Config(path=str(path)))
    assert replay.identity(replay.Config(path=str(copy))) == identity
    copy.write_bytes(path.read_bytes()[:-20])
    assert replay.identity(replay.Config(path=str(copy))) != identity
    assert replay.identity(replay.Config(path=str(path), match="order")) != identity
    with pytest.raises(ConfigError, match=r"engine.path='': no such file"):
        replay.identity(replay.Config())
