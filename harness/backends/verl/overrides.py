"""The configuration of a run in verl 0.9.1's Hydra keys, every unit converted, and what no key of verl can say.

The algorithm's part is the dialect's (`harness.exchange.verl`) and our plugin's (`extension`); here stand data, model, machine,
rewards and files.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.backends.verl import extension
from harness.configuration.identity import content_hash
from harness.configuration.schema import RunConfig, dump
from harness.exchange.dialect import hydra_value
from harness.exchange.verl import ACTOR, OPTIMIZER, ROLLOUT
from harness.model.system import visible_gpus

MODEL, REF = "actor_rollout_ref.model", "actor_rollout_ref.ref"
REWARD, FUNCTION = "reward.reward_kwargs", "reward.custom_reward_function"
ENVIRONMENT = "ray_kwargs.ray_init.runtime_env.env_vars"
FILE_LOGGER = "VERL_FILE_LOGGER_PATH"
# Keys that verl reads although its schema has not got them: Hydra wants a plus in front.
ADDED = (
    f"{OPTIMIZER}.override_optimizer_config.",
    f"{REWARD}.",
    f"{FUNCTION}.reward_kwargs.",
    f"{ENVIRONMENT}.",
    extension.SETTINGS,
)
# Prompts are written out with their template (see `data`): verl's tokenizer has only to read them.
WRITTEN_PROMPT = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
_PLUGIN = Path(__file__).with_name("reward_plugin.py")
_ROOT = Path(__file__).resolve().parents[3]
_EPOCHS = 1_000_000  # never the end: trainer.total_training_steps is
DATA_VERSION, TRAIN_FILE = 1, "train.parquet"


@dataclass(frozen=True)
class Place:
    """Paths of an attempt, all absolute: every process of verl, on whatever node, sees them (a shared file system).

    `data`: folder of the problems as verl reads them; `model`: the initial policy's; `prompt_tokens`: of the longest prompt.
    """

    run: Path
    data: Path
    model: Path
    prompt_tokens: int
    stop_token_ids: tuple[int, ...]
    attempt: int

    @property
    def folder(self) -> Path:
        return self.run / "verl"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def metrics(self) -> Path:
        """Verl's file logger; one file an attempt, since it empties the file that it opens."""
        return self.folder / f"metrics-{self.attempt:03d}.jsonl"

    @property
    def ledger(self) -> Path:
        """One line per response that was graded in this attempt, a file per process."""
        return self.folder / f"ledger-{self.attempt:03d}"


def data_folder(config: RunConfig, cache: Path, model: Path) -> Path:
    """Return the folder of a configuration's problems: named by all they depend on (the tokenizer writes chat turns)."""
    dependencies = [DATA_VERSION, dump(config.task), str(model)]
    return cache / "verl" / content_hash(*dependencies)


def overrides(config: RunConfig, place: Place) -> list[str]:
    """Return the arguments after `python -m verl.trainer.main_ppo`, the user's own last."""
    ours = [
        f"{'+' if key.startswith(ADDED) else ''}{key}={hydra_value(value)}"
        for key, value in settings(config, place).items()
    ]
    return [
        *ours,
        f"hydra.run.dir={hydra_value(str(place.folder))}",
        "hydra.output_subdir=null",
        *config.backend.overrides,
    ]


def settings(config: RunConfig, place: Place) -> dict[str, Any]:
    values = dict(extension.export(config).settings)
    for part in (_inputs, _update, _rewards, _trainer):
        values |= part(config, place)
    return values


def owns(config: RunConfig, key: str) -> bool:
    """Return whether a key of verl, or a part of it, follows from the configuration."""
    nowhere = Path("/")
    keys = settings(config, Place(nowhere, nowhere, nowhere, 1, (0,), 0))
    return any(key == ours or key.startswith(f"{ours}.") or ours.startswith(f"{key}.") for ours in keys)


def _inputs(config: RunConfig, place: Place) -> dict[str, Any]:
    """Data, model and sampler."""
    machine = config.runtime.verl
    return {
        "data.train_files": str(place.data / TRAIN_FILE),
        "data.val_files": str(place.data / TRAIN_FILE),  # verl asks for some; it validates never
        "data.max_prompt_length": place.prompt_tokens,
        "data.truncation": "error",
        "data.shuffle": True,  # a fresh permutation an epoch
        "data.seed": config.seed,
        f"{MODEL}.path": str(place.model),
        f"{MODEL}.custom_chat_template": WRITTEN_PROMPT,
        f"{MODEL}.use_remove_padding": True,
        f"{MODEL}.enable_gradient_checkpointing": config.runtime.gradient_checkpointing,
        f"{ROLLOUT}.name": config.backend.rollout_engine,
        f"{ROLLOUT}.dtype": "bfloat16",
        f"{ROLLOUT}.seed": config.seed,
        f"{ROLLOUT}.calculate_log_probs": True,
        f"{ROLLOUT}.tensor_model_parallel_size": machine.tensor_parallel,
        f"{ROLLOUT}.gpu_memory_utilization": machine.gpu_memory_utilization,
        f"{ROLLOUT}.max_num_seqs": config.runtime.rollout_rows,
    }


def _update(config: RunConfig, place: Place) -> dict[str, Any]:
    machine = config.runtime.verl
    longest = place.prompt_tokens + config.sampling.max_response_tokens
    tokens = max(config.runtime.micro_batch_tokens, -(-longest // machine.sequence_parallel))
    return {
        f"{ACTOR}.fsdp_config.model_dtype": "fp32",  # master weights; products are bfloat16
        f"{ACTOR}.fsdp_config.dtype": "bfloat16",
        f"{ACTOR}.fsdp_config.seed": config.seed,
        f"{ACTOR}.use_dynamic_bsz": True,
        f"{ACTOR}.ppo_max_token_len_per_gpu": tokens,  # at least one whole response
        f"{ACTOR}.ulysses_sequence_parallel_size": machine.sequence_parallel,
        f"{ACTOR}.fsdp_config.param_offload": machine.offload,
        f"{ACTOR}.fsdp_config.optimizer_offload": machine.offload,
        f"{REF}.fsdp_config.param_offload": machine.offload,
        f"{ACTOR}.data_loader_seed": config.seed,
        # With the sampler's log-probabilities there is no other forward that yields the entropy.
        f"{ACTOR}.calculate_entropy": config.algorithm.engine_correction.old_log_probs == "sampler",
    }


def _rewards(config: RunConfig, place: Place) -> dict[str, Any]:
    reward, verifier = config.algorithm.reward, config.verifier
    arguments = {
        "python": sys.executable,
        "root": str(_ROOT),
        "extraction": verifier.extraction,
        "answer_must_end": verifier.answer_must_end,
        "form": verifier.form,
        "workers": config.runtime.verifier_workers,
        "correct": reward.correct,
        "wrong": reward.wrong,
        "format_credit": reward.format_credit,
    }
    return {
        f"{FUNCTION}.path": str(_PLUGIN),
        f"{FUNCTION}.name": "compute_score",
        **{f"{FUNCTION}.reward_kwargs.{key}": value for key, value in arguments.items()},
        "reward.num_workers": config.runtime.verl.reward_workers,
        "reward.reward_manager.source": "importlib",
        "reward.reward_manager.name": "RecordingRewardManager",  # verl's DAPO manager, which also writes the ledger
        "reward.reward_manager.module.path": str(_PLUGIN),
        f"{REWARD}.max_resp_len": config.sampling.max_response_tokens,
        f"{REWARD}.ledger": str(place.ledger),
        f"{REWARD}.stop_token_ids": list(place.stop_token_ids),
    }


def _trainer(config: RunConfig, place: Place) -> dict[str, Any]:
    """Machine and files."""
    runtime = config.runtime
    return {
        "trainer.val_before_train": False,  # evaluations are ours
        "trainer.test_freq": -1,
        "trainer.use_v1": True,
        "trainer.v1.trainer_mode": "sync",
        "trainer.nnodes": runtime.nodes,
        "trainer.n_gpus_per_node": runtime.gpus_per_run,
        "trainer.total_epochs": _EPOCHS,
        "trainer.project_name": "rlvr-harness",
        "trainer.experiment_name": place.run.name,
        "trainer.logger": ["console", "file"],
        f"{ENVIRONMENT}.{FILE_LOGGER}": str(place.metrics),
        "trainer.save_freq": runtime.checkpoint_every,
        "trainer.max_actor_ckpt_to_keep": runtime.keep_checkpoints,
        "trainer.default_local_dir": str(place.checkpoints),
        "trainer.resume_mode": "auto",
    }


def refusals(config: RunConfig) -> list[str]:
    """Return all reasons why verl does not train this configuration; empty where it does."""
    checks = (_refused_settings, _refused_machine, _refused_overrides)
    return [*extension.export(config).inexpressible, *(line for part in checks for line in part(config))]


def differences(config: RunConfig) -> list[str]:
    """What verl does otherwise, whatever is asked of it; differences that `backend.accept` lists are known."""
    known, deviations = config.backend.accept, extension.export(config).deviations
    lines = [text for name, text in deviations.items() if name not in known]
    lines.append("prompts come in verl's own random order, so seeds are not paired with those of other trainers")
    if config.algorithm.updates_per_step > 1:
        lines.append("a step's responses are dealt out to the GPUs by length, so updates take no whole groups")
    if config.training.evaluate_every < config.training.steps:
        lines.append("evaluated before RL and after the last step alone")
    return lines


def _refused_settings(config: RunConfig) -> Iterator[str]:
    model = config.model
    precision = getattr(model, "precision", "float32")
    if precision != "bfloat16":
        yield f"model={model.kind}, {precision}: verl's actor computes with flash-attention, in bfloat16 (model.precision)"
    lora = getattr(model, "lora", None)
    if lora is not None and lora.rank:
        yield f"model.lora.rank={lora.rank}: verl exports the adapters apart from the model; train all weights"
    if config.algorithm.surrogate.kind == "geometric_mean":
        yield "algorithm.surrogate.kind=geometric_mean: verl averages each micro-batch by itself, so several add up"
    kind = config.algorithm.advantage.kind
    if kind == "gae":
        yield "algorithm.advantage.kind=gae: verl's critic begins with a random head, ours with zeros"
    if kind == "decoupled":
        yield "algorithm.advantage.kind=decoupled: verl's gdpo whitens over tokens, ours divides over sequences"


def _refused_machine(config: RunConfig) -> Iterator[str]:
    """What verl cannot be told of this machine, and where it could not divide the work over the GPUs."""
    algorithm, runtime, machine = config.algorithm, config.runtime, config.runtime.verl
    gpus = runtime.gpus_per_run * runtime.nodes
    if runtime.device == "auto" and (runtime.elsewhere or visible_gpus()):  # said before a job is sent, not by each job
        yield "runtime.device=auto leases no GPU, so that several runs of verl would share them; add runtime.device=cuda"
    if runtime.runs_per_gpu > 1:
        yield f"runtime.runs_per_gpu={runtime.runs_per_gpu}: verl's sampler takes its share of the whole GPU; set it to 1"
    if runtime.ranks not in (0, runtime.gpus_per_run):
        yield f"runtime.ranks={runtime.ranks}: verl trains with one process a GPU; leave it 0 and set runtime.gpus_per_run"
    for key in ("tensor_parallel", "sequence_parallel"):
        size = getattr(machine, key)
        if gpus % size:
            yield f"runtime.verl.{key}={size} does not divide the {gpus} GPUs of a run"
    responses = algorithm.prompts_per_step // algorithm.updates_per_step * algorithm.responses_per_prompt
    shares = max(1, gpus // machine.sequence_parallel)
    if responses % shares:
        yield f"an update's {responses} responses cannot be divided over {shares} GPUs; change gpus_per_run or nodes"


def _refused_overrides(config: RunConfig) -> Iterator[str]:
    for item in config.backend.overrides:
        key, equals, _ = item.lstrip("+~").partition("=")
        if not equals and not item.startswith("~"):
            yield f"backend.overrides: {item!r} is no key=value"
        elif key.split(".")[0] == "hydra":
            yield f"backend.overrides: {key} is the harness's own"
        elif key == f"{ROLLOUT}.full_determinism":
            # verl 0.9.1: workers/rollout/vllm_rollout/vllm_async_server.py
            yield f"backend.overrides: {key}: all requests get one seed, so that responses repeat each other; leave it out"
        elif owns(config, key):
            yield f"backend.overrides: {key} follows from the configuration; set the harness's key instead"
