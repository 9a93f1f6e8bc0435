"""One run with the built-in trainer: from its configuration to a finished store entry.

The loop goes step after step from the newest checkpoint to the end of the budget; it stops cleanly and resumes exactly. Each rank generates
and grades its share of a step. What decides the last bits of the numbers is recorded.
"""

import functools
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.evaluation.metrics.names import nothing_to_learn
from harness.model.ranks import Ranks
from harness.model.system import trim_heap
from harness.reward.shaping import GradedAnswer, Grader
from harness.rollout.noise import key, sample_seeds
from harness.rollout.types import Completions
from harness.sampling.selection import Groups, Selection, choose_groups, enough
from harness.store import RunDir, layout
from harness.training.attempt import base_policy, fit_memory, out_of_memory
from harness.training.checkpoints import save_fault
from harness.training.grading import Tally, grade_answers, graded_groups, refuse_a_broken_function
from harness.training.metrics import UpdateStats, engagement_row, rollout_row, update_row, verdicts_row
from harness.training.pulse import Stopped
from harness.training.run_parts import RunParts
from harness.training.step_data import NumericalFault
from harness.training.update import learning_rate

LARGE_KL = 0.01  # nats a token: log-probabilities off by about 0.14; bfloat16 against float32 gives about a tenth of it


def train(parts: RunParts, stop: Callable[[], bool], attempt: int) -> bool:
    """Train to the end, or until `stop()` says so. Return whether the run is complete.

    A stop breaks off sampling, grading or an evaluation; an update that has begun is finished.
    """
    checkpoints, progress, every = parts.checkpoints, parts.progress, parts.config.runtime.checkpoint_every
    parts.require_positions()
    parts.pulse.listen(stop, functools.partial(parts.say, attempt))
    parts.resume()
    parts.sync.load()
    trim_heap()  # what reading the weights took
    if progress.step == 0:
        try:
            calibrate(parts)
            parts.pulse.begin("evaluating the base policy", at_once=True)
            warn_of_nothing(parts.evaluator.evaluate(0))
        except Stopped:
            return False
    while not parts.budget_spent() or progress.row:
        parts.pulse.begin(layout.TRAINING, at_once=True)
        state = parts.state()
        try:
            take_step(parts, attempt)
            stopping = parts.ranks.any(stop())
        except Stopped:  # the step is taken again; one that has its update is only evaluated
            if progress.row or (progress.step and progress.step % every):
                checkpoints.save(progress.step, parts.state() if progress.row else state, final=False)
            return False
        last = parts.budget_spent()
        if last or stopping or progress.step % every == 0:
            checkpoints.save(progress.step, progress.counts() if last else parts.state(), final=last)
        if stopping and not last:
            return False
    return True


def calibrate(parts: RunParts) -> None:
    """Measure what the curriculum wants to know before the first step. Raises `ConfigError` where no token is left to train on."""
    if samples := parts.curriculum.calibration_samples:
        parts.pulse.begin("measuring pass rates", at_once=True)
        rates, parts.progress.generated_tokens = pass_rates(parts, samples)
        parts.curriculum.calibrate(rates)
        spent, limit = parts.progress.generated_tokens, parts.config.training.generated_tokens
        if limit is not None and spent >= limit:  # the run would end as if it had been trained
            raise ConfigError(f"the curriculum took {spent} of training.generated_tokens={limit}: raise it")


def take_step(parts: RunParts, attempt: int) -> None:
    """Take the next step, or what is left of one: roll out and grade groups, update on them, evaluate, and record it.

    Raises `Stopped`.
    """
    progress = parts.progress
    progress.row = row = progress.row or advance(parts, attempt)
    evaluating_at = time.perf_counter()
    evaluate(parts, progress.step)
    row["seconds_evaluate"] = time.perf_counter() - evaluating_at
    row["seconds_total"] += row["seconds_evaluate"]
    if parts.ranks.first and (parts.run.last_step() or {"step": 0})["step"] < progress.step:
        parts.run.append_step(row)  # else an attempt did that was killed before its next checkpoint
    progress.row = None


def advance(parts: RunParts, attempt: int) -> dict[str, Any]:
    """Make the next step's update and give the engine the new weights. The step's row, as far as it is known."""
    config, progress, updater, ranks = parts.config, parts.progress, parts.updater, parts.ranks
    step, start, tally = progress.step + 1, time.perf_counter(), Tally()

    # Roll out and grade the groups of this step, with a lag also those of later ones, which an engine of its own samples meanwhile.
    due_steps = steps_to_collect(parts, step)
    now = int(not progress.waiting) if config.runtime.sampler_gpus else len(due_steps)
    progress.waiting += [collect(parts, due_step, tally) for due_step in due_steps[:now]]
    selection = progress.waiting.pop(0)
    collected_at = time.perf_counter()

    # Update the policy, while the engine leaves the device's memory to it, or samples. Both are ended: only together can they be resumed.
    parts.pulse.begin("updating")
    parts.pulse.may_stop = False
    with ThreadPoolExecutor(1) as thread:  # without such steps it starts none
        collected_later = [thread.submit(collect, parts, due_step, tally) for due_step in due_steps[now:]]
        parts.engine.sleep()
        stats = train_on(parts, step, selection)
        updater.reset_reference(step)
        if parts.policy.shares_prompts:  # a small policy's update leaves nothing worth the call
            trim_heap()
        updated_at = time.perf_counter()
    progress.waiting.extend(job.result() for job in collected_later)
    parts.pulse.may_stop = True
    joined_at = time.perf_counter()

    # Give the engine the new weights.
    parts.engine.wake()
    parts.sync.load(check=step % config.runtime.check_weights_every == 0)
    synced_at = time.perf_counter()

    # Count the step.
    progress.step = step
    progress.updates += stats.updates
    progress.generated_tokens += selection.generated_tokens

    row: dict[str, Any] = {
        "step": step,
        "updates": progress.updates,
        "attempt": attempt,
        **rollout_row(selection),
        "generated_tokens_total": progress.generated_tokens,
        **verdicts_row(ranks.gather(tally), config),
        **update_row(stats, config),
        **engagement_row(selection, stats, config),
        **parts.curriculum.record(),
        "learning_rate": learning_rate(config, step),
        "seconds_rollout": tally.seconds_rollout,
        "seconds_verify": tally.seconds_verify,
        "seconds_train": updated_at - collected_at,
        "seconds_sync": synced_at - joined_at,
        "seconds_evaluate": 0.0,
        "seconds_total": time.perf_counter() - start,
    }
    if ranks.first:
        warn_of_mismatch(parts, row["sampler_kl_nats"])
    return row


def steps_to_collect(parts: RunParts, step: int) -> range:
    """Return the steps whose responses come from the policy as it is now: `step`, or with a lag the one so many steps ahead.

    The first step of a run collects all up to that one. Tokens are counted with the step that trains on them; nothing is rolled out for
    steps beyond the last.
    """
    last_step = min(step + parts.config.sampling.lag_steps, parts.config.training.steps)
    return range(step + len(parts.progress.waiting), max(step, last_step) + 1)


def evaluate(parts: RunParts, step: int) -> None:
    last = parts.budget_spent()
    if step % parts.config.training.evaluate_every == 0 or last:
        parts.pulse.end_if_stopped()
        parts.pulse.begin(f"evaluating step {step}", at_once=True)
        parts.evaluator.evaluate(step, last=last)


def train_on(parts: RunParts, step: int, selection: Selection) -> UpdateStats:
    """Make the step's updates; a numerical fault saves its batch and ends the run."""
    prompts = [parts.prompts[i] for i in selection.kept.problems_P.tolist()]
    try:
        stats = parts.updater.update_step(step, selection.kept, prompts)
        parts.updater.optimizer.zero_grad(set_to_none=True)  # no gradient lives while responses are sampled
    except NumericalFault as fault:
        # All ranks raise together, and only once the file is there: the first that ends takes the others with it.
        path = parts.ranks.from_first(save_fault(parts.run, step, fault.batch) if parts.ranks.first else None)
        raise NumericalFault(f"step {step}, {fault}. The batch is kept in {path.name} under faults/", {}) from fault
    except torch.OutOfMemoryError as error:
        raise out_of_memory(parts.config, parts.run) from error
    if parts.policy.device.type == "cuda":
        torch.cuda.synchronize()  # the clock of this part stops when the device has done it
    return stats


def warn_of_mismatch(parts: RunParts, kl: float) -> None:
    """Say once that the engine samples from another policy than the trainer's."""
    config, algorithm = parts.config, parts.config.algorithm
    intended = config.sampling.lag_steps or algorithm.source.kind != "policy"
    # NaN: nothing was trained.
    if parts.warned or intended or not kl > LARGE_KL:
        return
    parts.warned = True
    if config.sampling.top_p < 1 or config.sampling.top_k > 0:
        fix = "Its sampling.top_p and top_k leave tokens out, which no engine_correction may weigh: set them to 1 and 0"
    elif algorithm.engine_correction.kind != "none":
        fix = "The engine correction weighs it; sample in the trainer's precision for less"
    else:
        fix = "Correct for it with algorithm.engine_correction.kind=token and old_log_probs=recomputed or sample in the trainer's precision"
    print(
        f"{layout.WARNING}step {parts.progress.step}: the engine samples from another distribution than the trainer computes, by {kl:.3g} "
        f"nats a token (more than {LARGE_KL:g}): training is off-policy. {fix}",
        file=sys.stderr,
        flush=True,
    )


def warn_of_nothing(accuracy: Mapping[str, float]) -> None:
    """Say where no benchmark shows a policy that rewards can teach. `accuracy`: share of right answers by benchmark, before training."""
    shares = set(accuracy.values())
    if len(shares) == 1 and (warning := nothing_to_learn(next(iter(shares)), f"on {', '.join(accuracy)}")):
        print(f"{layout.WARNING}before RL {warning}", file=sys.stderr, flush=True)


def collect(parts: RunParts, step: int, tally: Tally) -> Selection:
    """Roll out a step's groups, round by round until there are enough.

    Noise belongs to (run seed, step, round, problem, sample, position).
    """
    algorithm, rounds = parts.config.algorithm, list[Groups]()
    settings = algorithm.dead_groups, algorithm.prompts_per_step
    while not enough(rounds, *settings):
        parts.pulse.begin(f"sampling round {len(rounds) + 1}" if rounds else "sampling")
        parts.pulse.end_if_stopped()
        # Choose problems.
        problems_P = parts.curriculum.draw(algorithm.prompts_per_step)
        stream = key("train", parts.config.seed, step, len(rounds))
        seeds_PG = sample_seeds(stream, parts.prompt_keys[problems_P], algorithm.responses_per_prompt)
        # Generate and grade their groups.
        groups = _collect_round(parts, problems_P, seeds_PG, tally)
        groups.earlier_P = torch.from_numpy(parts.curriculum.earlier(problems_P))
        if step == 1 and not rounds:
            refuse_a_broken_function(parts, tally)
        # Tell the curriculum what came of them.
        parts.curriculum.observe(problems_P, groups.accuracy_P.numpy())
        rounds.append(groups)
    # Choose the groups to train on.
    return choose_groups(rounds, *settings)


def _collect_round(parts: RunParts, problems_P: np.ndarray, seeds_PG: np.ndarray, tally: Tally) -> Groups:
    """Generate and grade the groups of these problems; all, in order, come back on every rank, but tokens stay where they were sampled."""
    start = time.perf_counter()
    mine, own_groups = parts.ranks.share(len(problems_P)), list[Groups]()
    if len(own_P := problems_P[mine]):
        grading = dict[int, Future[list[GradedAnswer]]]()

        def begin(group: int, completions: Completions) -> None:
            problem_P = own_P[group : group + 1]
            grading[group] = parts.grader.threads.submit(grade_answers, parts, problem_P, completions)

        # A group is graded as soon as it has ended, while others go on. Other sources may ask the engine for something else.
        parts.engine.on_group = begin if parts.config.algorithm.source.kind == "policy" else None
        try:
            completions = parts.source.generate(own_P, seeds_PG[mine], parts.params)
        finally:
            parts.engine.on_group = None
        tally.seconds_rollout += time.perf_counter() - start
        start = time.perf_counter()
        parts.pulse("graded", 0, len(completions.lengths_R))
        jobs = [grading[group] for group in sorted(grading)]
        own_groups.append(graded_groups(parts, own_P, completions, seeds_PG[mine], tally, jobs))
        tally.seconds_verify += time.perf_counter() - start
        start = time.perf_counter()
    told = [groups.ledger() for groups in own_groups] if parts.updater.divides_tokens else own_groups
    round_groups = parts.ranks.gather(told)
    round_groups[parts.ranks.rank] = own_groups
    tally.seconds_rollout += time.perf_counter() - start
    return Groups.concatenate([groups for rank_groups in round_groups for groups in rank_groups])


def pass_rates(parts: RunParts, samples: int) -> tuple[np.ndarray, int]:
    """Measure the policy's share of right answers on every problem from `samples` responses each; also the tokens generated for it."""
    rates, tokens = np.zeros(len(parts.problems)), 0
    stream = key("calibrate", parts.config.seed)
    for problems in np.array_split(np.arange(len(rates)), max(1, len(rates) // 256)):
        mine = problems[parts.ranks.share(len(problems))]
        share = np.zeros(0), 0
        if len(mine):
            seeds_PG = sample_seeds(stream, parts.prompt_keys[mine], samples)
            completions = parts.engine.generate([parts.prompts[i] for i in mine], seeds_PG, parts.params)
            right = [answer[-1].correct for answer in grade_answers(parts, mine, completions)]
            accuracy_P = np.array(right, float).reshape(seeds_PG.shape).mean(1)
            share = accuracy_P, int(completions.lengths_R.sum())
        shares = parts.ranks.gather(share)
        rates[problems] = np.concatenate([accuracy_P for accuracy_P, _ in shares])
        tokens += sum(count for _, count in shares)
    return rates, tokens


def train_run(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """Prepare the initial policy, train, evaluate; see `harness.backends`."""
    with closing(Grader(config.verifier, config.runtime)) as grader:
        torch.set_num_threads(config.runtime.threads)
        ranks, config = Ranks.join(), fit_memory(config, run)
        # Rank 0 warms up or downloads; the others wait, and find it in the cache.
        kernel, initial = ranks.from_first(base_policy(config, run, attempt) if ranks.first else None)
        with closing(RunParts(config, run, initial, kernel, grader, ranks)) as parts:
            return train(parts, stop, attempt)
