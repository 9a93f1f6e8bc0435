"""One run of TRL's on two processes (DDP over gloo): rows of the whole step, one policy, the update of one process, stops and resume."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch

pytest.importorskip("trl", reason="TRL is not installed")

from small_runs import claimed
from test_trl_run import never, numbers, trl_config

from harness.backends import trl
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.configuration.sections import RuntimeConfig
from harness.model.checkpoint import read_state
from harness.objective.aggregation import batch_token_mean
from harness.store import RunDir
from harness.store.layout import attempt_dir
from harness.training import torchrun
from harness.training.torchrun import RankFailed

pytestmark = pytest.mark.thorough
Train = Callable[..., bool]


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains by two ranks of `trl_rank.py` with these options."""

    def trained(config: RunConfig, run: RunDir, attempt: int, *options: str, stop: Callable[[], bool] = never) -> bool:
        def command(runtime: RuntimeConfig, path: Path, number: int) -> list[str]:
            launcher = torchrun_command(runtime, path, number)
            module = launcher.index("harness.training.torchrun")
            program = str(Path(__file__).with_name("trl_rank.py"))
            return [*launcher[: module - 1], program, *launcher[module + 1 :], *options]

        monkeypatch.setattr(torchrun, "torchrun_command", command)
        attempt_dir(run.path, attempt).mkdir(parents=True, exist_ok=True)
        return trl.train(config, run, stop, attempt)

    torchrun_command = torchrun.torchrun_command
    return trained


def given(run: RunDir, attempt: int = 0) -> pd.DataFrame:
    """What TRL had for rewards, of both ranks: step, problem, tokens and reward of each response."""
    names = ["step", "problem", "tokens", "reward"]
    files = [attempt_dir(run.path, attempt) / f"given-{rank}.jsonl" for rank in range(2)]
    frames = [pd.read_json(file, lines=True).set_axis(names, axis="columns") for file in files]
    assert len(frames[0]) == len(frames[1]) > 0
    return pd.concat(frames)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], apart: float = 0.0) -> bool:
    return all(float((one[name] - other[name]).abs().max()) <= apart for name in one)


def test_rows_are_of_the_whole_step_and_a_killed_run_resumes_to_the_numbers_of_an_undisturbed_one(
    tmp_path: Path, train: Train, capfd: pytest.CaptureFixture[str]
) -> None:
    # Ten responses a process and four a group: the third group lies on both.
    config = trl_config(algorithm__prompts_per_step=5, algorithm__updates_per_step=5, runtime__ranks=2)
    run, other = claimed(config, tmp_path / "whole"), claimed(config, tmp_path / "killed")
    assert train(config, run, 0)
    assert "find_unused_parameters" not in capfd.readouterr().err
    steps, responses = run.steps(), given(run).groupby("step")
    assert list(steps["step"]) == [1, 2, 3, 4]
    assert (responses["reward"].size() == 20).all()
    assert (responses["problem"].value_counts() == 4).all()
    assert list(steps["generated_tokens"]) == list(responses["tokens"].sum())
    assert list(steps["response_tokens_mean"]) == pytest.approx(list(responses["tokens"].mean()))
    # TRL has the rewards a hundredfold only by its weights; rows have them as they are.
    assert list(steps["reward_mean"]) == pytest.approx(list(responses["reward"].mean()), abs=1e-6)
    assert list(steps["accuracy_mean"]) == pytest.approx([(mean + 1) / 2 for mean in responses["reward"].mean()])
    models = [torch.load(attempt_dir(run.path, 0) / f"model-{rank}.pt") for rank in range(2)]
    assert same(*models)
    assert same(read_state(run.checkpoints()[-1][1] / "policy"), models[0])
    assert run.sample_steps("arithmetic_heldout") == [0, 2, 4]

    with pytest.raises(RankFailed):  # the other rank tells of it
        train(config, other, 0, "kill")
    assert [step for step, _ in other.checkpoints()] == [2]
    alone = trl_config(algorithm__prompts_per_step=5, algorithm__updates_per_step=5)
    with pytest.raises(ConfigError, match=r"began with runtime\.ranks=2"):
        trl.train(alone, other, never, 1)
    assert train(config, other, 1)
    pd.testing.assert_frame_equal(numbers(run), numbers(other))
    assert same(*(read_state(each.checkpoints()[-1][1] / "policy") for each in (run, other)))


def test_two_processes_make_the_updates_of_one_until_a_stop_and_a_budget(
    tmp_path: Path, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same responses, whoever samples them; dynamic sampling takes another round for all."""
    from trl_rank import fixed_sample

    from harness.backends.trl import trainer

    monkeypatch.setattr(trainer, "sample", fixed_sample)
    config = trl_config(
        algorithm__dead_groups__policy="refill",
        algorithm__dead_groups__max_rounds=3,
        algorithm__aggregation=batch_token_mean.Config(),
        algorithm__updates_per_step=1,  # of several, each takes random responses of a process's share
        algorithm__reward__true_positive=0.3,  # verdicts are random, by response
        algorithm__reward__false_positive=0.3,
        training__generated_tokens=900,
    )
    alone = claimed(config, tmp_path / "1")
    assert trl.train(config, alone, never, 0)
    config.runtime.ranks = 2
    together = claimed(config, tmp_path / "2")
    assert not train(config, together, 0, "fixed", stop=lambda: bool(together.sample_steps("arithmetic_heldout")))
    assert [step for step, _ in together.checkpoints()] == [1]
    assert train(config, together, 1, "fixed")
    one, two = numbers(alone), numbers(together)
    assert list(one["step"]) == list(two["step"])
    assert one["generated_tokens_total"].iloc[-1] >= 900 > one["generated_tokens_total"].iloc[-2]
    assert one["refill_rounds"].max() > 1
    pd.testing.assert_frame_equal(one, two, rtol=1e-4, atol=1e-5)
    assert same(*(read_state(each.checkpoints()[-1][1] / "policy") for each in (alone, together)), apart=1e-5)
