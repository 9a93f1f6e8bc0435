"""What TRL's trainer asks of us in a step: rewards of its responses, and with dynamic sampling the groups to train on."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from harness.backends.trl.settings import reward_scale
from harness.exchange.dialect import COMPONENTS
from harness.objective.objective import Objective
from harness.rollout.noise import key, sample_seeds
from harness.rollout.types import Completions
from harness.sampling.selection import Groups, Selection, choose_groups, enough
from harness.training.grading import Tally, graded_groups, refuse_a_broken_function
from harness.training.mechanisms import MechanismShares, mechanism_shares
from harness.training.step_data import StepData
from harness.training.task import TaskParts
from harness.training.update import components_of, rollout_batch

Sample = Callable[[list[list[int]]], list[list[int]]]
"""Gives one response to each prompt, token ids both."""


class Rollouts:
    """The groups of the step that is being trained on; on several ranks each has all of them, and samples and grades its share.

    `graded_at`: when its last reward was given, by `time.perf_counter`.
    """

    def __init__(self, parts: TaskParts) -> None:
        self.parts, self.ranks, self.step, self.tally, self.graded_at = parts, parts.ranks, 1, Tally(), 0.0
        self.selection: Selection | None = None
        self._batch: Groups | None = None  # with dynamic sampling: the responses TRL has been given
        self._scale = reward_scale(parts.config)

    def begin(self, step: int) -> None:
        """The responses to come are of this rollout step (1-based)."""
        self.step, self.tally, self.selection, self._batch = step, Tally(), None, None

    def reward_functions(self) -> list[Callable[..., list[float]]]:
        """The shaped reward; with decoupled rewards its addends, in the order of their weights."""
        if self.parts.config.algorithm.advantage.kind != "decoupled":
            return [self.shaped_reward]
        return [self._component(number, name) for number, name in enumerate(COMPONENTS)]

    def shaped_reward(self, completion_ids: list[list[int]], problem: list[int], **_: Any) -> list[float]:
        return self._share(self._groups(completion_ids, problem).rewards_PG.flatten().tolist())

    def _component(self, number: int, name: str) -> Callable[..., list[float]]:
        def reward(completion_ids: list[list[int]], problem: list[int], **_: Any) -> list[float]:
            parts_PGC = components_of(self.parts.config, self._groups(completion_ids, problem))
            return self._share((self._scale * parts_PGC[..., number]).flatten().tolist())

        reward.__name__ = name
        return reward

    def _share(self, rows: list[Any]) -> list[Any]:
        """This rank's rows of the step, as TRL deals them: equal parts in rank order."""
        return rows[self.ranks.share(len(rows))]

    def _groups(self, completion_ids: list[list[int]], problem: list[int]) -> Groups:
        """The graded groups of TRL's responses, graded once. A group may lie on two ranks. Collective."""
        if self._batch is None:
            size = self.parts.config.algorithm.responses_per_prompt
            shares = self.ranks.gather((problem, completion_ids))
            problems_P = np.array([number for numbers, _ in shares for number in numbers])[::size]
            token_lists, share = [ids for _, lists in shares for ids in lists], self.ranks.share(len(problems_P))
            self._batch = self._grade(problems_P, token_lists[share.start * size : share.stop * size], 0)
            self.selection = self._choose([self._batch])
        self.graded_at = time.perf_counter()
        return self._batch

    def _grade(self, problems_P: np.ndarray, token_lists: Sequence[Sequence[int]], number: int) -> Groups:
        """All groups of a step's round `number`; `token_lists` are the responses to this rank's share of the problems. Collective."""
        start, parts, own_groups = time.perf_counter(), self.parts, list[Groups]()
        if token_lists:
            mine_P = problems_P[self.ranks.share(len(problems_P))]
            stream = key("train", parts.config.seed, self.step, number)
            seeds_PG = sample_seeds(stream, parts.prompt_keys[mine_P], len(token_lists) // len(mine_P))
            completions = completions_of(token_lists, parts.params.stop_token_ids)
            own_groups.append(graded_groups(parts, mine_P, completions, seeds_PG, self.tally))
        if self.step == 1 and not number:
            refuse_a_broken_function(parts, self.tally)
        self.tally.seconds_verify += time.perf_counter() - start
        return Groups.concatenate([groups for part in self.ranks.gather(own_groups) for groups in part])

    def _choose(self, rounds: list[Groups]) -> Selection:
        algorithm = self.parts.config.algorithm
        return choose_groups(rounds, algorithm.dead_groups, algorithm.prompts_per_step)

    def refill(self, sample: Sample) -> dict[str, Any]:
        """Sample rounds until the batch is full of groups with contrast; what TRL's `rollout_func` returns. Collective.

        Places that stay empty hold groups of the first round, without loss (`env_mask`).
        """
        algorithm, parts, rounds = self.parts.config.algorithm, self.parts, list[Groups]()
        count, size = algorithm.prompts_per_step, algorithm.responses_per_prompt
        while not enough(rounds, algorithm.dead_groups, count):
            problems_P = parts.curriculum.draw(count)
            mine = problems_P[self.ranks.share(count)].tolist()
            token_lists = sample([parts.prompts[i] for i in mine for _ in range(size)]) if mine else []
            rounds.append(self._grade(problems_P, token_lists, len(rounds)))
        self.selection = self._choose(rounds)
        live = self.selection.kept
        batch = Groups.concatenate([live, rounds[0].select(torch.arange(count - len(live)))])
        self._batch = batch
        token_lists = batch.completions.token_lists()
        problems = batch.problems_P.repeat_interleave(size).tolist()
        return {
            "prompt_ids": self._share([list(parts.prompts[i]) for i in problems]),
            "completion_ids": self._share(token_lists),
            "logprobs": None,
            "env_mask": self._share([[int(row < len(live) * size)] * len(ids) for row, ids in enumerate(token_lists)]),
        }

    def shares(self) -> tuple[MechanismShares, int]:
        """Return what the step's mechanisms affected, all its updates as one, and how many groups have gradient."""
        assert self.selection is not None
        config, groups = self.parts.config, self.selection.kept
        if not len(groups):
            return MechanismShares(), 0
        objective, masked_PG = Objective(config.algorithm), groups.truncated_PG & config.algorithm.overlong.masks
        data = StepData.of_groups(groups, [self.parts.prompts[i] for i in groups.problems_P.tolist()], masked_PG)
        rollouts = rollout_batch(config, objective, groups, masked_PG)
        data.advantages_N = objective.advantages(rollouts)
        first_R = groups.completions.offsets[:-1]  # a response's tokens have one advantage
        has_advantage_R = data.advantages_N[first_R] != 0
        shares = mechanism_shares(config, objective, groups, data, rollouts, has_advantage_R)
        lengths_R, group_R = data.loss_lengths_R, data.group_R
        counts = objective.count(lengths_R, group_R)
        weights_R = objective.aggregation.response_weights(lengths_R, group_R, counts)
        has_gradient_R = has_advantage_R & (lengths_R > 0)
        shares.add_update(objective, weights_R, lengths_R, group_R, counts, has_gradient_R)
        return shares, len(group_R[has_gradient_R].unique())


def completions_of(token_lists: Sequence[Sequence[int]], stop_token_ids: Sequence[int]) -> Completions:
    """Responses as token ids; TRL gives neither their log-probabilities nor entropies."""
    tokens_N = torch.tensor([token for ids in token_lists for token in ids], dtype=torch.int64)
    nan_N = torch.full(tokens_N.shape, float("nan"))
    return Completions(
        tokens_N=tokens_N,
        log_probs_N=nan_N,
        entropy_N=nan_N,
        lengths_R=torch.tensor([len(ids) for ids in token_lists], dtype=torch.int64),
        finished_R=torch.tensor([ids[-1] in stop_token_ids for ids in token_lists], dtype=torch.bool),
    )
