"""Low-rank adapters by peft, and the whole weights that an engine or an export needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from harness.configuration.error import ConfigError

_ADAPTER = "default"


def adapted(model: Any, lora: Any) -> Any:
    """The model with LoRA modules in place, its own weights frozen; raises `ConfigError` without peft."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise ConfigError(
            "model.lora.rank > 0 needs the package peft: pip install -e '.[lora]', or set model.lora.rank=0"
        ) from error
    targets = lora.targets if lora.targets == "all-linear" else [t.strip() for t in lora.targets.split(",")]
    settings = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=targets, lora_dropout=0.0)
    if lora.targets == "all-linear":
        head = model.get_output_embeddings()
        settings.target_modules = {
            name.rsplit(".", 1)[-1]
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and module is not head
        }
    model.requires_grad_(False)
    return inject_adapter_in_model(settings, model, adapter_name=_ADAPTER)


@torch.no_grad()
def merged_weights(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of the model whole, one at a time, under the names it has without adapters; W + (alpha / rank)·B·A where adapted."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    modules = dict(model.named_modules())
    for name, parameter in parameters.items():
        if ".lora_" in name:
            continue
        value = whole(parameter)
        if ".base_layer." in name:
            module = modules[name.split(".base_layer.")[0]]
            if name.endswith(".weight"):
                a, b = whole(module.lora_A[_ADAPTER].weight), whole(module.lora_B[_ADAPTER].weight)
                value = value.float() + module.scaling[_ADAPTER] * (b.float() @ a.float())
            name = name.replace(".base_layer.", ".")
        yield name, value


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The full tensor of a shard (collective), or the tensor itself."""
    full = getattr(tensor, "full_tensor", None)
    return tensor.detach() if full is None else full().detach()
