"""The reinforcement-learning loop: step after step from the newest checkpoint to the end of the budget; stops cleanly, resumes exactly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from harness.evaluation.metrics.summary import nothing_to_learn
from harness.model.system import trim_heap
from harness.store import layout
from harness.training.collect import pass_rates
from harness.training.run_parts import RunParts
from harness.training.step import take_step


def train(parts: RunParts, stop: Callable[[], bool], attempt: int) -> bool:
    """Train to the end, or until `stop()` says so after a step. Return whether the run is complete."""
    checkpoints, progress, every = parts.checkpoints, parts.progress, parts.config.runtime.checkpoint_every
    parts.resume()
    parts.sync.load()
    trim_heap()  # what reading the weights took
    if progress.step == 0:
        calibrate_curriculum(parts)
        parts.say(attempt, "evaluating the base policy")
        warn_of_nothing(parts.evaluator.evaluate(0))
    parts.say(attempt, layout.TRAINING)
    while not parts.budget_spent():
        take_step(parts, attempt)
        last, stopping = parts.budget_spent(), parts.ranks.any(stop())
        if last or stopping or progress.step % every == 0:
            checkpoints.save(progress.step, parts.counts() if last else parts.state(), final=last)
        else:
            checkpoints.poll()
        if stopping and not last:
            checkpoints.finish()
            return False
    checkpoints.finish()
    return True


def warn_of_nothing(accuracy: Mapping[str, float]) -> None:
    """Say where no benchmark shows a policy that rewards can teach. `accuracy`: share of right answers by benchmark, before training."""
    if accuracy and len(set(accuracy.values())) == 1:
        warning = nothing_to_learn(next(iter(accuracy.values())), f"on {', '.join(accuracy)}")
        if warning:
            print(f"{layout.WARNING}before RL {warning}", file=sys.stderr, flush=True)


def calibrate_curriculum(parts: RunParts) -> None:
    """Give a curriculum that asks for them the initial policy's pass rates; their tokens count as generated."""
    samples = parts.curriculum.calibration_samples
    if samples:
        rates, tokens = pass_rates(parts, samples)
        parts.progress.generated_tokens += tokens
        parts.curriculum.calibrate(rates)
