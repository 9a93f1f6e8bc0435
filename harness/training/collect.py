"""Collecting the rollouts of a step: which responses, and how they are graded. Each rank generates and grades its share."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.configuration.sections import RewardConfig
from harness.evaluation.metrics.summary import grader_shares, second_codes
from harness.reward.shaping import shaped_rewards
from harness.rollout.choice import key, sample_seeds, uniforms
from harness.rollout.types import Completions
from harness.sampling.selection import Collected, Groups, choose_groups, enough
from harness.training.metrics import UNFINISHED, Tally
from harness.training.run_parts import RunParts

SECOND_RESPONSES = 64  # of a step, that the second grader looks at
SECOND_EVERY = 8  # steps
_VERDICTS = key("verdict")  # draws apart from the numbers that chose the response's tokens


def collect(parts: RunParts, step: int, carried: Groups | None, tally: Tally) -> Collected:
    """Roll out a step's groups, round by round until there are enough; `carried` are those left over from the step before.

    Noise belongs to (run seed, step, round, problem, sample, position).
    """
    algorithm, rounds = parts.config.algorithm, list[Groups]()
    selection = algorithm.dead_groups, algorithm.prompts_per_step, carried
    while not enough(rounds, *selection):
        # Choose problems.
        problems_P = parts.curriculum.draw(algorithm.prompts_per_step)
        stream = key("train", parts.config.seed, step, len(rounds))
        seeds_PG = sample_seeds(stream, parts.prompt_keys[problems_P], algorithm.responses_per_prompt)
        # Generate and grade their groups.
        groups = _round(parts, problems_P, seeds_PG, tally)
        if step == 1 and not rounds:
            _refuse_a_broken_function(parts, tally)
        # Tell the curriculum what came of them.
        parts.curriculum.observe(problems_P, groups.accuracy_P.numpy())
        rounds.append(groups)
    # Choose the groups to train on.
    return choose_groups(rounds, *selection)


def _round(parts: RunParts, problems_P: np.ndarray, seeds_PG: np.ndarray, tally: Tally) -> Groups:
    """Generate and grade the groups of these problems; all of them, in order, come back on every rank."""
    begin = time.perf_counter()
    mine, graded = parts.ranks.share(len(problems_P)), list[Groups]()
    if len(problems_P[mine]):
        completions = parts.source.generate(problems_P[mine], seeds_PG[mine], parts.params)
        tally.seconds_rollout += time.perf_counter() - begin
        begin = time.perf_counter()
        graded.append(_graded(parts, problems_P[mine], completions, seeds_PG[mine], tally))
        tally.seconds_verify += time.perf_counter() - begin
        begin = time.perf_counter()
    gathered = [groups for rank_groups in parts.ranks.gather(graded) for groups in rank_groups]
    tally.seconds_rollout += time.perf_counter() - begin
    return Groups.concatenate(gathered)


def _graded(
    parts: RunParts, problems_P: np.ndarray, completions: Completions, seeds_PG: np.ndarray, tally: Tally
) -> Groups:
    """Give the responses to these problems verdicts and shaped rewards; their seeds decide where a noisy verifier errs."""
    algorithm, function, shape = parts.config.algorithm, parts.reward_function, seeds_PG.shape
    answers = _answers(parts, problems_P, completions)
    # The verifier's verdicts, and what a noisy verifier makes of them.
    grades = parts.grader.grade(*answers)
    exact, answered = grades.correct_R.view(shape), grades.answered_R.view(shape)
    correct, outcome = believed(exact, seeds_PG, algorithm.reward), None
    tally.faults += grades.faults
    for status in UNFINISHED:
        tally.unfinished[status] += sum(verdict.verdict == status for verdict in grades.verdicts)
    # A user's own reward function takes the verifier's place.
    if function is not None:
        faults_before = function.faults
        outcome = function.outcomes(*answers).view(shape)
        correct = outcome > 0
        tally.faults += function.faults - faults_before
    tally.flipped += int((correct != exact).sum())
    tally.verdicts += exact.numel()
    # Shaped rewards.
    rewards = shaped_rewards(
        correct,
        answered,
        completions.lengths_R.view(shape),
        parts.params.max_response_tokens,
        algorithm.reward,
        algorithm.overlong,
        ~completions.finished_R.view(shape),
        outcome,
    )
    return Groups(torch.from_numpy(problems_P.astype(np.int64)), completions, correct, answered, rewards)


def _answers(
    parts: RunParts, problems_P: Sequence[int] | np.ndarray, completions: Completions
) -> tuple[list[str], list[str], list[str]]:
    """Return the responses' texts without special tokens, their gold answers and their problems' texts."""
    texts = parts.tokenizer.batch_decode(completions.token_lists(), skip_special_tokens=True)
    size = len(texts) // max(len(problems_P), 1)
    problems = [parts.problems[i] for i in problems_P for _ in range(size)]
    return list(texts), [problem.gold for problem in problems], [problem.prompt for problem in problems]


def believed(correct_PG: torch.Tensor, seeds_PG: np.ndarray, reward: RewardConfig) -> torch.Tensor:
    """The verdicts that training sees, bool [P, G]: a verifier errs at the rates `true_positive` and `false_positive` of `reward`.

    The setting of noisy-verifier studies (arXiv:2601.04411: Youden's J = true minus false positive rate) and, at equal rates, a reward
    that is random whatever the answer (arXiv:2506.10947). A verdict's draw belongs to its response's seed, so it repeats, on any number
    of ranks. Held-out evaluation keeps the exact verifier.
    """
    if reward.exact:
        return correct_PG
    draws = torch.from_numpy(uniforms((seeds_PG ^ _VERDICTS).reshape(-1), 1)).view(correct_PG.shape)
    return draws <= torch.where(correct_PG, reward.true_positive, reward.false_positive).double()


def _refuse_a_broken_function(parts: RunParts, tally: Tally) -> None:
    """Raise `ConfigError`, on all ranks, where every call of a user's reward function has failed: nothing could be learned."""
    function = parts.reward_function
    if function is None:
        return
    counts = parts.ranks.gather((function.faults, tally.verdicts, function.last_fault))
    calls = sum(verdicts for _, verdicts, _ in counts)
    if calls and sum(faults for faults, _, _ in counts) == calls:
        last = next(fault for _, _, fault in counts if fault)
        setting = f"algorithm.reward.function={function.reward.function}"
        raise ConfigError(
            f"{setting} failed on each of the first {calls} responses, most recently with {last}; mend it"
        )


def graders_row(parts: RunParts, collected: Collected, step: int, tally: Tally) -> dict[str, float]:
    """Return the shares of a step's first responses that training and the second grader accept: both, or only one. A metric, no reward.

    It looks at whole groups of the first round, `SECOND_RESPONSES` responses in all. Golds that are not numerals take time, so they are
    looked at every `SECOND_EVERY` steps only.
    """
    begin, first = time.perf_counter(), collected.first
    size = first.correct_PG.shape[1]
    groups = max(1, SECOND_RESPONSES // size)
    golds = [parts.problems[i].gold for i in first.problems_P[:groups].tolist() for _ in range(size)]
    tokens = first.completions.token_lists()[: len(golds)]
    texts = parts.tokenizer.batch_decode(tokens, skip_special_tokens=True)
    second = parts.grader.second(texts, golds, numerals_only=step % SECOND_EVERY > 0)
    agreement = grader_shares(first.correct_PG[:groups].flatten().numpy(), second_codes(second))
    tally.seconds_verify += time.perf_counter() - begin
    return {f"graders_{part}_fraction": share for part, share in agreement.items()}


def pass_rates(parts: RunParts, samples: int) -> tuple[np.ndarray, int]:
    """Measure the policy's share of right answers on every problem from `samples` responses each; also the tokens generated for it."""
    rates, tokens = np.zeros(len(parts.problems)), 0
    stream = key("calibrate", parts.config.seed)
    for problems in np.array_split(np.arange(len(rates)), max(1, len(rates) // 256)):
        mine = problems[parts.ranks.share(len(problems))]
        measured = np.zeros(0), 0
        if len(mine):
            seeds_PG = sample_seeds(stream, parts.prompt_keys[mine], samples)
            prompts = [parts.prompts[i] for i in mine]
            completions = parts.engine.generate(prompts, seeds_PG, parts.params)
            correct_R = parts.grader.grade(*_answers(parts, mine, completions)).correct_R
            accuracy_P = correct_R.view(seeds_PG.shape).double().mean(1).numpy()
            measured = accuracy_P, int(completions.lengths_R.sum())
        gathered = parts.ranks.gather(measured)
        rates[problems] = np.concatenate([accuracy_P for accuracy_P, _ in gathered])
        tokens += sum(count for _, count in gathered)
    return rates, tokens
