"""One rollout step, from prompts to the row of metrics."""

from __future__ import annotations

import sys
import time
from typing import Any

import torch

from harness.model.heap import give_back
from harness.sampling.selection import Collected
from harness.store import layout
from harness.training.checkpoints import save_fault
from harness.training.fault import NumericalFault
from harness.training.roll_out import Tally, collect, graders_row
from harness.training.step_metrics import engagement_row, rollout_row, update_row, verdicts_row
from harness.training.trainer import Trainer
from harness.training.update import UpdateStats

LARGE_KL = 0.01  # nats a token: log-probabilities off by about 0.14; bfloat16 against float32 gives about a tenth of it


def take_step(trainer: Trainer, attempt: int) -> None:
    """Take the next step: roll out and grade groups, update on them, give the engine the new weights, evaluate, and record the step."""
    config, updater, engine, ranks = trainer.config, trainer.updater, trainer.engine, trainer.ranks
    step, begin, tally = trainer.step + 1, time.perf_counter(), Tally()
    for due in steps_to_roll_out(trainer, step):
        trainer.waiting.append(collect(trainer, due, tally))
        trainer.carried = trainer.waiting[-1].surplus
    collected = trainer.waiting.pop(0)
    graders = graders_row(trainer, collected, step, tally) if ranks.first else {}
    rolled_out = time.perf_counter()
    engine.sleep()
    stats = update(trainer, step, collected)
    updater.reset_reference(step)
    if trainer.policy.packs:  # a small policy's update leaves nothing worth the call
        give_back()
    updated = time.perf_counter()
    engine.wake()
    trainer.sync.load()
    synced = time.perf_counter()
    trainer.step = step
    trainer.updates += stats.updates
    trainer.generated_tokens += collected.generated_tokens
    # One clock decides when a time budget is spent.
    trainer.seconds += ranks.from_first(synced - begin)
    evaluating = time.perf_counter()
    last = trainer.budget_spent()
    if step % config.training.evaluate_every == 0 or last:
        trainer.say(attempt, f"evaluating step {step}")
        trainer.evaluator.evaluate(step, last=last)
        trainer.say(attempt, layout.TRAINING)
    end = time.perf_counter()
    row: dict[str, Any] = {
        "step": step,
        "updates": trainer.updates,
        "attempt": attempt,
        **rollout_row(collected),
        "generated_tokens_total": trainer.generated_tokens,
        **verdicts_row(ranks.gather(tally), config),
        **graders,
        **update_row(stats, config, updater.loss_scale),
        **engagement_row(collected, stats, config),
        **trainer.curriculum.record(),
        "learning_rate": updater.learning_rate(step),
        "seconds_rollout": tally.seconds_rollout,
        "seconds_verify": tally.seconds_verify,
        "seconds_train": updated - rolled_out,
        "seconds_sync": synced - updated,
        "seconds_evaluate": end - evaluating,
        "seconds_total": end - begin,
    }
    if ranks.first:
        warn_of_mismatch(trainer, row["sampler_kl_nats"])
        trainer.run.append_step(row)


def steps_to_roll_out(trainer: Trainer, step: int) -> range:
    """Return the steps whose responses come from the policy as it is now: `step` itself, with a lag one so many steps ahead.

    At first all up to that one. Tokens are counted with the step that trains on them; nothing is rolled out for steps beyond the last.
    """
    ahead = min(step + trainer.config.sampling.lag_steps, trainer.config.training.steps)
    return range(step + len(trainer.waiting), max(step, ahead) + 1)


def update(trainer: Trainer, step: int, collected: Collected) -> UpdateStats:
    """Make the step's updates; a numerical fault keeps its batch and ends the run."""
    prompts = [trainer.prompts[i] for i in collected.kept.problems_P.tolist()]
    try:
        stats = trainer.updater.train(step, collected.kept, prompts)
    except NumericalFault as fault:
        # All ranks raise together, and only once the file is there: the first that ends takes the others with it.
        path = trainer.ranks.from_first(
            save_fault(trainer.run, step, fault.batch) if trainer.ranks.first else None
        )
        trainer.checkpoints.finish()  # one that is still being written is of a policy that was sound
        raise NumericalFault(
            f"step {step}, {fault}. The batch is kept in {path.name} under faults/", {}
        ) from fault
    if trainer.policy.device.type == "cuda":
        torch.cuda.synchronize()  # the clock of this part stops when the device has done it
    return stats


def warn_of_mismatch(trainer: Trainer, kl: float) -> None:
    """Say once that the sampler is another policy than the trainer's."""
    algorithm = trainer.config.algorithm
    meant = trainer.config.sampling.lag_steps or algorithm.source.kind != "policy"
    # NaN: nothing was trained.
    if trainer.warned or meant or algorithm.dead_groups.surplus == "carry" or not kl > LARGE_KL:
        return
    trainer.warned = True
    print(
        f"step {trainer.step}: the engine samples from another distribution than the trainer computes, by {kl:.3g} nats a token "
        f"(more than {LARGE_KL:g}): training is off-policy. Correct for it with algorithm.engine_correction.kind=token and "
        "old_log_probs=recomputed, or sample in the trainer's precision",
        file=sys.stderr,
        flush=True,
    )
