"""Our plugin in the real verl 0.9.1: what its trainer selects, masks and weighs over its own queue is what ours does of the same rounds.

Optional: needs `python tests/parity/build_peer.py verl` (an environment of its own, no GPU) and is skipped without it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_verl_environment import PLACE, ask

from harness.backends.verl.overrides import overrides, refusals
from harness.configuration.compose import compose_run
from harness.configuration.schema import RunConfig
from harness.objective.types import RolloutBatch
from harness.rollout.types import Completions
from harness.sampling.selection import Groups, Selection, choose_groups, enough

sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))
from build_peer import ready

pytestmark = [
    pytest.mark.optional,
    pytest.mark.skipif(not ready("verl"), reason="no verl environment: python tests/parity/build_peer.py verl"),
]
PROMPTS, SIZE, ROUNDS, SEEDS = 4, 3, 3, 4
COMMON = [
    "backend=verl", "model=qwen25_0_5b", "evaluation.samples_between=null", f"algorithm.prompts_per_step={PROMPTS}",
    f"algorithm.responses_per_prompt={SIZE}", "algorithm.updates_per_step=1",
]  # fmt: skip
REFILL = ["algorithm.dead_groups.policy=refill", f"algorithm.dead_groups.max_rounds={ROUNDS}"]
FILTER, PLAIN = "rung=dapo_1_overlong_filtering", "algorithm=dapo_replaces_filter"
ADVANTAGE = "algorithm.advantage"
ARMS = {
    "overlong filtering": [FILTER],
    "filtered out of the statistics": [FILTER, "algorithm.overlong.statistics=exclude"],
    "dapo": ["rung=dapo_5_dynamic_sampling", *REFILL],
    "refill by reward, scale of the batch": ["algorithm=lite_ppo", *REFILL, "algorithm.dead_groups.metric=reward"],
    "dropped groups": ["algorithm=dapo", "algorithm.dead_groups.policy=drop", f"{ADVANTAGE}.scale=batch_std"],
    "pass rate": ["algorithm=max_rl", *REFILL],
    "leave one out, population": [
        "algorithm=dapo",
        *REFILL,
        f"{ADVANTAGE}.baseline=leave_one_out",
        f"{ADVANTAGE}.ddof=0",
    ],
    "no baseline": ["algorithm=reinforce", "algorithm.overlong.policy=mask"],
    "returns over sequences": [
        PLAIN,
        *REFILL,
        "algorithm/advantage=return_to_go",
        f"{ADVANTAGE}.whiten_over=sequences",
    ],
}
Round = list[list[list[float]]]


def drawn(seed: int) -> list[Round]:
    """Rounds of groups of responses (right, truncated, tokens, score); half of the groups are without contrast."""
    rng = np.random.default_rng(seed)
    right = rng.random((ROUNDS, PROMPTS, SIZE)) < 0.5
    right = np.where(rng.random((ROUNDS, PROMPTS, 1)) < 0.5, right[..., :1], right)
    truncated, tokens = rng.random(right.shape) < 0.3, rng.integers(1, 7, right.shape)
    score = np.where(right, 1.0, -1.0) - 0.5 * truncated
    return np.stack([right, truncated, tokens, score], -1).tolist()


def groups_of(given: Round, first: int) -> Groups:
    right, truncated, tokens, score = torch.tensor(given).unbind(-1)
    lengths_R = tokens.long().reshape(-1)
    nothing_N = torch.zeros(int(lengths_R.sum()))
    completions = Completions(nothing_N, nothing_N, nothing_N, lengths_R, ~truncated.bool().reshape(-1))
    return Groups(first + torch.arange(len(given)), completions, right.bool(), right.bool(), score)


def selected(config: RunConfig, rounds: list[Round]) -> Selection:
    """What our own trainer takes of the rounds."""
    used: list[Groups] = []
    dead = config.algorithm.dead_groups
    while not enough(used, dead, PROMPTS, None):
        used.append(groups_of(rounds[len(used)], PROMPTS * len(used)))
    return choose_groups(used, dead, PROMPTS, None)


def expected(config: RunConfig, kept: Groups) -> dict[str, tuple[int, list[float]]]:
    """Loss tokens and advantages (0 without loss) of every response that our trainer trains on, by verl's keys."""
    masked_PG = kept.truncated_PG & config.algorithm.overlong.masks
    excluded = config.algorithm.overlong.statistics == "exclude"
    batch = RolloutBatch(
        rewards_PG=kept.rewards_PG,
        correct_PG=kept.correct_PG,
        lengths_PG=kept.lengths_PG,
        counted_PG=~masked_PG if excluded else torch.ones_like(masked_PG),
    )
    advantages = config.algorithm.advantage.advantages(batch).split(kept.lengths_PG.reshape(-1).tolist())
    rows = zip(advantages, masked_PG.reshape(-1).tolist(), strict=True)
    keys = [f"{problem:03}_{j}" for problem in kept.problems_P.tolist() for j in range(SIZE)]
    return {
        key: (0 if masked else len(each), (each * (not masked)).tolist())
        for key, (each, masked) in zip(keys, rows, strict=True)
    }


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, int], dict[str, Any]]:
    """What verl's trainer makes of every arm's rounds: one process for all."""
    asked = [(name, seed) for name in ARMS for seed in range(SEEDS)]
    cases = [{"overrides": overrides(arm(name), PLACE), "rounds": drawn(seed)} for name, seed in asked]
    alone = [[[1, 1, 2, 1.0], [0, 1, 2, -1.0], [0, 1, 2, -1.0]]] * PROMPTS
    cases.append({"overrides": overrides(arm("overlong filtering"), PLACE), "rounds": [alone]})
    return dict(zip([*asked, ("nothing but truncated", 0)], ask("verl_peer_trainer.py", cases), strict=True))


def arm(name: str) -> RunConfig:
    config = compose_run([*COMMON, *ARMS[name]])
    assert refusals(config) == []
    return config


@pytest.mark.parametrize("name", ARMS)
def test_verls_trainer_selects_masks_and_weighs_as_ours(
    answers: dict[tuple[str, int], dict[str, Any]], name: str
) -> None:
    config, short = arm(name), 0
    for seed in range(SEEDS):
        ours, theirs = selected(config, drawn(seed)), answers[name, seed]
        rows, mine = theirs["rows"], expected(config, ours.kept)
        assert (theirs["rounds"], theirs["left"]) == (ours.rounds, [])
        assert len(rows) == PROMPTS * SIZE
        for key, (tokens, advantages) in mine.items():
            assert (rows[key]["mask"], rows[key]["loss_mask"]) == (tokens, tokens)
            assert rows[key]["advantage"] == pytest.approx(advantages, rel=1e-6, abs=1e-7), key
        # Groups without contrast fill the batch up and do nothing.
        for key in rows.keys() - mine.keys():
            assert (rows[key]["mask"], rows[key]["loss_mask"], set(rows[key]["advantage"])) == (0, 0, {0.0})
        short += len(ours.kept) < PROMPTS
    dead = config.algorithm.dead_groups
    assert short or dead.policy == "keep" or dead.metric == "reward", "no step was short of groups"


def test_a_step_without_any_loss_keeps_one_response_without_advantage(
    answers: dict[tuple[str, int], dict[str, Any]],
) -> None:
    rows = answers["nothing but truncated", 0]["rows"].values()
    assert sorted(row["mask"] for row in rows) == [0] * (PROMPTS * SIZE - 1) + [2]
    assert all(set(row["advantage"]) == {0.0} for row in rows)
