"""Building sharded `transformers` models, filling them from a checkpoint, and writing checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import init_empty_weights
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from harness.configuration.error import ConfigError
from harness.configuration.sections import RuntimeConfig
from harness.model import adapters
from harness.model.checkpoint import copy_side_files, load_model
from harness.model.packed_attention import check_packable, naming, register
from harness.model.ranks import Ranks
from harness.model.scoring import ScoringModel, check_logits


def build_sharded(folder: Path, settings: Any, runtime: RuntimeConfig, trainable: bool) -> ScoringModel:
    """The model's modules with uninitialised weights, sharded over all ranks; see `TransformersPolicy.load`."""
    from transformers import AutoConfig, AutoModelForCausalLM

    device = "cuda" if runtime.device == "cuda" else "cpu"
    config = AutoConfig.from_pretrained(folder)
    dtype = torch.float32 if trainable else getattr(torch, settings.precision)
    # Buffers (rotary tables) are computed, parameters hold no memory; those that are tied are made anew, and tied again.
    with init_empty_weights(include_buffers=False), naming(config.model_type):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=register())
    model.tie_weights()
    if trainable and settings.lora.rank:
        with init_empty_weights(include_buffers=False):
            model = adapters.adapted(model, settings.lora)
        for parameter in model.parameters():
            if not parameter.requires_grad:  # FSDP2 wants one number type of what is trained alone
                parameter.data = parameter.data.to(getattr(torch, settings.precision))
    check_packable(model)
    check_logits(model)
    model.eval()  # the policy that samples has no dropout, so the one that is trained has none either
    if runtime.gradient_checkpointing and trainable:
        _recompute_layers(model)
    if not trainable:
        model.requires_grad_(False)
    scoring = ScoringModel(model)
    layers = decoder_layers(model)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    precision = MixedPrecisionPolicy(
        param_dtype=getattr(torch, settings.precision), reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=precision)
    fully_shard(scoring, mesh=mesh, mp_policy=precision)
    computed = dict(scoring.named_buffers())
    scoring.to_empty(device=device)
    for name, buffer in scoring.named_buffers():
        buffer.copy_(computed[name])
    return scoring


def decoder_layers(model: Any) -> nn.ModuleList:
    """The transformer blocks: the longest list of equal modules.

    Raises:
        ConfigError: there is none.
    """
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList) and len(module)]
    uniform = [item for item in lists if len({type(block) for block in item}) == 1]
    if not uniform:
        raise ConfigError(f"{model.config.model_type}: found no list of equal layers to shard")
    return max(uniform, key=len)


def load_weights(scoring: ScoringModel, folder: Path) -> None:
    """Read the checkpoint on rank 0 and spread it; adapters start at their usual zero update.

    Raises:
        ConfigError: the checkpoint lacks tensors of the model (on every rank).
    """
    state: dict[str, Any] = {}
    model, first, refused = scoring.model, dist.get_rank() == 0, ""
    if first:
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # a run's log is no terminal
        try:
            plain = load_model(folder, "auto")
        except ConfigError as error:
            refused = str(error)
    refused = Ranks(dist.get_rank(), dist.get_world_size()).from_first(refused)
    if refused:
        raise ConfigError(refused)
    if first:
        adapted = {name for name, _ in model.named_modules() if name.endswith(".base_layer")}
        for name, tensor in plain.state_dict().items():
            stem, _, leaf = name.rpartition(".")
            inner = f"{stem}.base_layer.{leaf}" if f"{stem}.base_layer" in adapted else name
            state[f"model.{inner}"] = tensor
        state |= _fresh_adapters(model)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, strict=False)
    missing = set_model_state_dict(scoring, state, options=options).missing_keys
    if missing and first:
        raise ConfigError(f"{folder} lacks the model's tensor {missing[0]!r}")


def _fresh_adapters(model: Any) -> dict[str, torch.Tensor]:
    """A with Kaiming-uniform entries from a fixed seed, B zero: the adapted model starts as the model (arXiv:2106.09685 §4.1)."""
    generator = torch.Generator().manual_seed(0)
    state = {}
    for name, parameter in model.named_parameters():
        if ".lora_A." in name:
            bound = (3.0 / parameter.shape[1]) ** 0.5
            value = (torch.rand(parameter.shape, generator=generator) * 2 - 1) * bound / 3**0.5
            state[f"model.{name}"] = value
        elif ".lora_B." in name:
            state[f"model.{name}"] = torch.zeros(parameter.shape)
    return state


def export_checkpoint(
    model: Any, weights: Iterator[tuple[str, torch.Tensor]], like: Path, folder: Path
) -> None:
    """Write whole weights with the side files of the checkpoint `like`; every rank iterates, rank 0 writes."""
    from transformers import AutoConfig, AutoModelForCausalLM

    first = dist.get_rank() == 0
    config = AutoConfig.from_pretrained(like)
    dtype = config.dtype or torch.float32
    state = {}
    for name, tensor in weights:
        if first:
            state[name] = tensor.to(device="cpu", dtype=dtype)
    if not first:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with torch.device("meta"):
        blank = AutoModelForCausalLM.from_config(config, dtype=dtype)
    if config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    blank.save_pretrained(folder, state_dict=state)
    copy_side_files(like, folder)


def _recompute_layers(model: Any) -> None:
    """Keep only each layer's input for the backward pass. Layers recompute while `training` is set, so it is set on them alone.

    Raises:
        ConfigError: the architecture cannot do it.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers or not model.supports_gradient_checkpointing:
        raise ConfigError(
            f"{model.config.model_type} has no layers that can be computed again; set runtime.gradient_checkpointing=false"
        )
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for layer in layers:
        layer.training = True
        # Some layers apply a dropout of their own, which `training` would switch on with the recomputation.
        for name, value in vars(layer).items():
            if "drop" in name and isinstance(value, float):
                setattr(layer, name, 0.0)
