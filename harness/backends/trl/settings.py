"""The configuration of a run as `GRPOConfig`, and what it cannot say.

The algorithm's part is the dialect's (`harness.exchange.trl`). What code of ours does inside TRL's trainer needs no word of TRL's: rewards,
the selection of groups, the learning rate's course, budgets. `trl_config` leaves these out before the dialect is asked.
"""

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from harness.backends.builtin import refused_beside_vllm, refused_engines
from harness.configuration.schema import RunConfig
from harness.configuration.sections import DeadGroupsConfig, OverlongConfig, RewardConfig
from harness.configuration.yaml_value import read_yaml
from harness.exchange import trl as dialect
from harness.exchange.dialect import load_table, reward_weights
from harness.training.torchrun import refused_places, wanted_ranks

EPSILON = 1e-4  # what TRL adds to every standard deviation of rewards
_SEEDS = 2**32  # NumPy's generator, which Trainer seeds, takes less
_RELEASE = load_table("trl").release
_SCHEDULE = ("lr_scheduler_type", "warmup_steps")  # the scheduler is ours
# Trainer is given the optimizer and the number of its steps.
_OURS = ("output_dir", "optim", "optim_args", "optim_target_modules", "num_train_epochs")


def reward_scale(config: RunConfig) -> float:
    """Return the factor c on rewards that makes TRL's epsilon ours: (cr - cm) / (cs + 1e-4) = (r - m) / (s + 1e-4 / c)."""
    advantage = config.algorithm.advantage
    epsilon = getattr(advantage, "epsilon", 0.0)
    scaled = epsilon > 0 and getattr(advantage, "scale", "") != "none"
    return EPSILON / epsilon if scaled else 1.0


def trl_config(config: RunConfig) -> RunConfig:
    """Return the configuration as TRL has to be told it, without what code of ours does inside its trainer."""
    algorithm = config.algorithm
    advantage, overlong = algorithm.advantage, algorithm.overlong
    if reward_scale(config) != 1:
        advantage = replace(advantage, epsilon=EPSILON)
    return replace(
        config,
        algorithm=replace(
            algorithm,
            advantage=advantage,
            reward=RewardConfig(wrong=0.0),
            overlong=OverlongConfig("mask" if overlong.masks else "score", statistics=overlong.statistics),
            dead_groups=DeadGroupsConfig(),
        ),
        optimizer=replace(config.optimizer, decay="none", final_share=0.0, warmup_steps=0),
        training=replace(config.training, generated_tokens=None),
    )


def settings(config: RunConfig, longest_prompt: int = 0) -> dict[str, Any]:
    """Return the fields of `GRPOConfig` without its folder, the user's own last; `longest_prompt` in tokens cuts micro-batches."""
    values = {key: value for key, value in dialect.export(trl_config(config)).settings.items() if key not in _SCHEDULE}
    return values | _rewards(config) | _batches(config, values, longest_prompt) | _machine(config) | _overrides(config)


def _overrides(config: RunConfig) -> dict[str, Any]:
    """Return further fields of `GRPOConfig`; a mapping is the value of its field."""
    parts = [(item, *item.lstrip("+").partition("=")) for item in config.backend.overrides]
    return {key: read_yaml(text, f"backend.overrides: {item!r}") for item, key, _, text in parts}


def _rewards(config: RunConfig) -> dict[str, Any]:
    advantage, scale = config.algorithm.advantage, reward_scale(config)
    weights = reward_weights(advantage) if advantage.kind == "decoupled" else [1.0]
    return {"reward_weights": [scale * weight for weight in weights]}


def _batches(config: RunConfig, values: dict[str, Any], longest_prompt: int) -> dict[str, Any]:
    """Cut an update into the processes' shares, and a share into equal micro-batches that fit `runtime.micro_batch_tokens`.

    Where its loss depends on the cut, micro-batches are those of the loss.
    """
    algorithm, ranks = config.algorithm, wanted_ranks(config.runtime)
    if values["loss_type"] == "bnpo":
        return {"gradient_accumulation_steps": values["gradient_accumulation_steps"] // ranks}
    share = max(1, values["per_device_train_batch_size"] // ranks)
    row = longest_prompt + config.sampling.max_response_tokens
    limit = max(1, config.runtime.micro_batch_tokens // row)
    if algorithm.entropy_coefficient or algorithm.top_entropy_fraction < 1:
        limit = share
    size = max(part for part in range(1, share + 1) if share % part == 0 and part <= limit)
    return {"per_device_train_batch_size": size, "gradient_accumulation_steps": share // size}


def _machine(config: RunConfig) -> dict[str, Any]:
    """Return what follows from sampler, seed and machine, and what keeps Trainer from acting on its own."""
    runtime, sampler = config.runtime, config.backend.sampler
    return {
        "use_vllm": sampler != "transformers",
        **({"vllm_mode": "colocate"} if sampler != "transformers" else {}),
        "seed": config.seed * wanted_ranks(runtime),  # TRL adds the rank: no two seeds share a stream
        "use_cpu": runtime.device != "cuda",
        "bf16": getattr(config.model, "precision", "float32") == "bfloat16",
        "gradient_checkpointing": runtime.gradient_checkpointing,
        "disable_dropout": True,  # as in every policy of ours
        "shuffle_dataset": False,  # the data set stands in our order
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "no",  # when to save is decided after each rollout step
        "report_to": "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "dataloader_pin_memory": runtime.device == "cuda",
    }


def refusals(config: RunConfig) -> list[str]:
    """Return all reasons why TRL does not train this configuration; empty where it does."""
    checks = (_refused_groups, _refused_sampling, _refused_machine, _refused_cuts, _refused_overrides)
    return [*dialect.export(trl_config(config)).inexpressible, *(line for part in checks for line in part(config))]


def absent_packages(config: RunConfig) -> list[str]:
    """Return what is to be installed here before TRL can train this configuration."""
    backend, reasons = config.backend, []
    if find_spec("trl") is None or not version("trl").startswith(f"{_RELEASE}."):
        reasons.append(f"backend=trl needs the package trl, release {_RELEASE}: pip install -e '.[trl]'")
    if backend.sampler != "transformers" and find_spec("vllm") is None:
        reasons.append(f"backend.sampler={backend.sampler} needs the package vllm: pip install -e '.[vllm]'")
    return reasons


def differences(config: RunConfig) -> list[str]:
    """What TRL does otherwise, whatever is asked of it."""
    lines = ["random numbers are TRL's own, so that equal seeds share base policy and prompts alone"]
    if config.algorithm.updates_per_step > 1:
        lines.append("an update takes random responses of the step, not whole groups")
    return lines


def _refused_groups(config: RunConfig) -> Iterator[str]:
    """Dynamic sampling is ours, by TRL's `rollout_func`; places that no live group fills carry no loss."""
    algorithm = config.algorithm
    policy, setting = algorithm.dead_groups.policy, f"algorithm.dead_groups.policy={algorithm.dead_groups.policy}"
    if policy == "keep":
        return
    if policy == "never_give_up":
        yield f"{setting}: TRL's data set stands in one order, so no prompt is tried again in a later step; set it to keep, drop or refill"
    if algorithm.aggregation.kind != "batch_token_mean":
        yield f"{setting} with algorithm.aggregation={algorithm.aggregation.kind}: TRL needs batch_token_mean for it"
    if getattr(algorithm.advantage, "scale", "") == "batch_reward_std" or algorithm.advantage.kind == "decoupled":
        yield f"{setting}: TRL's standard deviation over the batch would count groups without loss; set dead_groups.policy=keep"
    if config.backend.sampler != "transformers":
        yield f"{setting} with backend.sampler={config.backend.sampler}: rounds are sampled with transformers here; set backend.sampler"


def _refused_sampling(config: RunConfig) -> Iterator[str]:
    correction, sampler = config.algorithm.engine_correction, config.backend.sampler
    if sampler == "transformers" and correction.kind != "none":
        yield f"algorithm.engine_correction.kind={correction.kind}: without vLLM TRL samples by its own model; set none"
    filters = [key for key in ("min_p", "repetition_penalty") if key in _overrides(config)]
    if filters and correction.kind != "none":
        yield f"backend.overrides: {filters[0]} with algorithm.engine_correction biases every weight; leave it out"
    if sampler != "transformers" and correction.old_log_probs == "sampler":
        yield f"algorithm.engine_correction.old_log_probs=sampler with backend.sampler={sampler}: set it to recomputed"


def _refused_machine(config: RunConfig) -> Iterator[str]:
    runtime, model = config.runtime, config.model
    yield from refused_places(runtime)
    yield from refused_engines(config)
    if config.backend.sampler != "transformers":
        setting = f"backend.sampler={config.backend.sampler}"
        yield from refused_beside_vllm(runtime, setting)
        if config.engine.kind == "vllm":
            yield f"engine=vllm with {setting}: a process has one vLLM; set engine=native or transformers"
    if config.seed >= (limit := _SEEDS // wanted_ranks(runtime)):
        yield f"seed={config.seed}: Trainer seeds NumPy, which takes 32 bits; give one below {limit}"
    if runtime.device == "cuda" and 0 < runtime.ranks < runtime.gpus_per_run:
        yield f"runtime.ranks={runtime.ranks}: TRL trains with one process a GPU; leave it 0 and set runtime.gpus_per_run"
    if getattr(model, "precision", "") == "mixed":
        yield "model.precision=mixed is the built-in decoder's; use bfloat16 or float32"


def _refused_cuts(config: RunConfig) -> Iterator[str]:
    """Several processes: DDP takes the mean of their losses, which is the update's only where their shares weigh alike."""
    ranks, values = wanted_ranks(config.runtime), dialect.export(trl_config(config)).settings
    if ranks == 1:
        return
    setting = f"{ranks} processes (runtime.ranks, runtime.gpus_per_run)"
    responses, parts = values["per_device_train_batch_size"], values["gradient_accumulation_steps"]
    if config.algorithm.entropy_coefficient:
        yield f"algorithm.entropy_coefficient with {setting}: TRL's bonus is a mean over each process's tokens; set it to 0"
    if values["loss_type"] == "bnpo" and parts % ranks:
        yield f"algorithm.aggregation: an update's number of micro-batches, {parts}, is no multiple of {setting}"
    elif values["loss_type"] != "bnpo" and responses % ranks:
        yield f"{setting} cannot share an update of {responses} responses equally; change algorithm.updates_per_step"


def _refused_overrides(config: RunConfig) -> Iterator[str]:
    items = config.backend.overrides
    ours = {*settings(replace(config, backend=replace(config.backend, overrides=[]))), *_SCHEDULE, *_OURS}
    for item in items:
        key, equals, _ = item.lstrip("+").partition("=")
        if not equals or key.startswith("~"):
            yield f"backend.overrides: {item!r} is no key=value"
        elif key in ours or key == "lr_scheduler_kwargs":
            yield f"backend.overrides: {key} follows from the configuration; set the harness's key instead"
