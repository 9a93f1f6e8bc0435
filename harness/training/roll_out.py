"""The rollouts of a step: which responses, and how they are graded. Each rank generates and grades its share."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from harness.configuration.algorithm import RewardConfig
from harness.configuration.error import ConfigError
from harness.evaluation.metrics.summary import grader_shares, second_codes
from harness.reward.function import RewardFunction
from harness.reward.grading import Grades
from harness.reward.shaping import shaped_rewards
from harness.rollout.noise import key, sample_seeds, uniforms
from harness.rollout.types import Completions
from harness.sampling.groups import Groups
from harness.sampling.selection import Collected, choose_groups, enough
from harness.training.trainer import Trainer

UNFINISHED = ("unevaluated", "restated")
SECOND_RESPONSES = 64  # of a step, that the second grader looks at
SECOND_EVERY = 8  # steps
_VERDICTS = key("verdict")  # draws apart from the numbers that chose the response's tokens


@dataclass
class Tally:
    """Time and verdicts of one step on this rank.

    Attributes:
        seconds_rollout, seconds_verify: spent on responses, and on their verdicts.
        faults: timeouts, killed workers, errors and refused answers of the verifier.
        verdicts, flipped: verdicts given, and those that a noisy verifier or a reward function turned round.
        unfinished: answers of the right value that only restate the problem, or leave something to work out, by their status.
    """

    seconds_rollout: float = 0.0
    seconds_verify: float = 0.0
    faults: int = 0
    verdicts: int = 0
    flipped: int = 0
    unfinished: Counter[str] = field(default_factory=Counter)


def collect(trainer: Trainer, step: int, tally: Tally) -> Collected:
    """Roll out a step's groups, round by round until there are enough.

    Noise belongs to (run seed, step, round, problem, sample, position).
    """
    algorithm, rounds = trainer.config.algorithm, list[Groups]()
    selection = algorithm.dead_groups, algorithm.prompts_per_step, trainer.carried
    while not enough(rounds, *selection):
        chosen = trainer.curriculum.draw(algorithm.prompts_per_step)
        stream = key("train", trainer.config.seed, step, len(rounds))
        seeds_PG = sample_seeds(stream, trainer.prompt_keys[chosen], algorithm.responses_per_prompt)
        groups = roll_out(trainer, chosen, seeds_PG, tally)
        if step == 1 and not rounds:
            _refuse_a_broken_function(trainer, tally)
        trainer.curriculum.observe(chosen, groups.accuracy_P.numpy())
        rounds.append(groups)
    return choose_groups(rounds, *selection)


def roll_out(trainer: Trainer, chosen: np.ndarray, seeds_PG: np.ndarray, tally: Tally) -> Groups:
    """Generate and grade the groups of the chosen problems; all of them, in order, come back on every rank."""
    begin = time.perf_counter()
    mine, parts = trainer.ranks.share(len(chosen)), []
    if len(chosen[mine]):
        completions = trainer.source.generate(chosen[mine], seeds_PG[mine], trainer.params)
        tally.seconds_rollout += time.perf_counter() - begin
        begin = time.perf_counter()
        parts.append(graded(trainer, chosen[mine], completions, seeds_PG[mine], tally))
        tally.seconds_verify += time.perf_counter() - begin
        begin = time.perf_counter()
    gathered = [part for rank_parts in trainer.ranks.gather(parts) for part in rank_parts]
    tally.seconds_rollout += time.perf_counter() - begin
    return Groups.concatenate(gathered)


def graded(
    trainer: Trainer, chosen: np.ndarray, completions: Completions, seeds_PG: np.ndarray, tally: Tally
) -> Groups:
    """Give the responses to the chosen problems verdicts and shaped rewards; their seeds decide where a noisy verifier errs."""
    algorithm = trainer.config.algorithm
    grades = _grades(trainer, chosen, completions, seeds_PG.shape[1])
    exact, answered = grades.correct_R.view(seeds_PG.shape), grades.answered_R.view(seeds_PG.shape)
    correct, outcome = believed(exact, seeds_PG, algorithm.reward), None
    tally.faults += grades.faults
    for status in UNFINISHED:
        tally.unfinished[status] += sum(verdict.verdict == status for verdict in grades.verdicts)
    if trainer.reward_function is not None:
        outcome, faults = _scores(trainer, trainer.reward_function, chosen, completions, seeds_PG)
        correct = outcome > 0
        tally.faults += faults
    tally.flipped += int((correct != exact).sum())
    tally.verdicts += exact.numel()
    rewards = shaped_rewards(
        correct,
        answered,
        completions.lengths_R.view(seeds_PG.shape),
        trainer.params.max_response_tokens,
        algorithm.reward,
        algorithm.overlong,
        ~completions.finished_R.view(seeds_PG.shape),
        outcome,
    )
    return Groups(torch.from_numpy(chosen.astype(np.int64)), completions, correct, answered, rewards)


def graders_row(trainer: Trainer, collected: Collected, step: int, tally: Tally) -> dict[str, float]:
    """Return the shares of a step's first responses that training and the second grader hold right: both, only one; metrics, no reward.

    Of whole groups of the first round, `SECOND_RESPONSES` in all. Golds that are no numerals take time: they are looked at every
    `SECOND_EVERY` steps.
    """
    begin, first = time.perf_counter(), collected.first
    size = first.correct_PG.shape[1]
    groups = max(1, SECOND_RESPONSES // size)
    golds = [trainer.problems[i].gold for i in first.problems_P[:groups].tolist() for _ in range(size)]
    tokens = first.completions.token_lists()[: len(golds)]
    texts = trainer.tokenizer.batch_decode(tokens, skip_special_tokens=True)
    second = trainer.grader.second(texts, golds, numerals_only=step % SECOND_EVERY > 0)
    found = grader_shares(first.correct_PG[:groups].flatten().numpy(), second_codes(second))
    tally.seconds_verify += time.perf_counter() - begin
    return {f"graders_{part}_fraction": share for part, share in found.items()}


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


def pass_rates(trainer: Trainer, samples: int) -> tuple[np.ndarray, int]:
    """Measure the policy's share of right answers on every problem from `samples` responses each; also the tokens generated for it."""
    rates, tokens = np.zeros(len(trainer.problems)), 0
    stream = key("calibrate", trainer.config.seed)
    for part in np.array_split(np.arange(len(rates)), max(1, len(rates) // 256)):
        mine = part[trainer.ranks.share(len(part))]
        done = np.zeros(0), 0
        if len(mine):
            seeds_PG = sample_seeds(stream, trainer.prompt_keys[mine], samples)
            prompts = [trainer.prompts[i] for i in mine]
            completions = trainer.engine.generate(prompts, seeds_PG, trainer.params)
            correct_R = _grades(trainer, mine, completions, samples).correct_R
            shares = correct_R.view(seeds_PG.shape).double().mean(1).numpy()
            done = shares, int(completions.lengths_R.sum())
        gathered = trainer.ranks.gather(done)
        rates[part] = np.concatenate([shares for shares, _ in gathered])
        tokens += sum(count for _, count in gathered)
    return rates, tokens


def _grades(
    trainer: Trainer, chosen: Sequence[int] | np.ndarray, completions: Completions, samples: int
) -> Grades:
    """The verifier's verdicts on the responses' texts."""
    return trainer.grader.grade(*_asked(trainer, chosen, completions, samples))


def _refuse_a_broken_function(trainer: Trainer, tally: Tally) -> None:
    """Raise `ConfigError`, on all ranks, where every call of a reward function of one's own has failed: nothing could be learned."""
    function = trainer.reward_function
    if function is None:
        return
    counts = trainer.ranks.gather((function.faults, tally.verdicts, function.last_fault))
    calls = sum(verdicts for _, verdicts, _ in counts)
    if calls and sum(faults for faults, _, _ in counts) == calls:
        last = next(fault for _, _, fault in counts if fault)
        named = f"algorithm.reward.function={function.reward.function}"
        raise ConfigError(
            f"{named} failed on each of the first {calls} responses, at last with {last}; mend it"
        )


def _scores(
    trainer: Trainer,
    function: RewardFunction,
    chosen: np.ndarray,
    completions: Completions,
    seeds_PG: np.ndarray,
) -> tuple[torch.Tensor, int]:
    """Outcome rewards [P, G] of a function of one's own, and the calls that failed."""
    before = function.faults
    outcomes = function.outcomes(*_asked(trainer, chosen, completions, seeds_PG.shape[1]))
    return outcomes.view(seeds_PG.shape), function.faults - before


def _asked(
    trainer: Trainer, chosen: Sequence[int] | np.ndarray, completions: Completions, samples: int
) -> tuple[list[str], list[str], list[str]]:
    """Return the responses' texts without special tokens, their gold answers and their problems' texts."""
    texts = trainer.tokenizer.batch_decode(completions.token_lists(), skip_special_tokens=True)
    asked = [trainer.problems[i] for i in chosen for _ in range(samples)]
    return list(texts), [p.gold for p in asked], [p.prompt for p in asked]
