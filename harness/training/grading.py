"""Responses to training problems become groups with verdicts and shaped rewards, whoever trains on them."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.configuration.sections import RewardConfig
from harness.reward.shaping import GradedAnswer, Grades, reward_components, shaped_rewards
from harness.rollout.noise import key, uniforms
from harness.rollout.types import Completions
from harness.sampling.selection import Groups
from harness.training.task import TaskParts


@dataclass
class Tally:
    """Time and verdicts of one step on this rank.

    Attributes:
        seconds_rollout, seconds_verify: spent on responses, and after them on their verdicts.
        faults: timeouts, killed workers, errors and refused answers of the verifier.
        verdicts, flipped: verdicts given, and those that a noisy verifier or a reward function turned round.
        unevaluated: answers of the right value that leave something to work out.
    """

    seconds_rollout: float = 0.0
    seconds_verify: float = 0.0
    faults: int = 0
    verdicts: int = 0
    flipped: int = 0
    unevaluated: int = 0


_VERDICTS = key("verdict")  # draws apart from the numbers that chose the response's tokens


def grade_answers(parts: TaskParts, problems_P: np.ndarray, completions: Completions) -> list[GradedAnswer]:
    """Grade the responses to these problems, special tokens left out; as many to each."""
    texts = list(parts.tokenizer.batch_decode(completions.token_lists(), skip_special_tokens=True))
    size = len(texts) // max(len(problems_P), 1)
    problems = [parts.problems[i] for i in problems_P for _ in range(size)]
    answers = texts, [problem.gold for problem in problems], [problem.prompt for problem in problems]
    grades = parts.grader.grade(*answers, truncated=(~completions.finished_R).tolist())
    return list(zip(*answers, grades.verdicts, strict=True))


def graded_groups(
    parts: TaskParts,
    problems_P: np.ndarray,
    completions: Completions,
    seeds_PG: np.ndarray,
    tally: Tally,
    jobs: Sequence[Future[list[GradedAnswer]]] = (),  # `grade_answers` of each group, where it has begun
) -> Groups:
    """Give the responses to these problems verdicts and shaped rewards; their seeds decide where a noisy verifier errs."""
    algorithm, function, shape = parts.config.algorithm, parts.reward_function, seeds_PG.shape
    # The verifier's verdicts, and what a noisy verifier makes of them.
    graded = [answer for job in jobs for answer in job.result()] or grade_answers(parts, problems_P, completions)
    *answers, verdicts = map(list, zip(*graded, strict=True))
    grades = Grades(verdicts)
    exact = grades.correct_R.view(shape)
    answered = torch.tensor([verdict.answer is not None for verdict in verdicts], dtype=torch.bool).view(shape)
    correct, outcome = noisy_verdicts(exact, seeds_PG, algorithm.reward), None
    tally.faults += grades.faults
    tally.unevaluated += sum(verdict.verdict == "unevaluated" for verdict in grades.verdicts)
    # A user's own reward function takes the verifier's place.
    if function is not None:
        faults_before = function.faults
        outcome = function.outcomes(*answers).view(shape)
        correct = outcome > 0
        tally.faults += function.faults - faults_before
    tally.flipped += int((correct != exact).sum())
    tally.verdicts += exact.numel()
    # Shaped rewards.
    components = reward_components(
        correct,
        answered,
        completions.lengths_R.view(shape),
        parts.params.max_response_tokens,
        algorithm.reward,
        algorithm.overlong,
        ~completions.finished_R.view(shape),
        outcome,
    )
    rewards = shaped_rewards(components, algorithm.overlong)
    return Groups(torch.from_numpy(problems_P.astype(np.int64)), completions, correct, answered, rewards)


def noisy_verdicts(correct_PG: torch.Tensor, seeds_PG: np.ndarray, reward: RewardConfig) -> torch.Tensor:
    """The verdicts that training sees, bool [P, G]: a verifier errs at the rates `true_positive` and `false_positive` of `reward`.

    The setting of noisy-verifier studies (arXiv:2601.04411: Youden's J = true minus false positive rate) and, at equal rates, a reward
    that is random whatever the answer (arXiv:2506.10947). A verdict's draw belongs to its response's seed, so it repeats, on any number
    of ranks. Held-out evaluation keeps the exact verifier.
    """
    if reward.exact:
        return correct_PG
    draws = torch.from_numpy(uniforms((seeds_PG ^ _VERDICTS).reshape(-1), 1)).view(correct_PG.shape)
    return draws <= torch.where(correct_PG, reward.true_positive, reward.false_positive).double()


def refuse_a_broken_function(parts: TaskParts, tally: Tally) -> None:
    """Raise `ConfigError`, on all ranks, where every call of a user's reward function has failed: nothing could be learned."""
    function = parts.reward_function
    if function is None:
        return
    counts = parts.ranks.gather((function.faults, tally.verdicts, function.last_fault))
    calls = sum(verdicts for _, verdicts, _ in counts)
    if calls and sum(faults for faults, _, _ in counts) == calls:
        last = next(fault for _, _, fault in counts if fault)
        setting = f"algorithm.reward.function={function.reward.function}"
        raise ConfigError(f"{setting} failed on each of the first {calls} responses, recently with {last}; mend it")
