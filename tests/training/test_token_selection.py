"""Clip-Cov and KL-Cov choose their tokens over a whole optimiser update: micro-batches and ranks change nothing, and a draw repeats."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_runs import small_config
from test_update import gradient, random_groups

from harness.configuration.registry import member
from harness.configuration.schema import RunConfig
from harness.model.policy import NativePolicy
from harness.objective.objective import Objective
from harness.training.update import Updater

SETTINGS: dict[str, dict[str, float]] = {
    "clip_cov": {"fraction": 0.1, "low": 0.01, "high": 50.0},
    "kl_cov": {"fraction": 0.1},
}


def configured(kind: str, **changes: object) -> RunConfig:
    surrogate = member("harness.objective.surrogate", kind).Config(**SETTINGS[kind])
    return small_config(algorithm__surrogate=surrogate, **changes)


class Watching(Updater):
    """An updater that keeps every choice, and makes no optimiser step."""

    def _select(self, data, rows, stream):  # type: ignore[no-untyped-def]
        chosen = super()._select(data, rows, stream)
        self.choices.append(data.selected_N.clone())  # type: ignore[attr-defined]
        return chosen


def choices(config: RunConfig, folder: Path, step: int = 1) -> list[torch.Tensor]:
    """The tokens that each update chose, as masks."""
    groups, prompts = random_groups(6, 4)
    config.algorithm.prompts_per_step, config.algorithm.updates_per_step = 6, 2
    updater = Watching(config, NativePolicy.load(folder, "torch"), Objective(config.algorithm))
    updater.choices, updater.optimizer.step = [], lambda *_: None  # type: ignore[attr-defined, method-assign, assignment]
    stats = updater.update_step(step, groups, prompts)
    found: list[torch.Tensor] = updater.choices  # type: ignore[attr-defined]
    assert stats.selected_tokens == sum(int(chosen.sum()) for chosen in found)
    return found


@pytest.mark.parametrize("kind", sorted(SETTINGS))
def test_micro_batches_change_neither_choice_nor_gradient(base_policy: Path, kind: str) -> None:
    whole = choices(configured(kind), base_policy)
    split = choices(configured(kind, runtime__micro_batch_tokens=25), base_policy)
    tokens = len(whole[0])
    for mine, other in zip(whole, split, strict=True):
        assert torch.equal(mine, other)
        assert 0 < int(mine.sum()) <= tokens // 10
    groups, prompts = random_groups(6, 4)
    one, loss = gradient(configured(kind), base_policy, groups, prompts)
    many, split_loss = gradient(configured(kind), base_policy, groups, prompts, 25)
    torch.testing.assert_close(many, one, atol=1e-6, rtol=1e-4)
    assert loss == pytest.approx(split_loss, abs=1e-6)
    surrogate = "ppo_clip" if kind == "clip_cov" else "policy_gradient"
    plain = small_config(algorithm__surrogate=member("harness.objective.surrogate", surrogate).Config())
    assert not torch.allclose(gradient(plain, base_policy, groups, prompts)[0], one, atol=1e-5)


def test_the_draw_is_of_seed_and_step_and_repeats(base_policy: Path) -> None:
    first = choices(configured("clip_cov"), base_policy)
    again = choices(configured("clip_cov"), base_policy)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    later = choices(configured("clip_cov"), base_policy, step=2)
    assert not torch.equal(sum(first), sum(later))  # type: ignore[arg-type]


def test_tokens_without_loss_are_never_chosen(base_policy: Path) -> None:
    config = configured("kl_cov", algorithm__overlong__policy="mask")
    made = random_groups(6, 4)[0].completions
    cut_N = (~made.finished_R).repeat_interleave(made.lengths_R)
    assert bool(cut_N.any())
    assert not any(bool((chosen & cut_N).any()) for chosen in choices(config, base_policy))
