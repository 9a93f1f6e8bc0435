"""The parts of a run, wired together, and how far it has come. The steps are taken in `harness.training.loop`."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from contextlib import ExitStack
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
from harness.configuration.sections import AlgorithmConfig
from harness.evaluation.evaluate import Evaluator
from harness.model.checkpoint import decodable, load_tokenizer
from harness.model.policy import NativePolicy, Policy
from harness.model.ranks import ALONE, Ranks, objects_group
from harness.model.system import content_fingerprint
from harness.objective.objective import Objective
from harness.problems.problem import load_benchmark
from harness.reward.function import RewardFunction
from harness.reward.shaping import Grader
from harness.rollout.types import RolloutEngine, SamplingParams, prompt_tokens, stop_tokens
from harness.rollout.wrappers import RecordingEngine, StopStringEngine, WeightSync, key
from harness.sampling.curriculum import Curriculum
from harness.sampling.never_give_up import NeverGiveUp
from harness.sampling.selection import Groups, Selection
from harness.sampling.source import Source, SourceContext
from harness.store import RunDir, layout
from harness.store.atomic import write_file
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
    waiting: list[Selection] = field(default_factory=list)

    def counts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("step", "updates", "generated_tokens", "seconds")}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what a checkpoint has; one of the last step has the counts alone."""
        vars(self).update({name: state[name] for name in self.counts()})
        if state.get("carried") is not None:
            self.carried = Groups.of_state(state["carried"])
        self.waiting = [Selection.of_state(item) for item in state.get("waiting", ())]


class TaskParts:
    """What a run asks its policy and how responses are graded, whoever trains; `initial` gives the tokenizer."""

    def __init__(self, config: RunConfig, run: RunDir, initial: Path, grader: Grader, ranks: Ranks) -> None:
        self.config, self.run, self.grader, self.ranks = config, run, grader, ranks
        self.tokenizer = load_tokenizer(initial)
        task = load_benchmark(config.task)
        self.problems, self.prompts = task.problems, prompt_tokens(self.tokenizer, task)
        self.prompt_keys = np.array([key("problem", problem.id) for problem in task.problems])
        self.params = _sampling_params(config, stop_tokens(self.tokenizer, initial))
        curriculum, reward = config.algorithm.curriculum, config.algorithm.reward
        self.curriculum: Curriculum = implementation(CURRICULUM, curriculum).build(
            curriculum, len(task.problems), config.seed
        )
        if config.algorithm.dead_groups.policy == "never_give_up":
            self.curriculum = NeverGiveUp(
                self.curriculum, config.algorithm.dead_groups, len(task.problems), config.seed
            )
        self.reward_function = (
            RewardFunction(reward, _warn, _nonnegative_for(config.algorithm)) if reward.function else None
        )

    def say(self, attempt: int, phase: str) -> None:
        if self.ranks.first:
            self.run.say_phase(attempt, phase)


class RunParts(TaskParts):
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
        ranks: Ranks = ALONE,
    ) -> None:
        super().__init__(config, run, initial, grader, ranks)
        self.progress, self.warned = Progress(), False
        # The policy and what trains it.
        self.policy = open_policy(config, initial, linear_kernel, self.ranks, has_transformers_checkpoint(run))
        self.updater = Updater(config, self.policy, Objective(config.algorithm), self.ranks)
        self.checkpoints = Checkpoints(
            run, config.runtime.keep_checkpoints, self.policy, self.updater.optimizer, self.ranks
        )
        # The engine, which is closed where a part after it cannot be made.
        engine = build_engine(config, self.policy, self.tokenizer)
        with ExitStack() as on_failure:
            on_failure.callback(engine.close)
            self.engine: RolloutEngine = engine
            self.recorder: RecordingEngine | None = None
            if config.runtime.record_rollouts:
                suffix = "" if self.ranks.world == 1 else f"-{self.ranks.rank}"
                self.engine = self.recorder = RecordingEngine(engine, run.path / "rollouts", suffix)
            # The check of a weight update belongs to no rollout, so it bypasses the recording.
            self.sync = WeightSync(engine, self.policy, self.prompts, self.params, self.ranks)
            # Where responses come from.
            source, score = config.algorithm.source, self.updater.score_responses
            context = SourceContext(
                config, self.policy, self.engine, self.tokenizer, self.problems, self.prompts, score
            )
            self.source: Source = implementation(SOURCE, source).build(source, context)
            # Evaluation. A record has to hold a run's own samples, so it shares none.
            cache = None
            if not config.runtime.record_rollouts:
                cache = base_evaluations(config, run, initial, linear_kernel, grader, self.ranks)
            self.evaluator = Evaluator(
                config, run, self.engine, self.tokenizer, grader, self.params.stop_token_ids, cache, self.ranks
            )
            on_failure.pop_all()

    def close(self) -> None:
        self.engine.close()

    def budget_spent(self) -> bool:
        progress = self.progress
        return self.config.training.is_spent(progress.step, progress.generated_tokens, progress.seconds)

    def state(self) -> dict[str, Any]:
        """Return what a resume needs besides weights and optimiser: tensors and plain values.

        Random numbers need no state: they are counter-based.
        """
        state = {**self.updater.state(), "curriculum": self.curriculum.state()}
        return {**state, **as_data(self.progress)}

    def resume(self) -> None:
        """Go back to the newest checkpoint, or to step 0 where there is none."""
        state = self.checkpoints.newest()
        if self.ranks.first and state is None:
            warn_of_lost_steps(self.run, self.config)
        if self.ranks.first:  # what a broken-off attempt made beyond the checkpoint is of another policy
            # A record needs the samples before training again, too.
            start = -1 if self.config.runtime.record_rollouts else 0
            self.run.rewind(state["step"] if state else start)
        self.ranks.from_first(None)  # nobody looks for samples before
        if state is None:
            return
        self.progress.restore(state)
        if self.budget_spent():  # trained to its end, and stopped before that was recorded
            return
        self.updater.restore(state)
        self.curriculum.restore(state["curriculum"])

    def require_positions(self) -> None:
        """Refuse before the first step what an engine would refuse at the step that draws the longest prompt."""
        longest, problem = max((len(ids), item.id) for ids, item in zip(self.prompts, self.problems, strict=True))
        cap, positions = self.config.sampling.max_response_tokens, self.engine.positions
        if positions is not None and longest + cap > positions:
            raise ConfigError(
                f"the prompt of training problem {problem} has {longest} tokens; with sampling.max_response_tokens={cap} it exceeds the "
                f"{positions} positions of this model and engine; lower sampling.max_response_tokens, leave such problems out (task.path), "
                "or with engine=vllm raise engine.max_model_len"
            )


def build_engine(config: RunConfig, policy: Policy, tokenizer: Any) -> RolloutEngine:
    """The run's engine, which samples from a policy."""
    engine: RolloutEngine = implementation(ENGINE, config.engine).build(config.engine, policy, config.runtime)
    if config.sampling.stop_strings or config.evaluation.stop_strings:
        engine = StopStringEngine(engine, tokenizer)
    return engine


def base_evaluations(
    config: RunConfig, run: RunDir, initial: Path, linear_kernel: str, grader: Grader, ranks: Ranks
) -> Path:
    """Return the store's folder for samples of this initial policy under this protocol (see `Evaluator`).

    `ranks`: those that the policy is sharded over.
    """
    benchmarks = {name: load_benchmark(item) for name, item in config.evaluation.benchmarks.items()}
    # A file may be mended at its place: its content counts, not its path.
    versions = {name: [item.version, item.content] for name, item in benchmarks.items()}
    protocol = [dump(config.evaluation), dump(config.verifier), dump(config.engine)]
    # A cached policy's folder is named by its content; another may be overwritten in place, and its precision matters.
    testbed = config.model.kind == "testbed"
    model = [] if testbed else [content_fingerprint(initial), config.model.precision]
    # Another device rounds otherwise, and some responses go on otherwise.
    device = [torch.cuda.get_device_name()] if config.runtime.device == "cuda" else []
    sharding = ["sharded"] if ranks.world > 1 else []  # a policy on several ranks rounds otherwise, too
    verifier = grader.verifier.fingerprint()
    dependencies = [initial.name, *model, linear_kernel, versions, protocol, verifier, *device, *sharding]
    return run.path.parent.parent / "cache" / "evaluations" / content_hash(*dependencies)


def _nonnegative_for(algorithm: AlgorithmConfig) -> str:
    """Name the setting under which a negative reward would turn the advantages round; empty where there is none."""
    if algorithm.overlong.punishes and algorithm.overlong.shape == "multiplicative":
        return "algorithm.overlong.shape=multiplicative"
    divides = getattr(algorithm.advantage, "scale", "") == "group_mean"
    return "algorithm.advantage.scale=group_mean" if divides else ""


def _sampling_params(config: RunConfig, stop_token_ids: tuple[int, ...]) -> SamplingParams:
    sampling = config.sampling
    return SamplingParams(
        max_response_tokens=sampling.max_response_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        stop_token_ids=stop_token_ids,
        stop_strings=tuple(sampling.stop_strings),
        head=config.algorithm.surrogate.likeliest,
    )


def open_policy(
    config: RunConfig, folder: Path, linear_kernel: str, ranks: Ranks, transformers: bool = False
) -> Policy:
    """Open the native policy where it computes what is asked, the transformers policy otherwise.

    The native one serves the testbed's model, and pretrained Llama, Qwen2 and Qwen3 models on one rank of a CPU: there it is
    faster, and the native engine samples from the very weights that are trained. `transformers`: the run goes
    on from a checkpoint that only the other one reads.

    Raises:
        ConfigError: the checkpoint does not fit the configuration or the machine.
    """
    device = "cuda" if config.runtime.device == "cuda" else "cpu"
    settings = config.model
    if settings.kind == "testbed":
        if ranks.world == 1:
            return NativePolicy.load(folder, linear_kernel, device)
        settings = Pretrained(precision="float32")
    elif not transformers and _native(settings, folder, device, ranks, config.runtime.gradient_checkpointing):
        kernel = linear_kernel if settings.precision == "float32" else settings.precision
        return NativePolicy.load(folder, kernel, shares_prompts=True, head_kernel=linear_kernel)
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
    return decodable(folder)


STATE, POLICY, WHOLE, SHARDS = "state.pt", "policy", "trained.pt", "shards"


class Checkpoints:
    """Checkpoints of a run.

    One process writes plain files: the native policy's all in `state.pt`, the transformers policy's weights and optimiser whole in
    `trained.pt`. Several ranks write them as `shards`. The last two are read on any number of ranks.
    """

    def __init__(self, run: RunDir, keep: int, policy: Any, optimizer: torch.optim.Optimizer, ranks: Ranks) -> None:
        self.run, self.keep, self.policy, self.optimizer, self.ranks = run, keep, policy, optimizer, ranks

    def save(self, step: int, state: dict[str, Any], final: bool) -> None:
        """Publish everything a resume needs; after the last step the policy. Collective.

        Args:
            step: the rollout step.
            state: what the loop keeps besides weights and optimiser, as tensors and plain values; the same on every rank.
            final: write the policy as an ordinary checkpoint instead of weights and optimiser.
        """
        keep = 1 if final else self.keep
        if self.ranks.world == 1:
            self.run.publish_checkpoint(step, lambda folder: self._write(folder, state, final), keep=keep)
            return
        staging = self.run.path / "checkpoints" / f".staging-{step}.tmp"
        if self.ranks.first:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(parents=True)
        self.ranks.from_first(None)  # nobody writes before the folder is there
        self._write(staging, state, final)
        self.ranks.gather(None)  # every rank has written
        if self.ranks.first:

            def move(folder: Path) -> None:
                for item in staging.iterdir():
                    item.rename(folder / item.name)

            self.run.publish_checkpoint(step, move, keep=keep)
            staging.rmdir()
        self.ranks.from_first(None)

    def _write(self, folder: Path, state: dict[str, Any], final: bool) -> None:
        """Write this rank's part."""
        native, tensors = isinstance(self.policy, NativePolicy), {} if final else _tensors(self.policy, self.optimizer)
        if self.ranks.first:
            _save(state | tensors if native else state, folder / STATE)
        if final:
            self.policy.save(folder / POLICY)
        elif self.ranks.world > 1:
            from torch.distributed.checkpoint.state_dict_saver import save

            save(tensors, checkpoint_id=folder / SHARDS, process_group=objects_group())
        elif not native:
            _save(tensors, folder / WHOLE)

    def newest(self) -> dict[str, Any] | None:
        """Load weights and optimiser from the newest checkpoint that is what was written; the loop's state, None where there is none.

        One that is not is told of and passed over. For a run that was trained to its end only the state is loaded, since there is nothing
        left to train.
        """
        folder = self.ranks.from_first(newest_checkpoint(self.run) if self.ranks.first else None)
        if folder is None:
            return None
        state: dict[str, Any] = torch.load(folder / STATE, map_location="cpu", weights_only=True)
        if (folder / POLICY).is_dir():
            return state
        whole, shards, native = folder / WHOLE, folder / SHARDS, isinstance(self.policy, NativePolicy)
        if native == (whole.exists() or shards.exists()):
            raise ConfigError(
                f"{folder} was written by the {'transformers' if native else 'native'} policy, which names weights otherwise; resume with "
                "the runtime.ranks, device and gradient_checkpointing that it had, or begin a new run"
            )
        if shards.exists():
            _read_shards(self.policy, self.optimizer, shards)
        else:
            source = state if native else torch.load(whole, map_location="cpu", weights_only=True)
            _restore(self.policy, self.optimizer, {name: source.pop(name) for name in ("policy", "optimizer")})
        return state


def has_transformers_checkpoint(run: RunDir) -> bool:
    return any((folder / name).exists() for _, folder in run.checkpoints() for name in (WHOLE, SHARDS))


def newest_checkpoint(run: RunDir) -> Path | None:
    """The newest checkpoint that is what was written, None where there is none; tells of those that are passed over."""
    folder, faults = run.newest_checkpoint()
    for fault in faults:
        _warn(f"{fault}; this checkpoint is left out" + (f", {folder.name} is taken" if folder else ""))
    return folder


def warn_of_lost_steps(run: RunDir, config: RunConfig) -> None:
    """Tell how many steps a run without a checkpoint trains once more."""
    if lost_steps := (run.last_step() or {"step": 0})["step"]:
        every = f"runtime.checkpoint_every={config.runtime.checkpoint_every}"
        _warn(f"the run starts again from step 1 and trains {lost_steps} steps anew: no checkpoint is left ({every})")


def _warn(text: str) -> None:
    print(f"{layout.WARNING}{text}", file=sys.stderr, flush=True)


OUT_OF_MEMORY = "out-of-memory.txt"  # in the folder of an attempt: the micro-batch that did not fit


def out_of_memory(config: RunConfig, run: RunDir) -> MemoryError:
    """What to raise where memory ran out in an update; the run's next attempt takes half of the micro-batch."""
    size, attempt = config.runtime.micro_batch_tokens, run.newest_attempt()
    if attempt is not None:
        write_file(attempt / OUT_OF_MEMORY, str(size).encode())
    shards = config.backend.kind != "trl"  # whose processes hold a copy each
    return MemoryError(
        f"an update does not fit into memory with runtime.micro_batch_tokens={size}; the next attempt takes half. Instead set "
        f"runtime.gradient_checkpointing=true, or train with model.lora.rank{', or use more GPUs (runtime.gpus_per_run)' * shards}"
    )


def fit_memory(config: RunConfig, run: RunDir) -> RunConfig:
    """The configuration with half of the smallest micro-batch that did not fit before. No gradient depends on it.

    A process of its own begins with it: FSDP2 gives wrong scores, silently, after a pass that broke off.
    """
    tokens, files = config.runtime.micro_batch_tokens, run.path.glob(f"attempts/*/{OUT_OF_MEMORY}")
    size = min([tokens, *(max(1, int(file.read_text()) // 2) for file in files)])
    if size == tokens:
        return config
    _warn(f"memory ran out with larger micro-batches: runtime.micro_batch_tokens={size} instead of {tokens}")
    return dataclasses.replace(config, runtime=dataclasses.replace(config.runtime, micro_batch_tokens=size))


def save_fault(run: RunDir, step: int, batch: dict[str, Any]) -> Path:
    """Keep the batch of a faulty update for inspection: `torch.load(path)` gives dicts of tensors."""
    path = run.path / "faults" / f"step-{step:06d}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(as_data(batch), path)
    return path


def as_data(value: Any) -> Any:
    """Return the same value with dataclasses as dicts of their fields and without gradients, as checkpoints hold it."""
    if dataclasses.is_dataclass(value):
        return {field.name: as_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: as_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_data(item) for item in value]
    return value.detach() if isinstance(value, torch.Tensor) else value


# ---- weights and optimiser ------------------------------------------------------------------------------------------------


def _save(tensors: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:  # by a path torch would not say that the disk is full
        torch.save(tensors, file)


def _read_shards(policy: Any, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Load shards that this or another number of ranks wrote. Collective."""
    from torch.distributed.checkpoint.state_dict_loader import load

    # torch fills an empty optimiser state with zeros to load into, but only where no gradient is there.
    optimizer.zero_grad(set_to_none=True)
    tensors = _tensors(policy, optimizer)
    load(tensors, checkpoint_id=folder, process_group=objects_group())
    _restore(policy, optimizer, tensors)


def _tensors(policy: Any, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Weights and optimiser as a checkpoint holds them: whole on one rank, this rank's shards on several."""
    if isinstance(policy, NativePolicy):
        return {"policy": policy.state(), "optimizer": optimizer.state_dict()}
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    state = get_optimizer_state_dict(policy.scoring, optimizer, options=policy.state_options())
    return {"policy": policy.state(), "optimizer": state}


def _restore(policy: Any, optimizer: torch.optim.Optimizer, tensors: dict[str, Any]) -> None:
    """Take weights and optimiser back, whole or as this rank's shards. Collective."""
    policy.restore(tensors["policy"])
    if isinstance(policy, NativePolicy):
        optimizer.load_state_dict(tensors["optimizer"])
        return
    from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict

    optimizer.zero_grad(set_to_none=True)  # see `_read_shards`
    set_optimizer_state_dict(
        policy.scoring, optimizer, tensors["optimizer"], options=policy.state_options(tensors["policy"])
    )
    for parameter in policy.parameters():
        parameter.grad = torch.zeros_like(parameter)
