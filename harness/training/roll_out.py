"""Generating and grading a step's groups; each rank generates and grades its share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from harness.configuration.schema import RunConfig
from harness.model.ranks import Ranks
from harness.problems.problem import Problem
from harness.reward.grading import Grader
from harness.reward.shaping import shaped_rewards
from harness.rollout.noise import key, sample_seeds
from harness.rollout.types import Completions, RolloutEngine, SamplingParams
from harness.sampling.groups import Groups
from harness.training.verdict_noise import believed


class RollOut:
    """Asks a source for responses and the verifier for verdicts. `seconds` and `verifier_faults` are of the step so far.

    Args:
        config: the run.
        source: where responses come from (see `harness.sampling.source`).
        engine: samples from the current policy.
        problems: the training problems, and `prompts` their token ids.
        tokenizer: decodes responses for the verifier.
        grader: the verifier.
        params: how responses are sampled.
        curriculum: draws problems and is told how they went.
        ranks: who shares the work.
    """

    def __init__(
        self,
        config: RunConfig,
        source: Any,
        engine: RolloutEngine,
        problems: Sequence[Problem],
        prompts: Sequence[Sequence[int]],
        tokenizer: Any,
        grader: Grader,
        params: SamplingParams,
        curriculum: Any,
        ranks: Ranks,
    ) -> None:
        self.config, self.source, self.engine = config, source, engine
        self.problems, self.prompts = problems, prompts
        self.tokenizer, self.grader, self.params, self.ranks = tokenizer, grader, params, ranks
        self.curriculum = curriculum
        self.prompt_keys = np.array([key("problem", problem.id) for problem in problems])
        self.seconds = {"rollout": 0.0, "verify": 0.0}
        self.verifier_faults = 0  # timeouts, killed workers, errors, refused answers
        self.verdicts, self.flipped_verdicts = 0, 0

    def start_step(self) -> None:
        """Set the step's clocks and counters to zero."""
        self.seconds = {"rollout": 0.0, "verify": 0.0}
        self.verifier_faults = 0
        self.verdicts, self.flipped_verdicts = 0, 0

    def round(self, step: int, round_: int, count: int) -> Groups:
        """One round of `count` groups; noise belongs to (run seed, step, round, problem, sample, position)."""
        chosen = self.curriculum.draw(count)
        groups = self.groups(chosen, self.seeds(step, round_, chosen))
        self.curriculum.observe(chosen, groups.accuracy_P.numpy())
        return groups

    def seeds(self, step: int, round_: int, chosen: np.ndarray) -> np.ndarray:
        """Seeds [P, G] of a round's responses."""
        stream = key("train", self.config.seed, step, round_)
        return sample_seeds(stream, self.prompt_keys[chosen], self.config.algorithm.responses_per_prompt)

    def groups(self, chosen: np.ndarray, seeds_PG: np.ndarray) -> Groups:
        """Graded groups of the chosen problems, in order, on every rank."""
        begin = time.perf_counter()
        mine = self.ranks.share(len(chosen))
        parts = []
        if len(chosen[mine]):
            completions = self.source.generate(chosen[mine], seeds_PG[mine], self.params)
            self.seconds["rollout"] += time.perf_counter() - begin
            parts.append(self.graded(chosen[mine], completions, seeds_PG[mine]))
        begin = time.perf_counter()
        gathered = [part for rank_parts in self.ranks.gather(parts) for part in rank_parts]
        self.seconds["rollout"] += time.perf_counter() - begin
        return gathered[0] if len(gathered) == 1 else Groups.concatenate(gathered)

    def graded(self, chosen: np.ndarray, completions: Completions, seeds_PG: np.ndarray) -> Groups:
        """Verdicts and shaped rewards of the responses to the chosen problems; their seeds decide where a noisy verifier errs."""
        begin = time.perf_counter()
        algorithm = self.config.algorithm
        size = algorithm.responses_per_prompt
        golds = [self.problems[i].gold for i in chosen for _ in range(size)]
        grades = self.grader.grade(self.texts(completions.token_lists()), golds)
        self.verifier_faults += grades.faults
        shape = (len(chosen), size)
        exact, answered = grades.correct_R.view(shape), grades.answered_R.view(shape)
        correct = believed(exact, seeds_PG, algorithm.reward)
        self.flipped_verdicts += int((correct != exact).sum())
        self.verdicts += exact.numel()
        rewards = shaped_rewards(
            correct,
            answered,
            completions.lengths_R.view(shape),
            self.params.max_response_tokens,
            algorithm.reward,
            algorithm.overlong,
            ~completions.finished_R.view(shape),
        )
        groups = Groups(torch.from_numpy(chosen.astype(np.int64)), completions, correct, answered, rewards)
        self.seconds["verify"] += time.perf_counter() - begin
        return groups

    def texts(self, token_lists: Sequence[Sequence[int]]) -> list[str]:
        """Responses as text, special tokens left out."""
        return list(self.tokenizer.batch_decode(token_lists, skip_special_tokens=True))

    def pass_rates(self, samples: int) -> tuple[np.ndarray, int]:
        """The policy's share of right answers on every problem from `samples` responses each, and the tokens generated for it."""
        rates, tokens = np.zeros(len(self.problems)), 0
        stream = key("calibrate", self.config.seed)
        for part in np.array_split(np.arange(len(self.problems)), max(1, len(self.problems) // 256)):
            mine = part[self.ranks.share(len(part))]
            done = self._rates_of(mine, sample_seeds(stream, self.prompt_keys[mine], samples))
            gathered = self.ranks.gather(done)
            rates[part] = np.concatenate([shares for shares, _ in gathered])
            tokens += sum(count for _, count in gathered)
        return rates, tokens

    def _rates_of(self, chosen: np.ndarray, seeds_PG: np.ndarray) -> tuple[np.ndarray, int]:
        if not len(chosen):
            return np.zeros(0), 0
        completions = self.engine.generate([self.prompts[i] for i in chosen], seeds_PG, self.params)
        golds = [self.problems[i].gold for i in chosen for _ in range(seeds_PG.shape[1])]
        grades = self.grader.grade(self.texts(completions.token_lists()), golds)
        shares = grades.correct_R.view(seeds_PG.shape).double().mean(1).numpy()
        return shares, int(completions.lengths_R.sum())
