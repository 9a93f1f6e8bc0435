"""The reinforcement-learning loop: step after step from the newest checkpoint to the end of the budget; stops cleanly, resumes exactly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from harness.evaluation.metrics.summary import nothing_to_learn
from harness.model.heap import give_back
from harness.store import layout
from harness.training.roll_out import pass_rates
from harness.training.step import take_step
from harness.training.trainer import Trainer


def train(trainer: Trainer, stop: Callable[[], bool], attempt: int) -> bool:
    """Train to the end, or until `stop()` says so after a step. Return whether the run is complete."""
    checkpoints, every = trainer.checkpoints, trainer.config.runtime.checkpoint_every
    trainer.resume()
    trainer.sync.load()
    give_back()  # what reading the weights took
    if trainer.step == 0:
        calibrate_curriculum(trainer)
        trainer.say(attempt, "evaluating the base policy")
        warn_of_nothing(trainer.evaluator.evaluate(0))
    trainer.say(attempt, layout.TRAINING)
    while not trainer.budget_spent():
        take_step(trainer, attempt)
        last, stopping = trainer.budget_spent(), trainer.ranks.any(stop())
        if last or stopping or trainer.step % every == 0:
            checkpoints.save(trainer.step, trainer.counts() if last else trainer.state(), final=last)
        else:
            checkpoints.poll()
        if stopping and not last:
            checkpoints.finish()
            return False
    checkpoints.finish()
    return True


def warn_of_nothing(right: Mapping[str, float]) -> None:
    """Say where no benchmark shows a policy that rewards can teach. `right`: share of right answers by benchmark, before training."""
    if right and len(set(right.values())) == 1:
        said = nothing_to_learn(next(iter(right.values())), f"on {', '.join(right)}")
        if said:
            print(f"{layout.WARNING}before RL {said}", file=sys.stderr, flush=True)


def calibrate_curriculum(trainer: Trainer) -> None:
    """Give a curriculum that asks for them the initial policy's pass rates; their tokens count as generated."""
    samples = getattr(trainer.curriculum, "calibration_samples", 0)
    if samples:
        rates, tokens = pass_rates(trainer, samples)
        trainer.generated_tokens += tokens
        trainer.curriculum.calibrate(rates)
