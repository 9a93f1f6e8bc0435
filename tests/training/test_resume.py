"""Exact resume: N steps equal k steps, a resume, and N - k steps, bit for bit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import Bench, small_config

from harness.configuration.registry import member
from harness.configuration.schema import RunConfig
from harness.configuration.sections import EntropyControl
from harness.sampling.curriculum import Curriculum
from harness.store import ResultStore
from harness.training.loop import train
from harness.training.run_parts import RunParts

CURRICULUM = "harness.sampling.curriculum"
VARIANTS: dict[str, dict[str, object]] = {
    "naive": {},
    "refill": {"algorithm__dead_groups__policy": "refill"},
    "prompts that are tried again": {
        "algorithm__dead_groups__policy": "never_give_up",
        "algorithm__curriculum": member(CURRICULUM, "offline_filter").Config(),
    },
    "prompts that are tried again, behind a lag": {
        "algorithm__dead_groups__policy": "never_give_up",
        "sampling__lag_steps": 1,
    },
    "a reference that is reset": {
        "algorithm__kl": member("harness.objective.kl", "k3").Config(coefficient=0.1, reset_every_steps=2)
    },
    "an entropy coefficient that moves": {
        "algorithm__entropy_control": EntropyControl(target_nats=0.5, step=0.01, maximum=0.025)
    },
    "Clip-Cov": {"algorithm__surrogate": member("harness.objective.surrogate", "clip_cov").Config(low=0.1)},
    "a policy that lags two steps": {"sampling__lag_steps": 2},
    "a lag with refill, sampled beside the update": {
        "sampling__lag_steps": 2,
        "algorithm__dead_groups__policy": "refill",
        "engine": member("harness.rollout.engine", "transformers").Config(),
    },
    "a lag with refill": {
        "sampling__lag_steps": 1,
        "algorithm__dead_groups__policy": "refill",
    },
    "critic": {"algorithm__advantage": member("harness.objective.advantage", "gae").Config()},
    "success bands": {"algorithm__curriculum": member(CURRICULUM, "success_bands").Config()},
    "distributions that wait": {
        "algorithm__surrogate": member("harness.objective.surrogate", "score_centering").Config(weight="truncated"),
        "sampling__lag_steps": 1,
    },
    "drop, two epochs, KL": {
        "algorithm__dead_groups__policy": "drop",
        "algorithm__epochs_per_step": 2,
        "algorithm__kl": member("harness.objective.kl", "k3").Config(coefficient=0.01),
    },
}


def state(trainer: RunParts) -> dict[str, object]:
    """Everything that a run carries on but its time: the loop's state, weights and optimiser."""
    optimizer = trainer.updater.optimizer.state_dict()
    return {**trainer.state(), "policy": trainer.policy.state(), "optimizer": optimizer}


def assert_equal(one: RunParts, other: RunParts) -> None:
    torch.testing.assert_close(state(one), state(other), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_stop_and_resume_is_bit_identical(bench: Bench, name: str) -> None:
    config = small_config(training__steps=5, training__evaluate_every=5, **VARIANTS[name])
    straight = bench.trained(config, "a")
    config.runtime.sampler_gpus = int("beside" in name)
    bench.trained(config, "b", stop_after=3)
    resumed = bench.trained(config, "b")
    assert_equal(straight, resumed)
    if "tried again" in name:
        assert straight.run.steps()["retried_fraction"].sum() > 0
    timeless = [name for name in straight.run.steps().columns if not name.startswith("seconds")]
    assert straight.run.steps()[timeless].equals(resumed.run.steps()[timeless])
    first, second = (run.samples("arithmetic_heldout", 5) for run in (straight.run, resumed.run))
    assert first.equals(second)


class Killed(Exception):
    """Stands for SIGKILL: nothing after it runs."""


def killed_after(step: int, trainer: RunParts) -> None:
    """Train, and be gone once this step is done."""

    def kill() -> bool:
        if trainer.progress.step == step and trainer.progress.row is None:
            raise Killed
        return False

    with pytest.raises(Killed):
        train(trainer, kill, attempt=0)


def test_what_an_attempt_made_beyond_its_checkpoint_is_forgotten(bench: Bench) -> None:
    # A time budget that a slower resume spends two steps earlier, as it may on another machine.
    config = small_config(training__steps=9, training__evaluate_every=2, runtime__checkpoint_every=3)
    run = bench.run()
    killed_after(9, bench.trainer(config))
    assert run.sample_steps("arithmetic_heldout") == [0, 2, 4, 6, 8, 9]
    config.training.steps = 7
    assert train(bench.trainer(config), lambda: False, attempt=1)
    assert run.steps()["step"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert run.steps()["attempt"].tolist() == [0] * 6 + [1]
    assert run.sample_steps("arithmetic_heldout") == [0, 2, 4, 6, 7]


def test_the_last_checkpoint_keeps_no_optimizer_and_ends_a_run_that_was_killed_after_it(bench: Bench) -> None:
    config = small_config(training__steps=2, training__evaluate_every=2)
    trained = bench.trained(config)
    (step, folder), steps = trained.run.checkpoints()[-1], trained.run.steps()
    counts = torch.load(folder / "state.pt", weights_only=True)
    assert (step, counts.keys()) == (2, {"step", "updates", "generated_tokens"})
    before = (folder / "policy" / "model.safetensors").read_bytes()
    again = bench.trained(config)
    assert again.progress.counts() == counts
    assert again.run.steps().equals(steps)
    assert (folder / "policy" / "model.safetensors").read_bytes() == before


def test_the_final_checkpoint_is_an_ordinary_transformers_model(bench: Bench) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    trainer = bench.trained(small_config(training__steps=1))
    folder = trainer.run.checkpoints()[-1][1] / "policy"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(r"7+8*3:________\boxed{5}<eos>")["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == r"7+8*3:________\boxed{5}"
    with torch.no_grad():
        expected = trainer.policy.decoder.logits(trainer.policy.decoder.hidden_states(torch.tensor([ids])))
        torch.testing.assert_close(model(torch.tensor([ids])).logits[0], expected, atol=1e-4, rtol=1e-4)


def test_evaluations_in_between_take_the_first_samples_of_the_many(bench: Bench) -> None:
    many = small_config(training__steps=4, training__evaluate_every=2)
    few = small_config(training__steps=4, training__evaluate_every=2, evaluation__samples_between=2)
    bench.trained(many, "a")
    bench.trained(few, "b")
    for step, count in ((0, 4), (2, 2), (4, 4)):
        full, part = (bench.run(name).samples("arithmetic_heldout", step) for name in "ab")
        first = full[full["sample_index"] < count].reset_index(drop=True)
        assert first.equals(part)


def test_a_torn_checkpoint_falls_back_to_the_one_before(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    config = small_config(training__steps=4, runtime__checkpoint_every=1)
    straight = bench.trained(config, "a")
    bench.trained(config, "b", stop_after=3)
    (_, _), (_, newest) = bench.run("b").checkpoints()
    content = bytearray((newest / "state.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (newest / "state.pt").write_bytes(content)
    resumed = bench.trained(config, "b")
    assert_equal(straight, resumed)
    assert resumed.run.steps()["step"].tolist() == [1, 2, 3, 4]
    said = capsys.readouterr().err
    assert f"{newest} is not what was written: state.pt" in said
    assert "this checkpoint is left out, step-000002 is taken" in said


def test_without_a_whole_checkpoint_a_run_starts_again_and_says_so(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small_config(training__steps=3, training__evaluate_every=3, runtime__checkpoint_every=1)
    straight = bench.trained(config, "a")
    bench.trained(config, "b", stop_after=2)
    assert "starts again" not in capsys.readouterr().err
    for _, folder in bench.run("b").checkpoints():
        (folder / "state.pt").write_bytes(b"")
    resumed = bench.trained(config, "b")
    assert_equal(straight, resumed)
    said = capsys.readouterr().err
    assert "starts again from step 1 and trains 2 steps anew: no checkpoint is left" in said
    assert "(runtime.checkpoint_every=1)" in said


@pytest.fixture(scope="module")
def undisturbed(base_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], RunParts]]:
    """The trainer of three steps of a variant, trained once for all tests."""
    bench = Bench(base_policy, ResultStore(tmp_path_factory.mktemp("undisturbed")))
    names = sorted(VARIANTS)
    yield functools.cache(lambda name: bench.trained(three_steps(name), f"{names.index(name):x}"))
    bench.close()


def three_steps(name: str) -> RunConfig:
    return small_config(training__steps=3, training__evaluate_every=2, **VARIANTS[name])


@pytest.mark.parametrize("name", ["refill", "a lag with refill", "critic", "success bands"])
@pytest.mark.parametrize("phase", ["sampling", "evaluating step 2", "evaluating step 3"])
def test_a_stop_inside_a_step_ends_it_and_the_resumed_run_is_the_same(
    bench: Bench, undisturbed: Callable[[str], RunParts], name: str, phase: str
) -> None:
    config, straight = three_steps(name), undisturbed(name)
    stopped = bench.trainer(config, "b")

    def stop() -> bool:
        second = phase != "sampling" or stopped.progress.step == 1
        return second and stopped.pulse.phase == phase and len(stopped.pulse.counts) > 1

    assert not train(stopped, stop, attempt=0)
    assert stopped.pulse.phase == phase
    stopped.close()
    resumed = bench.trained(config, "b")
    torch.testing.assert_close(straight.policy.state(), resumed.policy.state(), rtol=0, atol=0)
    timeless = [name for name in straight.run.steps().columns if not name.startswith("seconds")]
    assert straight.run.steps()[timeless].equals(resumed.run.steps()[timeless])
    for step in (0, 2, 3):
        first, second = (run.samples("arithmetic_heldout", step) for run in (straight.run, resumed.run))
        assert first.equals(second)


def test_a_stop_before_an_evaluation_keeps_the_step_and_evaluates_it_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Curriculum, "record", lambda _self: {"of_numpy": np.float32(0.5)})
    config = small_config(training__steps=3, training__evaluate_every=2, runtime__checkpoint_every=3)
    straight = bench.trained(config, "a")
    stopped = bench.trained(config, "b", stop_after=2)
    assert [step for step, _ in stopped.run.checkpoints()] == [2]
    assert stopped.run.sample_steps("arithmetic_heldout") == [0]
    assert stopped.run.steps()["step"].tolist() == [1]
    killed_after(2, bench.trainer(config, "b"))  # once it is evaluated and recorded, before a checkpoint says so
    steps = stopped.run.steps()
    assert steps["step"].tolist() == [1, 2]
    resumed = bench.trained(config, "b")
    assert_equal(straight, resumed)
    assert resumed.run.sample_steps("arithmetic_heldout") == [0, 2, 3]
    assert resumed.run.steps()[:2].equals(steps)
    assert (resumed.run.path / "metrics.jsonl").read_text().count("\n") == 3


def test_a_long_step_says_how_far_it_is(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.training.pulse._QUIET_SECONDS", 0.0)
    monkeypatch.setattr("harness.training.pulse._EVERY_SECONDS", 0.0)
    said: list[str] = []
    monkeypatch.setattr(RunParts, "say", lambda _parts, _attempt, text: said.append(text))
    bench.trained(
        small_config(training__steps=1, sampling__max_response_tokens=9, **VARIANTS["a reference that is reset"])
    )
    for text in (
        "evaluating the base policy, responses 0 of 24, token 3 of 24",
        "sampling, responses 0 of 32, token 8 of 9",
        "sampling, responses 0 of 32, token 8 of 9, graded 0 of 32",
        "evaluating step 1, responses 0 of 24, token 3 of 24",
    ):
        assert text in said
    assert any(text.startswith("updating, micro-batch 0 of ") for text in said)
