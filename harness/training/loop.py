"""The reinforcement-learning loop: collect, update, record, evaluate, checkpoint; stops cleanly and resumes exactly."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash
from harness.configuration.registry import implementation
from harness.configuration.schema import RunConfig, dump
from harness.evaluation.evaluate import Evaluator
from harness.evaluation.sampler import reads_weights
from harness.model.checkpoint import load_tokenizer
from harness.model.content import content_fingerprint
from harness.model.ranks import Ranks
from harness.objective.objective import Objective
from harness.problems.problem import Benchmark, load_benchmark
from harness.reward.grading import Grader
from harness.rollout.engine.replay.recording import RecordingEngine
from harness.rollout.prompts import prompt_tokens, stop_tokens
from harness.rollout.restart import RestartingEngine
from harness.rollout.stop_strings import StopStringEngine
from harness.rollout.sync import WeightSync
from harness.rollout.types import RolloutEngine, SamplingParams
from harness.sampling.collector import Collected, collect
from harness.sampling.groups import Groups
from harness.sampling.source import SourceContext
from harness.store import RunDir, layout
from harness.training.checkpoints import Checkpoints, save_fault
from harness.training.fault import NumericalFault
from harness.training.open_policy import open_policy
from harness.training.roll_out import RollOut
from harness.training.step_metrics import engagement_row, rollout_row, update_row
from harness.training.update import Updater, UpdateStats

LARGE_KL = 0.01  # nats a token: log-probabilities off by about 0.14; bfloat16 against float32 gives about a tenth of it


def base_evaluations(
    config: RunConfig, run: RunDir, initial: Path, linear_kernel: str, grader: Grader
) -> Path:
    """The store's folder for samples of this initial policy under this protocol (see `Evaluator`)."""
    benchmarks = {name: load_benchmark(item) for name, item in config.evaluation.benchmarks.items()}
    # A file may be mended at its place: its content counts, not its path.
    versions = {name: [one.version, one.content] for name, one in benchmarks.items()}
    protocol = [dump(config.evaluation), dump(config.verifier), dump(config.engine)]
    # A cached policy's folder is named by its content; another may be overwritten in place, and its precision matters.
    testbed = config.model.kind == "testbed"
    model = [] if testbed else [content_fingerprint(initial), config.model.precision]
    # Another device rounds otherwise, and some responses go on otherwise.
    device = [torch.cuda.get_device_name()] if config.runtime.device == "cuda" else []
    depends = [
        initial.name,
        *model,
        linear_kernel,
        versions,
        protocol,
        grader.verifier.fingerprint(),
        *device,
    ]
    return run.path.parent.parent / "cache" / "evaluations" / content_hash(*depends)


class Trainer:
    """One run from its initial policy (or newest checkpoint) to its last step; on several ranks each holds one."""

    def __init__(
        self,
        config: RunConfig,
        run: RunDir,
        initial: Path,
        linear_kernel: str,
        grader: Grader,
        ranks: Ranks | None = None,
    ) -> None:
        self.config, self.run, self.ranks = config, run, ranks or Ranks()
        if self.ranks.world > 1 and config.algorithm.source.kind != "policy":
            raise ConfigError(
                f"algorithm.source={config.algorithm.source.kind} trains on one rank only; set runtime.ranks=1"
            )
        tokenizer = load_tokenizer(initial)
        self.policy = open_policy(config, initial, linear_kernel, self.ranks)
        self.updater = Updater(config, self.policy, Objective(config.algorithm), self.ranks)
        self.checkpoints = Checkpoints(
            run, config.runtime.keep_checkpoints, self.policy, self.updater.optimizer, self.ranks
        )
        sampled = self._build_engine(tokenizer)
        self.engine = self._recorded(sampled)
        task = load_benchmark(config.task)
        self.prompts = prompt_tokens(tokenizer, task)
        params = _sampling_params(config, stop_tokens(tokenizer, initial))
        self._require_positions(task)
        self.sync = WeightSync(
            sampled, self.policy, self.prompts, params, self.ranks
        )  # its checks are nobody's rollouts
        curriculum = config.algorithm.curriculum
        self.curriculum = implementation("harness.sampling.curriculum", curriculum).build(
            curriculum, len(task.problems), config.seed
        )
        context = SourceContext(config, self.policy, self.engine, tokenizer, task.problems, self.prompts)
        source = implementation("harness.sampling.source", config.algorithm.source).build(
            config.algorithm.source, context
        )
        self.roll_out = RollOut(
            config,
            source,
            self.engine,
            task.problems,
            self.prompts,
            tokenizer,
            grader,
            params,
            self.curriculum,
            self.ranks,
        )
        # Samples that other runs made would be missing in the record; a recording serves its own in their order.
        alone = config.runtime.record_rollouts or not reads_weights(config.engine)
        shared = None if alone else base_evaluations(config, run, initial, linear_kernel, grader)
        self.evaluator = Evaluator(
            config, run, self.engine, tokenizer, grader, params.stop_token_ids, shared, self.ranks
        )
        self.step, self.updates, self.generated_tokens, self.seconds = 0, 0, 0, 0.0
        self.carried: Groups | None = None
        self.waiting: list[Collected] = []  # rolled out ahead of their steps, oldest first
        self._warned = False

    def _build_engine(self, tokenizer: Any) -> RolloutEngine:
        def build() -> RolloutEngine:
            built: RolloutEngine = implementation("harness.rollout.engine", self.config.engine).build(
                self.config.engine, self.policy, self.config.runtime
            )
            return built

        engine: RolloutEngine = build() if self.ranks.world > 1 else RestartingEngine(build, self.policy)
        if self.config.sampling.stop_strings or self.config.evaluation.stop_strings:
            engine = StopStringEngine(engine, tokenizer)
        return engine

    def _recorded(self, engine: RolloutEngine) -> RolloutEngine:
        if not self.config.runtime.record_rollouts:
            return engine
        suffix = "" if self.ranks.world == 1 else f"-{self.ranks.rank}"
        return RecordingEngine(engine, self.run.path / f"rollouts{suffix}.jsonl")

    def _require_positions(self, task: Benchmark) -> None:
        """Refuse before the first step what an engine would refuse at the step that draws the longest prompt."""
        longest, problem = max(
            (len(ids), item.id) for ids, item in zip(self.prompts, task.problems, strict=True)
        )
        cap, positions = self.config.sampling.max_response_tokens, self.engine.positions
        if positions is not None and longest + cap > positions:
            raise ConfigError(
                f"the prompt of training problem {problem} has {longest} tokens; with sampling.max_response_tokens={cap} it exceeds the "
                f"{positions} positions of this model and engine; lower sampling.max_response_tokens, leave such problems out (task.path), "
                "or with engine=vllm raise engine.max_model_len"
            )

    # ---- the loop -------------------------------------------------------------------------------------------------------

    def train(self, stop: Callable[[], bool], attempt: int) -> bool:
        """Run to the end, or until `stop()` says so after a step. Returns whether the run is complete."""
        self._resume()
        self.sync.load()
        if self.step == 0:
            self._calibrate_curriculum()
            self._say(attempt, "evaluating the base policy")
            self.evaluator.evaluate(0)
        self._say(attempt, layout.TRAINING)
        while not self._budget_spent():
            self._one_step(attempt)
            last, stopping = self._budget_spent(), self.ranks.any(stop())
            if last or self.step % self.config.runtime.checkpoint_every == 0 or stopping:
                self.checkpoints.save(self.step, self.state(), final=last)
            else:
                self.checkpoints.poll()
            if not last and stopping:
                self.checkpoints.finish()
                return False
        self.checkpoints.finish()
        return True

    def close(self) -> None:
        """End the engine."""
        self.engine.close()

    def _say(self, attempt: int, phase: str) -> None:
        if self.ranks.first:
            self.run.say_phase(attempt, phase)

    def _calibrate_curriculum(self) -> None:
        """Give a curriculum that asks for them the initial policy's pass rates; their tokens count as generated."""
        samples = getattr(self.curriculum, "calibration_samples", 0)
        if samples:
            rates, tokens = self.roll_out.pass_rates(samples)
            self.generated_tokens += tokens
            self.curriculum.calibrate(rates)

    def _budget_spent(self) -> bool:
        training = self.config.training
        return (
            self.step >= training.steps
            or (training.generated_tokens is not None and self.generated_tokens >= training.generated_tokens)
            or (training.seconds is not None and self.seconds >= training.seconds)
        )

    def _one_step(self, attempt: int) -> None:
        begin = time.perf_counter()
        step = self.step + 1
        self.roll_out.start_step()
        collected = self._next_groups(step)
        trained = time.perf_counter()
        stats = self._update(step, collected)
        self.updater.reset_reference(step)
        updated = time.perf_counter()
        self.engine.wake()
        self.sync.load()
        seconds_train, seconds_sync = updated - trained, time.perf_counter() - updated
        self.step = step
        self.updates += stats.updates
        self.generated_tokens += collected.generated_tokens
        # One clock decides when a time budget is spent.
        self.seconds += self.ranks.from_first(time.perf_counter() - begin)
        seconds_evaluate = 0.0
        last = self._budget_spent()
        if step % self.config.training.evaluate_every == 0 or last:
            evaluated = time.perf_counter()
            self._say(attempt, f"evaluating step {step}")
            self.evaluator.evaluate(step, last=last)
            self._say(attempt, layout.TRAINING)
            seconds_evaluate = time.perf_counter() - evaluated
        row = {
            "step": step,
            "updates": self.updates,
            "attempt": attempt,
            **rollout_row(collected),
            "generated_tokens_total": self.generated_tokens,
            "verifier_faults": sum(self.ranks.gather(self.roll_out.verifier_faults)),
            **self._flipped(),
            **update_row(stats, self.config, self.updater.loss_scale),
            **engagement_row(collected, stats, self.config),
            **self.curriculum.record(),
            "learning_rate": self.updater.learning_rate(step),
            "seconds_rollout": self.roll_out.seconds["rollout"],
            "seconds_verify": self.roll_out.seconds["verify"],
            "seconds_train": seconds_train,
            "seconds_sync": seconds_sync,
            "seconds_evaluate": seconds_evaluate,
            "seconds_total": time.perf_counter() - begin,
        }
        if self.ranks.first:
            self._warn_of_mismatch(row["sampler_kl_nats"])
            self.run.append_step(row)

    def _flipped(self) -> dict[str, float]:
        """The share of verdicts that a noisy verifier turned round in the step; nothing where it is exact."""
        if self.config.algorithm.reward.exact:
            return {}
        counts = self.ranks.gather((self.roll_out.flipped_verdicts, self.roll_out.verdicts))
        flipped, verdicts = (sum(column) for column in zip(*counts, strict=True))
        return {"flipped_verdicts_fraction": flipped / verdicts if verdicts else float("nan")}

    def _warn_of_mismatch(self, kl: float) -> None:
        """Say once that the sampler is another policy than the trainer's."""
        algorithm = self.config.algorithm
        meant = self.config.sampling.lag_steps or algorithm.source.kind != "policy"
        if (
            self._warned or meant or algorithm.dead_groups.surplus == "carry" or not kl > LARGE_KL
        ):  # NaN: nothing was trained
            return
        self._warned = True
        print(
            f"step {self.step}: the engine samples from another distribution than the trainer computes, by {kl:.3g} nats a token "
            f"(more than {LARGE_KL:g}): training is off-policy. Correct for it with algorithm.engine_correction.kind=token and "
            "old_log_probs=recomputed, or sample in the trainer's precision",
            file=sys.stderr,
            flush=True,
        )

    def _next_groups(self, step: int) -> Collected:
        """The groups of this step, rolled out `lag_steps` ago; rolls out those of the step as far ahead (at first all up to it).

        Tokens are counted with the step that trains on them, and nothing is rolled out for steps beyond the last.
        """
        ahead = step + self.config.sampling.lag_steps
        for later in range(step + len(self.waiting), max(step, min(ahead, self.config.training.steps)) + 1):
            self.waiting.append(self._collect(later))
            self.carried = self.waiting[-1].surplus
        return self.waiting.pop(0)

    def _collect(self, step: int) -> Collected:
        algorithm = self.config.algorithm
        return collect(
            lambda round_, count: self.roll_out.round(step, round_, count),
            algorithm.dead_groups,
            algorithm.prompts_per_step,
            self.carried,
        )

    def _update(self, step: int, collected: Collected) -> UpdateStats:
        """The step's updates; the engine sleeps."""
        prompts = [self.prompts[i] for i in collected.kept.problems_P.tolist()]
        self.engine.sleep()
        try:
            stats = self.updater.train(step, collected.kept, prompts)
        except NumericalFault as fault:
            # All ranks raise together, and only once the file is there: the first that ends takes the others with it.
            path = self.ranks.from_first(
                save_fault(self.run, step, fault.batch) if self.ranks.first else None
            )
            self.checkpoints.finish()  # one that is still being written is of a policy that was sound
            raise NumericalFault(
                f"step {step}, {fault}. The batch is kept in {path.name} under faults/", {}
            ) from fault
        if self.policy.device.type == "cuda":
            torch.cuda.synchronize()  # the clock of this part stops when the device has done it
        return stats

    # ---- state -----------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What a resume needs besides weights and optimiser: tensors and plain values.

        Random numbers need no state: they are counter-based.
        """
        return {
            "critic": self.updater.critic.state() if self.updater.critic else None,
            "reference": self.updater.reference_state(),
            "entropy_coefficient": self.updater.entropy_control.state(),
            "loss_scale": self.updater.loss_scale.state(),
            "curriculum": self.curriculum.state(),
            "carried": None if self.carried is None else self.carried.state(),
            "waiting": [collected.state() for collected in self.waiting],
            "recorded": self.ranks.gather(getattr(self.engine, "recorded_bytes", None)),
            "step": self.step,
            "updates": self.updates,
            "generated_tokens": self.generated_tokens,
            "seconds": self.seconds,
        }

    def _resume(self) -> None:
        whole = getattr(implementation("harness.rollout.engine", self.config.engine), "WHOLE_RUNS", False)
        state = None if whole else self.checkpoints.newest()
        if isinstance(self.engine, RecordingEngine):
            sizes = state.get("recorded", []) if state else [0] * self.ranks.world
            if len(sizes) == self.ranks.world:  # another number of ranks records into other files
                self.engine.rewind(sizes[self.ranks.rank])
        if self.ranks.first:  # what a broken-off attempt made beyond the checkpoint is of another policy
            # A record, or what serves one, needs the samples before training again, too.
            anew = -1 if whole or self.config.runtime.record_rollouts else 0
            self.run.rewind(state["step"] if state else anew)
        self.ranks.from_first(None)  # nobody looks for samples before
        if state is None:
            return
        if self.updater.critic:
            self.updater.critic.restore(state["critic"])
        if state.get("reference") is not None and self.updater.reference is not None:
            self.updater.reference.restore(state["reference"])
        self.updater.entropy_control.restore(state.get("entropy_coefficient"))
        self.updater.loss_scale.restore(state.get("loss_scale"))
        self.curriculum.restore(state["curriculum"])
        self.carried = None if state["carried"] is None else Groups.of_state(state["carried"])
        self.waiting = [Collected.of_state(item) for item in state.get("waiting", [])]
        self.step, self.updates = state["step"], state["updates"]
        self.generated_tokens, self.seconds = state["generated_tokens"], state["seconds"]


def _sampling_params(config: RunConfig, stop_token_ids: tuple[int, ...]) -> SamplingParams:
    sampling = config.sampling
    return SamplingParams(
        max_response_tokens=sampling.max_response_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        stop_token_ids=stop_token_ids,
        stop_strings=tuple(sampling.stop_strings),
    )
