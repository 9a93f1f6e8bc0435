"""The reinforcement-learning loop: step after step from the newest checkpoint to the end of the budget; stops cleanly, resumes exactly."""

from __future__ import annotations

from collections.abc import Callable

from harness.store import layout
from harness.training.roll_out import pass_rates
from harness.training.step import take_step
from harness.training.trainer import Trainer


def train(trainer: Trainer, stop: Callable[[], bool], attempt: int) -> bool:
    """Train to the end, or until `stop()` says so after a step. Return whether the run is complete."""
    checkpoints, every = trainer.checkpoints, trainer.config.runtime.checkpoint_every
    trainer.resume()
    trainer.sync.load()
    if trainer.step == 0:
        calibrate_curriculum(trainer)
        trainer.say(attempt, "evaluating the base policy")
        trainer.evaluator.evaluate(0)
    trainer.say(attempt, layout.TRAINING)
    while not trainer.budget_spent():
        take_step(trainer, attempt)
        last, stopping = trainer.budget_spent(), trainer.ranks.any(stop())
        if last or stopping or trainer.step % every == 0:
            checkpoints.save(trainer.step, trainer.state(), final=last)
        else:
            checkpoints.poll()
        if stopping and not last:
            checkpoints.finish()
            return False
    checkpoints.finish()
    return True


def calibrate_curriculum(trainer: Trainer) -> None:
    """Give a curriculum that asks for them the initial policy's pass rates; their tokens count as generated."""
    samples = getattr(trainer.curriculum, "calibration_samples", 0)
    if samples:
        rates, tokens = pass_rates(trainer, samples)
        trainer.generated_tokens += tokens
        trainer.curriculum.calibrate(rates)
