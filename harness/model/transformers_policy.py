"""Any causal language model of `transformers` as a policy: packed forward, bfloat16 products over float32 masters, LoRA, FSDP2.

The model is sharded over all ranks with `fully_shard` (over one rank, too: one code path), layer by layer. `param_dtype` is the product's
precision; parameters, gradient sums and optimiser state stay float32 (arXiv:1710.03740).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

import torch
import torch.distributed as dist
from accelerate import init_empty_weights
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from harness.configuration.error import ConfigError
from harness.configuration.sections import RuntimeConfig
from harness.model.checkpoint import architecture_of, copy_side_files, load_model
from harness.model.layout import Layout, to_device
from harness.model.packed_attention import MISFIT_ERRORS, misfit, register, rehearse
from harness.model.ranks import Ranks, open_group, whole, whole_tensors
from harness.model.scoring import ScoringModel, check_logits


class TransformersPolicy:
    """A sharded policy. Methods that touch whole tensors are collective: every rank calls them."""

    shares_prompts = True

    def __init__(self, scoring: ScoringModel, folder: Path, settings: Any, runtime: RuntimeConfig) -> None:
        self.scoring: Any = scoring  # `fully_shard` has given it methods that its class does not have
        self.folder, self.settings, self.runtime = folder, settings, runtime

    @classmethod
    def load(cls, folder: Path, settings: Any, runtime: RuntimeConfig, trainable: bool = True) -> Self:
        """Read a checkpoint folder; without `trainable` as a frozen policy, in the product's precision.

        Raises `ConfigError`: the architecture cannot be trained here, or adapters are asked for without peft.
        """
        open_group()
        scoring = build_sharded(folder, settings, runtime, trainable)
        load_weights(scoring, folder)
        policy = cls(scoring, folder, settings, runtime)
        if trainable:
            rehearse(policy.scoring.model.config, policy.token_log_probs, policy.compute_dtype)
        return policy

    @property
    def device(self) -> torch.device:
        """The device of the forward; tokens come in and scores go out on the CPU."""
        return next(iter(self.scoring.parameters())).device

    @property
    def compute_dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.settings.precision)
        return dtype

    @property
    def recomputes_logits(self) -> bool:
        """Logits of a large vocabulary are the largest tensor of a pass: on a GPU one more product is cheaper than keeping them."""
        return self.device.type == "cuda" or self.runtime.gradient_checkpointing

    def constant_weights(self) -> AbstractContextManager[None]:
        return nullcontext()

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        return [parameter for parameter in self.scoring.parameters() if parameter.requires_grad]

    def frozen_copy(self) -> Self:
        return self.load(self.folder, self.settings, self.runtime, trainable=False)

    def token_log_probs(
        self,
        prompts: Sequence[Sequence[int]],
        tokens_N: torch.Tensor,
        lengths_R: torch.Tensor,
        temperature: float = 1.0,
        with_entropy: bool = False,
        targets_NK: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See `NativePolicy.token_log_probs`: the same contract. Equal prompts are computed once, padding never."""
        layout = Layout.from_tokens(prompts, tokens_N, lengths_R).to(self.device)
        targets = to_device(tokens_N if targets_NK is None else targets_NK, self.device)
        scores, entropy = self.scoring(layout, targets, temperature, with_entropy, self.recomputes_logits)
        if not torch.is_grad_enabled():
            # Without a backward the root would keep its gathered copy, which the next update does not reach.
            self.scoring.reshard()
        return scores.cpu(), None if entropy is None else entropy.cpu()

    @torch.no_grad()
    def named_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """See `NativePolicy`; collective."""
        yield from merged_weights(self.scoring.model)

    @torch.no_grad()
    def engine_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """`named_weights` in the precision of the forward; collective."""
        yield from merged_weights(self.scoring.model, self.compute_dtype)

    def state(self) -> dict[str, Any]:
        """The trainable tensors: whole on one rank, on several its shards (DTensors), as `torch.distributed.checkpoint` takes them."""
        return get_model_state_dict(self.scoring, options=self.state_options())

    def restore(self, state: Mapping[str, Any]) -> None:
        set_model_state_dict(self.scoring, dict(state), options=self.state_options(state))

    def state_options(self, state: Mapping[str, Any] | None = None) -> StateDictOptions:
        """How torch is to read `state`, or to write one."""
        shards = dist.get_world_size() > 1 if state is None else any(isinstance(x, DTensor) for x in state.values())
        return StateDictOptions(
            full_state_dict=not shards, cpu_offload=not shards, ignore_frozen_params=True, strict=False
        )

    def save(self, folder: Path) -> None:
        """Write an ordinary `transformers` checkpoint (rank 0 writes, all ranks call), in the precision of the one it came from."""
        save_model(self.named_weights(), self.folder, folder, writes=dist.get_rank() == 0)


@torch.no_grad()
def merged_weights(model: Any, dtype: torch.dtype = torch.float32) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of a model whole, under its name without adapters: W + (alpha / rank)·B·A where adapted."""
    modules = dict(model.named_modules())
    plain = {name: p for name, p in model.named_parameters(remove_duplicate=False) if ".lora_" not in name}
    for name, value in zip(plain, whole_tensors(plain.values(), dtype), strict=True):
        if ".base_layer." in name:
            module = modules[name.split(".base_layer.")[0]]
            if name.endswith(".weight"):
                a, b = whole(module.lora_A[_ADAPTER].weight), whole(module.lora_B[_ADAPTER].weight)
                value = (value.float() + module.scaling[_ADAPTER] * (b.float() @ a.float())).to(dtype)
            name = name.replace(".base_layer.", ".")
        yield name, value


def save_model(
    weights: Iterable[tuple[str, torch.Tensor]],
    source: Path,
    folder: Path,
    writes: bool = True,
    dtype: torch.dtype | None = None,
) -> None:
    """Write named weights as an ordinary checkpoint, with configuration and tokenizer of the folder `source`.

    `writes`: this rank writes, the others only make tensors whole. `dtype`: None takes that of `source`.
    """
    from transformers import AutoModelForCausalLM

    config = architecture_of(source)
    former_dtype = config.dtype or torch.float32
    dtype, state = dtype or former_dtype, {}
    for name, tensor in weights:
        if writes:
            state[name] = tensor.to(device="cpu", dtype=dtype)
    if not writes:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with torch.device("meta"):
        blank = AutoModelForCausalLM.from_config(config, dtype=dtype)
    if config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    blank.save_pretrained(folder, state_dict=state)
    copy_side_files(source, folder)
    if dtype != former_dtype:
        blank.config.save_pretrained(folder)  # the source's names another number type


def build_sharded(folder: Path, settings: Any, runtime: RuntimeConfig, trainable: bool) -> ScoringModel:
    """The model's modules with uninitialised weights, sharded over all ranks; see `TransformersPolicy.load`."""
    from transformers import AutoModelForCausalLM

    device = "cuda" if runtime.device == "cuda" else "cpu"
    config = architecture_of(folder)
    dtype = torch.float32 if trainable else getattr(torch, settings.precision)
    # Buffers (rotary tables) are computed, parameters hold no memory; those that are tied are made anew, and tied again.
    try:
        with init_empty_weights(include_buffers=False):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=register())
    except MISFIT_ERRORS as error:
        raise misfit(config.model_type, error) from error
    model.tie_weights()
    if trainable and settings.lora.rank:
        with init_empty_weights(include_buffers=False):
            model = add_adapters(model, settings.lora)
        for parameter in model.parameters():
            if not parameter.requires_grad:  # FSDP2 wants one number type of what is trained alone
                parameter.data = parameter.data.to(getattr(torch, settings.precision))
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
    buffers = dict(scoring.named_buffers())
    scoring.to_empty(device=device)
    for name, buffer in scoring.named_buffers():
        buffer.copy_(buffers[name])
    return scoring


def decoder_layers(model: Any) -> nn.ModuleList:
    """The transformer blocks: the longest list of equal modules. Raises `ConfigError` where there is none."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList) and len(module)]
    uniform = [item for item in lists if len({type(block) for block in item}) == 1]
    if not uniform:
        raise ConfigError(f"{model.config.model_type}: found no list of equal layers to shard")
    return max(uniform, key=len)


def load_weights(scoring: ScoringModel, folder: Path) -> None:
    """Read the checkpoint on rank 0 and spread it; adapters start at their zero update. Raises `ConfigError` on every rank."""
    state: dict[str, Any] = {}
    model, ranks, fault = scoring.model, Ranks(dist.get_rank(), dist.get_world_size()), ""
    if ranks.first:
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # a run's log is no terminal
        try:
            plain = load_model(folder, "auto")
        except ConfigError as error:
            fault = str(error)
    fault = ranks.from_first(fault)
    if fault:
        raise ConfigError(fault)
    if ranks.first:
        adapted_modules = {name for name, _ in model.named_modules() if name.endswith(".base_layer")}
        for name, tensor in plain.state_dict().items():
            stem, _, leaf = name.rpartition(".")
            inner = f"{stem}.base_layer.{leaf}" if f"{stem}.base_layer" in adapted_modules else name
            state[f"model.{inner}"] = tensor
        state |= _fresh_adapters(model)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, strict=False)
    missing = ranks.from_first(set_model_state_dict(scoring, state, options=options).missing_keys)
    if missing:
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


def _recompute_layers(model: Any) -> None:
    """Keep only each layer's input for the backward pass, while `training` is set on it alone. Raises `ConfigError`."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers or not model.supports_gradient_checkpointing:
        raise ConfigError(f"{model.config.model_type} cannot recompute layers: runtime.gradient_checkpointing=false")
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for layer in layers:
        layer.training = True
        # Some layers apply a dropout of their own, which `training` would switch on with the recomputation.
        for name, value in vars(layer).items():
            if "drop" in name and isinstance(value, float):
                setattr(layer, name, 0.0)


_ADAPTER = "default"


def add_adapters(model: Any, lora: Any) -> Any:
    """The model with LoRA modules in place, its own weights frozen; raises `ConfigError` without peft or for targets it cannot adapt."""
    settings = adapter_settings(model, lora)
    from peft import inject_adapter_in_model

    model.requires_grad_(False)
    try:
        return inject_adapter_in_model(settings, model, adapter_name=_ADAPTER)
    except ValueError as error:
        raise ConfigError(f"model.lora.targets={lora.targets}: {error}") from error


def adapter_settings(model: Any, lora: Any) -> Any:
    """Peft's `LoraConfig` of `model.lora` for a model; raises `ConfigError` without peft."""
    try:
        from peft import LoraConfig
    except ImportError as error:
        raise ConfigError("model.lora.rank > 0 needs the package peft: pip install -e '.[lora]'") from error
    targets = lora.targets if lora.targets == "all-linear" else [t.strip() for t in lora.targets.split(",")]
    settings = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=targets, lora_dropout=0.0)
    if lora.targets == "all-linear":
        head = model.get_output_embeddings()
        settings.target_modules = {
            name.rsplit(".", 1)[-1]
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and module is not head
        }
    return settings
