"""The configuration of a run in verl 0.9.1's Hydra keys: one pure function, every unit converted.

The algorithm's part is the dialect's (`harness.exchange.dialects.verl`); here stand data, model, machine, rewards, validation
and files. What no key of verl can say is in `refusals`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from harness.backends.verl.place import Place
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import verl as dialect
from harness.exchange.dialects._verl_tables import ACTOR, OPTIMIZER, ROLLOUT

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
)
# Prompts are written out with their template (see `data`): verl's tokenizer has only to read them.
WRITTEN_PROMPT = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
_INSIDE = Path(__file__).with_name("inside.py")
_ROOT = Path(__file__).resolve().parents[3]
_EPOCHS = 1_000_000  # never the end: trainer.total_training_steps is


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
    """Return dotted keys of verl and their values."""
    values = dict(dialect.export(config).settings)
    for part in (_data, _model, _update, _sampler, _rewards, _validation, _trainer):
        values |= part(config, place)
    return values


def owns(config: RunConfig, key: str) -> bool:
    """Return whether a key of verl, or a part of it, follows from the configuration."""
    nowhere = Path("/")
    known = settings(config, Place(nowhere, nowhere, nowhere, 1, (0,), 0))
    return any(key == own or key.startswith(f"{own}.") or own.startswith(f"{key}.") for own in known)


def _data(config: RunConfig, place: Place) -> dict[str, Any]:
    return {
        "data.train_files": str(place.train_file),
        "data.val_files": str(place.validation_file),
        "data.max_prompt_length": place.prompt_tokens,
        "data.truncation": "error",
        "data.shuffle": True,  # a fresh permutation an epoch
        "data.seed": config.seed,
    }


def _model(config: RunConfig, place: Place) -> dict[str, Any]:
    return {
        f"{MODEL}.path": str(place.model),
        f"{MODEL}.custom_chat_template": WRITTEN_PROMPT,
        f"{MODEL}.use_remove_padding": True,
        f"{MODEL}.enable_gradient_checkpointing": config.runtime.gradient_checkpointing,
        f"{ACTOR}.fsdp_config.model_dtype": "fp32",  # master weights; products are bfloat16
        f"{ACTOR}.fsdp_config.dtype": "bfloat16",
        f"{ACTOR}.fsdp_config.seed": config.seed,
    }


def _update(config: RunConfig, place: Place) -> dict[str, Any]:
    machine = config.runtime.verl
    longest = place.prompt_tokens + config.sampling.max_response_tokens
    tokens = max(config.runtime.micro_batch_tokens, -(-longest // machine.sequence_parallel))
    return {
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


def _sampler(config: RunConfig, place: Place) -> dict[str, Any]:
    machine = config.runtime.verl
    return {
        f"{ROLLOUT}.name": config.backend.rollout_engine,
        f"{ROLLOUT}.dtype": "bfloat16",
        f"{ROLLOUT}.seed": config.seed,
        f"{ROLLOUT}.calculate_log_probs": True,
        f"{ROLLOUT}.tensor_model_parallel_size": machine.tensor_parallel,
        f"{ROLLOUT}.gpu_memory_utilization": machine.gpu_memory_utilization,
        f"{ROLLOUT}.max_num_seqs": config.runtime.rollout_rows,
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
        f"{FUNCTION}.path": str(_INSIDE),
        f"{FUNCTION}.name": "compute_score",
        **{f"{FUNCTION}.reward_kwargs.{key}": value for key, value in arguments.items()},
        "reward.num_workers": config.runtime.verl.reward_workers,
        "reward.reward_manager.source": "importlib",
        "reward.reward_manager.name": "RecordingRewardManager",  # verl's DAPO manager, which also writes the ledger
        "reward.reward_manager.module.path": str(_INSIDE),
        f"{REWARD}.max_resp_len": config.sampling.max_response_tokens,
        f"{REWARD}.ledger": str(place.ledger),
        f"{REWARD}.stop_token_ids": list(place.stop_token_ids),
    }


def _validation(config: RunConfig, place: Place) -> dict[str, Any]:
    protocol, prefix = config.evaluation, f"{ROLLOUT}.val_kwargs"
    possible = bool(protocol.benchmarks) and not protocol.stop_strings  # verl has no stop strings
    return {
        f"{prefix}.n": protocol.samples_per_problem,
        f"{prefix}.temperature": protocol.temperature,
        f"{prefix}.top_p": protocol.top_p,
        f"{prefix}.top_k": -1,
        f"{prefix}.do_sample": protocol.temperature > 0,
        "trainer.val_before_train": False,  # before and after RL the evaluation is ours
        "trainer.test_freq": config.training.evaluate_every if possible else -1,
        "trainer.validation_data_dir": str(place.validation),
    }


def _trainer(config: RunConfig, place: Place) -> dict[str, Any]:
    runtime = config.runtime
    return {
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


def hydra_value(value: Any) -> str:
    """Write a value as Hydra's command line reads it back."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{','.join(hydra_value(item) for item in value)}]"
    text = re.sub(r"(\\*)'", r"\1\1\\'", str(value))
    return "'" + re.sub(r"(\\+)$", r"\1\1", text) + "'"
