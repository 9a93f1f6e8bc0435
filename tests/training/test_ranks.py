"""Two ranks train what one rank trains: FSDP2 over gloo, refill, uneven lengths, checkpoints that change the number of ranks."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import torch.distributed as dist
from forked_ranks import ForkedRanks, share_a_step
from safetensors.torch import load_file
from small_runs import claimed, small_config

from harness.backends import builtin
from harness.base_policy.pretrained import Config as Pretrained
from harness.configuration.error import ConfigError
from harness.configuration.registry import member
from harness.configuration.schema import RunConfig
from harness.model.ranks import Ranks, balance_items, objects_group, open_group
from harness.rollout.types import Completions
from harness.store import RunDir
from harness.training import torchrun
from harness.training.micro_batches import micro_batches, rank_batches, rank_shares
from harness.training.step_data import StepData
from harness.training.task import base_evaluations
from harness.training.torchrun import RankFailed
from harness.training.update import Updater

EXACT = ("accuracy_mean", "kept_groups", "generated_tokens", "refill_rounds", "response_tokens_mean", "trained_tokens")
CLOSE = ("loss", "gradient_norm", "ratio_max", "entropy_nats")
ENGAGED = (
    "clip_released_fraction",
    "masked_fraction",
    "weight_change_response_mean",
    "weight_change_batch_token_mean",
    "sigma_weight_change",
    "refilled_fraction",
    "entropy_share",
)


def start(config: RunConfig, root: Path, ranks: int) -> RunDir:
    """The directory of the configuration's run on so many ranks."""
    config.runtime.ranks, config.runtime.results = ranks, str(root)
    return claimed(config, root)


def train(config: RunConfig, run: RunDir, stop: Callable[[], bool] = lambda: False) -> bool:
    """Train the run, going on once where gloo crashed: its worker thread in torch 2.13 does (once in several hundred runs on two cores)."""
    try:
        return builtin.train(config, run, stop, int(run.new_attempt().name))
    except RankFailed as error:
        if "SIGSEGV" not in str(error) and "code -11" not in str(error):
            raise
        return builtin.train(config, run, stop, int(run.new_attempt().name))


@pytest.fixture
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks without torchrun: its launcher, and libraries loaded by every rank, are shown by the first test alone."""
    monkeypatch.setattr(torchrun, "Child", ForkedRanks)


@pytest.fixture
def config(base_policy: Path) -> RunConfig:
    """Three steps of dynamic sampling with micro-batches of a few responses."""
    return small_config(
        model=Pretrained(path=str(base_policy), precision="float32"),
        training__steps=3,
        training__evaluate_every=3,
        algorithm__dead_groups__policy="refill",
        algorithm__entropy_coefficient=0.01,
        runtime__micro_batch_tokens=64,
    )


def weights(run: RunDir) -> dict[str, torch.Tensor]:
    return load_file(run.checkpoints()[-1][1] / "policy" / "model.safetensors")


def apart(one: RunDir, other: RunDir) -> float:
    """The largest distance between two weights of the final policies."""
    a, b = weights(one), weights(other)
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def on_one_and_two(config: RunConfig, folder: Path) -> tuple[RunDir, RunDir]:
    """The run trained on one rank and on two, whose weights agree."""
    config.runtime.gradient_checkpointing = True  # else one rank would train with the native decoder
    alone, together = (start(config, folder / str(n), n) for n in (1, 2))
    for config.runtime.ranks, run in ((1, alone), (2, together)):
        assert train(config, run)
    assert apart(alone, together) < 1e-5
    for run in (alone, together):
        assert sorted(item.name for item in run.checkpoints()[-1][1].iterdir()) == ["files.seal", "policy", "state.pt"]
    return alone, together


def test_two_ranks_train_what_one_rank_trains(config: RunConfig, tmp_path: Path) -> None:
    alone, together = on_one_and_two(config, tmp_path)
    first, second = alone.steps(), together.steps()
    assert first["refill_rounds"].max() > 1
    for column in EXACT:
        assert first[column].tolist() == second[column].tolist(), column
    for column in CLOSE:
        assert (first[column] - second[column]).abs().max() < 1e-5, column
    for column in ENGAGED:
        assert np.allclose(first[column], second[column], atol=1e-4, equal_nan=True), column
    assert first["weight_change_batch_token_mean"].sum() > 0
    assert first["entropy_share"].sum() > 0
    samples = [run.samples("arithmetic_heldout", 3) for run in (alone, together)]
    columns = ["problem_id", "sample_index", "max_response_tokens", "response", "correct"]
    assert samples[0][columns].equals(samples[1][columns])


@pytest.mark.usefixtures("_forked")
def test_two_ranks_choose_the_same_tokens_by_their_covariance(config: RunConfig, tmp_path: Path) -> None:
    """Clip-Cov chooses among all tokens of an update, wherever they were scored."""
    clip_cov = member("harness.objective.surrogate", "clip_cov").Config
    config.algorithm.surrogate = clip_cov(fraction=0.1, low=0.01, high=50.0)
    config.training.steps = config.training.evaluate_every = 2
    alone, together = on_one_and_two(config, tmp_path)
    first, second = alone.steps(), together.steps()
    assert first["selected_fraction"].min() > 0
    assert first["selected_fraction"].tolist() == second["selected_fraction"].tolist()


@pytest.mark.usefixtures("_forked")
def test_two_ranks_centre_the_score_as_one_rank_does(config: RunConfig, tmp_path: Path) -> None:
    config.algorithm.surrogate = member("harness.objective.surrogate", "score_centering").Config(head=6)
    config.training.steps = config.training.evaluate_every = 2
    alone, _ = on_one_and_two(config, tmp_path)
    assert alone.steps()["gradient_norm"].max() > 0


@pytest.mark.usefixtures("_forked")
@pytest.mark.parametrize(("first", "then", "lag"), [(2, 1, 0), (1, 2, 0), (1, 1, 0), (2, 2, 1)])
def test_a_stopped_run_resumes_on_another_number_of_ranks(
    config: RunConfig, tmp_path: Path, first: int, then: int, lag: int
) -> None:
    """One process writes whole tensors into a plain file, several ranks their shards, and each what it has sampled ahead."""
    config.training.steps, config.training.evaluate_every, config.sampling.lag_steps = 4, 4, lag
    straight, parted = (start(config, tmp_path / name, 1) for name in ("straight", "parted"))
    config.runtime.gradient_checkpointing = True  # else the whole run would be the native decoder's
    assert train(config, straight)
    config.runtime.ranks, config.runtime.gradient_checkpointing = first, first == 1
    assert not train(config, parted, stop=lambda: bool(parted.last_step()))
    stopped = parted.last_step()
    assert stopped is not None
    assert stopped["step"] < 4
    files = {item.name for item in parted.checkpoints()[-1][1].iterdir()}
    assert files == {"state.pt", "files.seal", "trained.pt" if first == 1 else "shards"}
    if lag:
        config.runtime.ranks = 1
        with pytest.raises(ConfigError, match="each of its 2 ranks; resume with as many"):
            train(config, parted)
    config.runtime.ranks, config.runtime.gradient_checkpointing = then, False
    assert train(config, parted)
    assert apart(straight, parted) < 1e-5
    assert parted.steps()["step"].tolist() == [1, 2, 3, 4]


@pytest.mark.usefixtures("_forked")
def test_a_failing_rank_ends_the_run_with_its_own_words(config: RunConfig, tmp_path: Path, base_policy: Path) -> None:
    shutil.copytree(base_policy, tmp_path / "torn")
    (tmp_path / "torn" / "model.safetensors").unlink()
    config.model.path = str(tmp_path / "torn")
    run = start(config, tmp_path / "store", 2)
    with pytest.raises(ConfigError, match=r"rank \d: .*model\.safetensors"):
        train(config, run)


def test_a_sharded_policy_takes_no_samples_of_one_rank(config: RunConfig, base_policy: Path, tmp_path: Path) -> None:
    """It is another implementation, whose rounding some responses follow."""
    run, grader = start(config, tmp_path, 1), Mock(verifier=Mock(fingerprint=lambda: "rules"))
    alone, first, second = (
        base_evaluations(config, run, base_policy, "torch", grader, ranks)
        for ranks in (Ranks(), Ranks(0, 2), Ranks(1, 2))
    )
    assert first == second != alone


def test_ranks_wait_long_for_values_and_not_for_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that waits in the wrong collective is seen after twenty minutes, one that waits for a download after four hours."""
    waits: list[timedelta] = []
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(dist, "is_initialized", lambda: False)
    monkeypatch.setattr(dist, "init_process_group", lambda _, timeout: waits.append(timeout))
    monkeypatch.setattr(dist, "new_group", lambda backend, timeout: waits.append(timeout))
    open_group()
    objects_group.__wrapped__()
    assert waits == [timedelta(minutes=20), timedelta(hours=4)]


def of_lengths(lengths: torch.Tensor, groups: torch.Tensor, prompt: int) -> StepData:
    """Responses of these lengths to prompts of one length."""
    tokens, every = torch.zeros(int(lengths.sum())), torch.ones(len(lengths), dtype=torch.bool)
    completions = Completions(tokens, tokens, tokens, lengths, every)
    return replace(StepData.of_responses([[0] * prompt] * len(lengths), completions, 1, every, ~every), group_R=groups)


def test_rows_are_balanced_and_every_rank_makes_as_many_passes() -> None:
    assert balance_items([5, 4, 3, 3, 3], 2) == [[0, 3], [1, 2, 4]]
    totals = torch.tensor([10, 3, 8, 8, 2, 30, 1])
    groups = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    rows = torch.tensor([0, 1, 2, 3, 5, 6])
    data = of_lengths(totals - 1, groups, prompt=1)
    shares = rank_shares(rows, data, 3, pairs=False)
    parts = [rank_batches(shares, data, 16, rank, pairs=False) for rank in range(3)]
    assert len({len(part) for part in parts}) == 1
    seen = sorted(int(row) for part in parts for batch in part if batch is not None for row in batch)
    assert seen == sorted(rows.tolist())
    assert rank_batches(rank_shares(rows[:0], data, 3, pairs=False), data, 16, 0, pairs=False) == []


def test_a_rank_sends_the_scores_of_its_share_alone() -> None:
    data = of_lengths(torch.full((64,), 50), torch.arange(64), prompt=1)
    sent: list[int] = []
    updater = Mock(config=small_config(runtime__micro_batch_tokens=400), ranks=Mock(rank=0, world=2))
    updater.ranks.gather = lambda value: sent.append(len(pickle.dumps(value))) or [value]
    updater._passes = partial(Updater._passes, updater)
    updater.objective.surrogate.pairs = updater.divides_tokens = False
    policy = Mock(constant_weights=nullcontext, token_log_probs=lambda _, tokens, *__: (torch.ones(len(tokens)), None))
    scores_N, _ = Updater.score(updater, policy, data)
    assert int(scores_N.sum()) == 1600  # half of the tokens
    assert sent[0] < 4 * len(data.tokens_N)


def test_a_rank_gets_the_tokens_of_its_share_alone(tmp_path: Path) -> None:
    """What was sampled takes 17 · 8 bytes a token, 16 likeliest ones among it; what every rank is told takes 8."""
    processes = [get_context("forkserver").Process(target=share_a_step, args=(rank, tmp_path)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    numbers = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    tokens, told, sent, kept = map(sum, zip(*numbers, strict=True))
    assert told < 1.2 * 8 * tokens
    assert sent + kept < 1.1 * 17 * 8 * tokens
    assert sent < 0.6 * 17 * 8 * tokens


def test_packed_batches_count_a_prompt_once_a_group_and_padded_ones_the_longest() -> None:
    totals, groups, rows = torch.tensor([4, 4, 12, 5, 5]), torch.tensor([0, 0, 0, 1, 1]), torch.arange(5)
    data = of_lengths(totals - 3, groups, prompt=3)
    packed = list(micro_batches(rows, data, 14, shares_prompts=True, pairs=False))  # 4 + 1 + 9, then 5 + 2
    assert [part.tolist() for part in packed] == [[0, 1, 2], [3, 4]]
    # The cut group's prompt counts twice.
    cut = list(micro_batches(rows, data, 13, shares_prompts=True, pairs=False))
    assert [part.tolist() for part in cut] == [[0, 1], [2], [3, 4]]
    padded = list(micro_batches(torch.arange(3), data, 20, shares_prompts=False, pairs=False))
    assert [part.tolist() for part in padded] == [[0, 1], [2]]
