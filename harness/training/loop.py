"""The reinforcement-learning loop: step after step from the newest checkpoint to the end of the budget; stops cleanly, resumes exactly."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from harness.evaluation.metrics.summary import nothing_to_learn
from harness.model.system import trim_heap
from harness.sampling.selection import Collected
from harness.store import layout
from harness.training.checkpoints import save_fault
from harness.training.collect import collect, graders_row, pass_rates
from harness.training.metrics import Tally, UpdateStats, engagement_row, rollout_row, update_row, verdicts_row
from harness.training.run_parts import RunParts
from harness.training.step_data import NumericalFault

LARGE_KL = 0.01  # nats a token: log-probabilities off by about 0.14; bfloat16 against float32 gives about a tenth of it


def train(parts: RunParts, stop: Callable[[], bool], attempt: int) -> bool:
    """Train to the end, or until `stop()` says so after a step. Return whether the run is complete."""
    checkpoints, progress, every = parts.checkpoints, parts.progress, parts.config.runtime.checkpoint_every
    parts.resume()
    parts.sync.load()
    trim_heap()  # what reading the weights took
    if progress.step == 0:
        if samples := parts.curriculum.calibration_samples:
            rates, tokens = pass_rates(parts, samples)
            progress.generated_tokens += tokens
            parts.curriculum.calibrate(rates)
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


def take_step(parts: RunParts, attempt: int) -> None:
    """Take the next step: roll out and grade groups, update on them, give the engine the new weights, evaluate, and record the step."""
    config, progress, updater, ranks = parts.config, parts.progress, parts.updater, parts.ranks
    step, begin, tally = progress.step + 1, time.perf_counter(), Tally()

    # Roll out and grade the groups of this step, with a lag also those of later ones.
    for due in steps_to_collect(parts, step):
        progress.waiting.append(collect(parts, due, progress.carried, tally))
        progress.carried = progress.waiting[-1].surplus
    collected = progress.waiting.pop(0)
    graders = graders_row(parts, collected, step, tally) if ranks.first else {}
    collected_at = time.perf_counter()

    # Update the policy, while the engine leaves the device's memory to it.
    parts.engine.sleep()
    stats = update(parts, step, collected)
    updater.reset_reference(step)
    if parts.policy.shares_prompts:  # a small policy's update leaves nothing worth the call
        trim_heap()
    updated_at = time.perf_counter()

    # Give the engine the new weights.
    parts.engine.wake()
    parts.sync.load()
    synced_at = time.perf_counter()

    # Count the step. One clock decides when a time budget is spent.
    progress.step = step
    progress.updates += stats.updates
    progress.generated_tokens += collected.generated_tokens
    progress.seconds += ranks.from_first(synced_at - begin)

    # Evaluate.
    evaluating_at = time.perf_counter()
    evaluate(parts, step, attempt)
    end = time.perf_counter()

    # Record.
    row: dict[str, Any] = {
        "step": step,
        "updates": progress.updates,
        "attempt": attempt,
        **rollout_row(collected),
        "generated_tokens_total": progress.generated_tokens,
        **verdicts_row(ranks.gather(tally), config),
        **graders,
        **update_row(stats, config),
        **engagement_row(collected, stats, config),
        **parts.curriculum.record(),
        "learning_rate": updater.learning_rate(step),
        "seconds_rollout": tally.seconds_rollout,
        "seconds_verify": tally.seconds_verify,
        "seconds_train": updated_at - collected_at,
        "seconds_sync": synced_at - updated_at,
        "seconds_evaluate": end - evaluating_at,
        "seconds_total": end - begin,
    }
    if ranks.first:
        warn_of_mismatch(parts, row["sampler_kl_nats"])
        parts.run.append_step(row)


def steps_to_collect(parts: RunParts, step: int) -> range:
    """Return the steps whose responses come from the policy as it is now: `step`, or with a lag the one so many steps ahead.

    The first step of a run collects all up to that one. Tokens are counted with the step that trains on them; nothing is rolled out for
    steps beyond the last.
    """
    ahead = min(step + parts.config.sampling.lag_steps, parts.config.training.steps)
    return range(step + len(parts.progress.waiting), max(step, ahead) + 1)


def evaluate(parts: RunParts, step: int, attempt: int) -> None:
    last = parts.budget_spent()
    if step % parts.config.training.evaluate_every == 0 or last:
        parts.say(attempt, f"evaluating step {step}")
        parts.evaluator.evaluate(step, last=last)
        parts.say(attempt, layout.TRAINING)


def update(parts: RunParts, step: int, collected: Collected) -> UpdateStats:
    """Make the step's updates; a numerical fault saves its batch and ends the run."""
    prompts = [parts.prompts[i] for i in collected.kept.problems_P.tolist()]
    try:
        stats = parts.updater.update_step(step, collected.kept, prompts)
    except NumericalFault as fault:
        # All ranks raise together, and only once the file is there: the first that ends takes the others with it.
        path = parts.ranks.from_first(save_fault(parts.run, step, fault.batch) if parts.ranks.first else None)
        parts.checkpoints.finish()  # one that is still being written is of a policy that was sound
        raise NumericalFault(
            f"step {step}, {fault}. The batch is kept in {path.name} under faults/", {}
        ) from fault
    except torch.OutOfMemoryError as error:
        raise MemoryError(
            f"an update does not fit into memory with runtime.micro_batch_tokens={parts.config.runtime.micro_batch_tokens}; lower it, set "
            "runtime.gradient_checkpointing=true, train with model.lora.rank, or use more GPUs (runtime.gpus_per_run)"
        ) from error
    if parts.policy.device.type == "cuda":
        torch.cuda.synchronize()  # the clock of this part stops when the device has done it
    return stats


def warn_of_mismatch(parts: RunParts, kl: float) -> None:
    """Say once that the engine samples from another policy than the trainer's."""
    config, algorithm = parts.config, parts.config.algorithm
    intended = config.sampling.lag_steps or algorithm.source.kind != "policy"
    # NaN: nothing was trained.
    if parts.warned or intended or algorithm.dead_groups.surplus == "carry" or not kl > LARGE_KL:
        return
    parts.warned = True
    print(
        f"step {parts.progress.step}: the engine samples from another distribution than the trainer computes, by {kl:.3g} nats a token "
        f"(more than {LARGE_KL:g}): training is off-policy. Correct for it with algorithm.engine_correction.kind=token and "
        "old_log_probs=recomputed, or sample in the trainer's precision",
        file=sys.stderr,
        flush=True,
    )


def warn_of_nothing(accuracy: Mapping[str, float]) -> None:
    """Say where no benchmark shows a policy that rewards can teach. `accuracy`: share of right answers by benchmark, before training."""
    if accuracy and len(set(accuracy.values())) == 1:
        warning = nothing_to_learn(next(iter(accuracy.values())), f"on {', '.join(accuracy)}")
        if warning:
            print(f"{layout.WARNING}before RL {warning}", file=sys.stderr, flush=True)
