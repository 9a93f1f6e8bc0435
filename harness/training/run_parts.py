"""The parts of a run, wired together, and how far it has come. The steps are taken in `harness.training.loop`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.base_policy.pretrained import Config as Pretrained
from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash
from harness.configuration.registry import CURRICULUM, ENGINE, SOURCE, implementation
from harness.configuration.schema import RunConfig, dump
from harness.evaluation.evaluate import Evaluator
from harness.model.checkpoint import decodable, load_tokenizer
from harness.model.linear import BFLOAT16
from harness.model.policy import NativePolicy, Policy
from harness.model.ranks import Ranks
from harness.model.system import content_fingerprint
from harness.objective.objective import Objective
from harness.problems.problem import load_benchmark
from harness.reward.function import RewardFunction
from harness.reward.shaping import Grader
from harness.rollout.types import RolloutEngine, SamplingParams, prompt_tokens, stop_tokens
from harness.rollout.wrappers import RecordingEngine, StopStringEngine, WeightSync, key
from harness.sampling.curriculum import Curriculum
from harness.sampling.selection import Collected, Groups
from harness.sampling.source import Source, SourceContext
from harness.store import RunDir
from harness.training.checkpoints import Checkpoints, as_data, holds_shards
from harness.training.update import Updater


@dataclass
class Progress:
    """How far a run has come: all that its steps change besides weights, optimiser and curriculum.

    Attributes:
        step, updates: rollout steps and optimiser updates made.
        generated_tokens, seconds: spent on training so far, of all ranks.
        carried: groups with contrast that the last batch had no room for.
        waiting: groups rolled out ahead of their steps, oldest first.
    """

    step: int = 0
    updates: int = 0
    generated_tokens: int = 0
    seconds: float = 0.0
    carried: Groups | None = None
    waiting: list[Collected] = field(default_factory=list)

    def counts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("step", "updates", "generated_tokens", "seconds")}

    def state(self) -> dict[str, Any]:
        return {"carried": as_data(self.carried), "waiting": as_data(self.waiting), **self.counts()}

    def restore_counts(self, state: dict[str, Any]) -> None:
        for name in self.counts():
            setattr(self, name, state[name])

    def restore(self, state: dict[str, Any]) -> None:
        self.restore_counts(state)
        self.carried = None if state["carried"] is None else Groups.of_state(state["carried"])
        self.waiting = [Collected.of_state(item) for item in state["waiting"]]


class RunParts:
    """All parts of one run, wired together; on several ranks each rank has its own. Only `progress` changes from step to step.

    Attributes:
        warned: a warning was given that the engine samples from another policy than the trainer's.
    """

    def __init__(
        self,
        config: RunConfig,
        run: RunDir,
        initial: Path,
        linear_kernel: str,
        grader: Grader,
        ranks: Ranks | None = None,
    ) -> None:
        self.config, self.run, self.grader, self.ranks = config, run, grader, ranks or Ranks()
        self.progress, self.warned = Progress(), False
        # The policy and what trains it.
        self.tokenizer = load_tokenizer(initial)
        self.policy = open_policy(config, initial, linear_kernel, self.ranks, holds_shards(run))
        self.updater = Updater(config, self.policy, Objective(config.algorithm), self.ranks)
        self.checkpoints = Checkpoints(
            run, config.runtime.keep_checkpoints, self.policy, self.updater.optimizer, self.ranks
        )
        # The engine and what it is asked.
        engine = self._build_engine()
        self.engine = self._recorded(engine)
        task = load_benchmark(config.task)
        self.problems, self.prompts = task.problems, prompt_tokens(self.tokenizer, task)
        self.prompt_keys = np.array([key("problem", problem.id) for problem in task.problems])
        self.params = _sampling_params(config, stop_tokens(self.tokenizer, initial))
        self._require_positions()
        # The check of a weight update belongs to no rollout, so it bypasses the recording.
        self.sync = WeightSync(engine, self.policy, self.prompts, self.params, self.ranks)
        # Where problems, responses and rewards come from.
        curriculum, source = config.algorithm.curriculum, config.algorithm.source
        self.curriculum: Curriculum = implementation(CURRICULUM, curriculum).build(
            curriculum, len(task.problems), config.seed
        )
        score = self.updater.score_responses
        context = SourceContext(
            config, self.policy, self.engine, self.tokenizer, task.problems, self.prompts, score
        )
        self.source: Source = implementation(SOURCE, source).build(source, context)
        reward = config.algorithm.reward
        self.reward_function = RewardFunction(reward) if reward.function else None
        # Evaluation. A record has to hold a run's own samples, so it shares none.
        shared = None
        if not config.runtime.record_rollouts:
            shared = base_evaluations(config, run, initial, linear_kernel, grader)
        self.evaluator = Evaluator(
            config, run, self.engine, self.tokenizer, grader, self.params.stop_token_ids, shared, self.ranks
        )

    def close(self) -> None:
        self.engine.close()

    def say(self, attempt: int, phase: str) -> None:
        if self.ranks.first:
            self.run.say_phase(attempt, phase)

    def budget_spent(self) -> bool:
        training, progress = self.config.training, self.progress
        spent: list[tuple[float, float | None]] = [
            (progress.step, training.steps),
            (progress.generated_tokens, training.generated_tokens),
            (progress.seconds, training.seconds),
        ]
        return any(limit is not None and used >= limit for used, limit in spent)

    def counts(self) -> dict[str, Any]:
        """Return how far the run is: what a resume needs after its last step."""
        recorded = self.ranks.gather(getattr(self.engine, "recorded_bytes", None))
        return {"recorded": recorded, **self.progress.counts()}

    def state(self) -> dict[str, Any]:
        """Return what a resume needs besides weights and optimiser: tensors and plain values.

        Random numbers need no state: they are counter-based.
        """
        state = {**self.updater.state(), "curriculum": self.curriculum.state()}
        return {**state, **self.progress.state(), **self.counts()}

    def resume(self) -> None:
        """Go back to the newest checkpoint, or to step 0 where there is none."""
        state = self.checkpoints.newest()
        if isinstance(self.engine, RecordingEngine):
            sizes = state["recorded"] if state else [0] * self.ranks.world
            if len(sizes) == self.ranks.world:  # another number of ranks records into other files
                self.engine.rewind(sizes[self.ranks.rank])
        if self.ranks.first:  # what a broken-off attempt made beyond the checkpoint is of another policy
            # A record needs the samples before training again, too.
            start = -1 if self.config.runtime.record_rollouts else 0
            self.run.rewind(state["step"] if state else start)
        self.ranks.from_first(None)  # nobody looks for samples before
        if state is None:
            return
        self.progress.restore_counts(state)
        if self.budget_spent():  # trained to its end, and stopped before that was recorded
            return
        self.updater.restore(state)
        self.curriculum.restore(state["curriculum"])
        self.progress.restore(state)

    # ---- wiring ---------------------------------------------------------------------------------------------------------

    def _build_engine(self) -> RolloutEngine:
        engine: RolloutEngine = implementation(ENGINE, self.config.engine).build(
            self.config.engine, self.policy, self.config.runtime
        )
        if self.config.sampling.stop_strings or self.config.evaluation.stop_strings:
            engine = StopStringEngine(engine, self.tokenizer)
        return engine

    def _recorded(self, engine: RolloutEngine) -> RolloutEngine:
        if not self.config.runtime.record_rollouts:
            return engine
        suffix = "" if self.ranks.world == 1 else f"-{self.ranks.rank}"
        return RecordingEngine(engine, self.run.path / f"rollouts{suffix}.jsonl")

    def _require_positions(self) -> None:
        """Refuse before the first step what an engine would refuse at the step that draws the longest prompt."""
        longest, problem = max(
            (len(ids), item.id) for ids, item in zip(self.prompts, self.problems, strict=True)
        )
        cap, positions = self.config.sampling.max_response_tokens, self.engine.positions
        if positions is not None and longest + cap > positions:
            raise ConfigError(
                f"the prompt of training problem {problem} has {longest} tokens; with sampling.max_response_tokens={cap} it exceeds the "
                f"{positions} positions of this model and engine; lower sampling.max_response_tokens, leave such problems out (task.path), "
                "or with engine=vllm raise engine.max_model_len"
            )


def base_evaluations(
    config: RunConfig, run: RunDir, initial: Path, linear_kernel: str, grader: Grader
) -> Path:
    """Return the store's folder for samples of this initial policy under this protocol (see `Evaluator`)."""
    benchmarks = {name: load_benchmark(item) for name, item in config.evaluation.benchmarks.items()}
    # A file may be mended at its place: its content counts, not its path.
    versions = {name: [item.version, item.content] for name, item in benchmarks.items()}
    protocol = [dump(config.evaluation), dump(config.verifier), dump(config.engine)]
    # A cached policy's folder is named by its content; another may be overwritten in place, and its precision matters.
    testbed = config.model.kind == "testbed"
    model = [] if testbed else [content_fingerprint(initial), config.model.precision]
    # Another device rounds otherwise, and some responses go on otherwise.
    device = [torch.cuda.get_device_name()] if config.runtime.device == "cuda" else []
    verifier = grader.verifier.fingerprint()
    depends = [initial.name, *model, linear_kernel, versions, protocol, verifier, *device]
    return run.path.parent.parent / "cache" / "evaluations" / content_hash(*depends)


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


def open_policy(config: RunConfig, folder: Path, linear_kernel: str, ranks: Ranks, shards: bool) -> Policy:
    """Open the native policy where it computes what is asked, the transformers policy otherwise.

    The native one serves the testbed's model, and pretrained models in float32 or mixed precision on one rank of a CPU: there it is
    faster, and the native engine samples from the very weights that are trained. `shards`: the run goes on
    from a checkpoint that only the other one reads.

    Raises:
        ConfigError: the checkpoint does not fit the configuration or the machine.
    """
    device = "cuda" if config.runtime.device == "cuda" else "cpu"
    settings = config.model
    if settings.kind == "testbed":
        if ranks.world == 1:
            return NativePolicy.load(folder, linear_kernel, device)
        settings = Pretrained(precision="float32")
    elif not shards and _native(settings, folder, device, ranks, config.runtime.gradient_checkpointing):
        return NativePolicy.load(
            folder, BFLOAT16 if settings.precision == "mixed" else linear_kernel, shares_prompts=True
        )
    elif settings.precision == "mixed":
        raise ConfigError(
            "model.precision=mixed is for a Llama, Qwen2 or Qwen3 model on one CPU rank, without adapters or gradient checkpointing; "
            "use model.precision=bfloat16 or float32"
        )
    from harness.model.transformers_policy import TransformersPolicy

    return TransformersPolicy.load(folder, settings, config.runtime)


def _native(settings: Any, folder: Path, device: str, ranks: Ranks, checkpointing: bool) -> bool:
    if device != "cpu" or ranks.world > 1 or settings.lora.rank or checkpointing:
        return False
    return settings.precision in ("float32", "mixed") and decodable(folder)
