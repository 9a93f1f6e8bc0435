"""A Llama / Qwen2 / Qwen3 decoder with fused weights, shared by the sampler and the update.

The parameters are those of the `transformers` model with the same mathematics; q, k, v and gate, up are stored fused, so that
small models spend fewer operator calls. `named_tensors` gives back the ordinary names. Dimension letters: B sequences,
S positions, N = B·S tokens, E hidden, H heads, K key/value heads, D head size, V vocabulary.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as functional
from torch import nn

from harness.configuration.error import ConfigError
from harness.model.layout import AttentionByHand, Layout, SharedAttention
from harness.model.linear import BY_HAND, TORCH, KernelLinear, Linear, NormByHand, Operators, SwiGluByHand

SUPPORTED = ("llama", "qwen2", "qwen3")
# Tables that old checkpoints hold beside the weights, and every loader computes by itself.
_ROTARY_TABLES = tuple(f"rotary_emb.{table}" for table in ("inv_freq", "cos_cached", "sin_cached"))
_WIDE = 256  # hidden size from which attention goes prompt by prompt; a smaller model feels every call of an operator

# How a layer attends: its index, and unrotated queries, keys and values [N, H + 2K, D], to attended values [N, H·D].
Attend = Callable[[int, torch.Tensor], torch.Tensor]


class UnsupportedArchitectureError(ConfigError):
    """The checkpoint's architecture is not one that the fused decoder computes."""


@dataclass(frozen=True)
class Shape:
    model_type: str
    vocab: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    max_positions: int
    norm_epsilon: float
    rope_theta: float
    tied: bool
    qkv_bias: bool

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """Read a `transformers` config; raise `UnsupportedArchitectureError` naming what is not supported."""
        if config.model_type not in SUPPORTED:
            raise UnsupportedArchitectureError(f"the native engine has no {config.model_type}; use engine=transformers")
        rope = getattr(config, "rope_parameters", None) or {}
        scaling, llama = rope.get("rope_type", "default"), config.model_type == "llama"
        biased = config.model_type == "qwen3" and config.attention_bias
        features = {
            f"{scaling!r} rope scaling": scaling != "default",
            "sliding window": getattr(config, "use_sliding_window", False),
            "MLP or output bias": getattr(config, "mlp_bias", False) or biased,
            f"activation {config.hidden_act!r} but SiLU": config.hidden_act != "silu",
            "Llama attention bias": llama and config.attention_bias,
        }
        for feature, present in features.items():
            if present:
                raise UnsupportedArchitectureError(f"the native engine has no {feature}; use engine=transformers")
        return cls(
            model_type=config.model_type,
            vocab=config.vocab_size,
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_size=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            max_positions=config.max_position_embeddings,
            norm_epsilon=config.rms_norm_eps,
            rope_theta=float(rope.get("rope_theta", getattr(config, "rope_theta", 10000.0))),
            tied=bool(config.tie_word_embeddings),
            qkv_bias=config.model_type == "qwen2",
        )


def is_rotary_table(name: str) -> bool:
    """Return whether a checkpoint's tensor is no weight but a table of the rotary embedding, which follows from the configuration."""
    return name.endswith(_ROTARY_TABLES)


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        wide = (shape.heads + 2 * shape.kv_heads) * shape.head_size
        self.input_norm = nn.Parameter(torch.empty(shape.hidden))
        self.post_norm = nn.Parameter(torch.empty(shape.hidden))
        self.qkv = nn.Parameter(torch.empty(wide, shape.hidden))
        self.qkv_bias = nn.Parameter(torch.empty(wide)) if shape.qkv_bias else None
        self.out = nn.Parameter(torch.empty(shape.hidden, shape.heads * shape.head_size))
        self.gate_up = nn.Parameter(torch.empty(2 * shape.intermediate, shape.hidden))
        self.down = nn.Parameter(torch.empty(shape.hidden, shape.intermediate))
        qk_norm = shape.model_type == "qwen3"
        self.q_norm = nn.Parameter(torch.empty(shape.head_size)) if qk_norm else None
        self.k_norm = nn.Parameter(torch.empty(shape.head_size)) if qk_norm else None


class Decoder(nn.Module):
    """The policy: fused parameters and the full causal forward. Built by `from_transformers`."""

    def __init__(self, shape: Shape, linear: Linear) -> None:
        super().__init__()
        self.shape = shape
        self.linear, self.head_linear = linear, linear.for_head()
        self.embed = nn.Parameter(torch.empty(shape.vocab, shape.hidden))
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.empty(shape.hidden))
        self.lm_head = None if shape.tied else nn.Parameter(torch.empty(shape.vocab, shape.hidden))
        self._rope: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def head(self) -> torch.Tensor:
        """The output projection [V, E]: the embedding where the weights are tied."""
        return self.embed if self.lm_head is None else self.lm_head

    def rope(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and signed-sine tables [≥ length, D] (sine negated in the first half, so rotation is one roll)."""
        if self._rope is None or self._rope[0].shape[0] < length or self._rope[0].device != self.embed.device:
            size, rows = self.shape.head_size, min(max(length, 64) * 2, max(self.shape.max_positions, length))
            inverse = 1.0 / (self.shape.rope_theta ** (torch.arange(0, size, 2, dtype=torch.int64).float() / size))
            angle = torch.arange(rows).float()[:, None] * inverse
            cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1)
            self._rope = (cos.to(self.embed), sin.to(self.embed))
        return self._rope

    def _project(self, layer: Layer, x_NE: torch.Tensor, operators: Operators) -> torch.Tensor:
        """Norm and fused q, k, v of N tokens: [N, H + 2K, D] (q, k normalised where the architecture does)."""
        shape = self.shape
        input_NE = operators.norm(x_NE, layer.input_norm, shape.norm_epsilon)
        qkv = self.linear(input_NE, layer.qkv, layer.qkv_bias)
        heads = qkv.view(-1, shape.heads + 2 * shape.kv_heads, shape.head_size)
        if layer.q_norm is None or layer.k_norm is None:
            return heads
        q, k, v = heads.split([shape.heads, shape.kv_heads, shape.kv_heads], 1)
        epsilon = shape.norm_epsilon
        q, k = operators.norm(q, layer.q_norm, epsilon), operators.norm(k, layer.k_norm, epsilon)
        return torch.cat([q, k, v], 1)

    def run_layers(self, x_NE: torch.Tensor, attend: Attend, operators: Operators = TORCH) -> torch.Tensor:
        """Run all layers over N embedded tokens; `attend` decides what each sees. The result still lacks the final norm."""
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            output = attend(index, self._project(layer, x_NE, operators))
            x_NE = x_NE + self.linear(output, layer.out)
            input_NE = operators.norm(x_NE, layer.post_norm, self.shape.norm_epsilon)
            x_NE = x_NE + self.linear(operators.swiglu(self.linear(input_NE, layer.gate_up)), layer.down)
        return x_NE

    def final_norm(self, x_NE: torch.Tensor, operators: Operators = TORCH) -> torch.Tensor:
        return operators.norm(x_NE, self.norm, self.shape.norm_epsilon)

    def hidden_states(self, ids_BS: torch.Tensor) -> torch.Tensor:
        """Return final-norm hidden states [B·S, E] of right-padded sequences that all start at position 0."""
        batch, length = ids_BS.shape
        shape, (cos, sin) = self.shape, (table[:length] for table in self.rope(length))
        qk_heads, half = shape.heads + shape.kv_heads, shape.head_size // 2

        def attend(_: int, heads_NHD: torch.Tensor) -> torch.Tensor:
            heads = heads_NHD.view(batch, length, *heads_NHD.shape[1:]).transpose(1, 2)
            qk = heads[:, :qk_heads]
            qk = qk * cos + qk.roll(half, -1) * sin
            queries, keys, values = qk[:, : shape.heads], qk[:, shape.heads :], heads[:, qk_heads:]
            grouped = shape.heads != shape.kv_heads
            output = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=grouped)
            return output.transpose(1, 2).reshape(len(heads_NHD), -1)

        x = functional.embedding(ids_BS, self.embed).view(batch * length, -1)
        return self.final_norm(self.run_layers(x, attend))

    def hidden_of(self, layout: Layout) -> torch.Tensor:
        """Return final-norm hidden states [N, E] of the tokens of a layout: the update's forward, which computes no padding."""
        shape, tables = self.shape, self.rope(layout.length)
        attend = SharedAttention(layout, *tables, shape.heads, shape.kv_heads, wide=shape.hidden >= _WIDE)
        small = torch.is_grad_enabled() and self.embed.device.type == "cpu" and self.embed.dtype == torch.float32
        operators = BY_HAND if small else TORCH
        x = functional.embedding(layout.ids_N, self.embed)
        if operators is BY_HAND and attend.is_short and not attend.wide and shape.model_type != "qwen3":
            output: torch.Tensor = LayerStack.apply(x, self, attend, *self.layers.parameters(), self.norm)  # type: ignore[no-untyped-call]
            return output
        return self.final_norm(self.run_layers(x, lambda _, heads: attend(heads), operators), operators)

    def logits(self, hidden_NE: torch.Tensor) -> torch.Tensor:
        return self.head_linear(hidden_NE, self.head)

    @classmethod
    def from_transformers(cls, config: Any, state: Mapping[str, torch.Tensor], linear: Linear) -> Self:
        """Build from a `transformers` config and state dict; tensors are copied into fused parameters."""
        decoder = cls(Shape.from_config(config), linear)
        decoder.load_named(state.items())
        return decoder

    @torch.no_grad()
    def load_named(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Copy tensors given under `transformers` names into the fused parameters; a tied head and rotary tables may come along.

        Raises `KeyError` for a tensor that is missing or foreign, `ValueError` for another shape.
        """
        slots = self.named_tensors()
        missing = set(slots)
        for name, tensor in weights:
            if is_rotary_table(name) or (name == "lm_head.weight" and self.lm_head is None):
                continue
            if name not in slots:
                raise KeyError(f"this model has no tensor {name!r}")
            if slots[name].shape != tensor.shape:
                raise ValueError(f"{name}: checkpoint has {tuple(tensor.shape)}, model {tuple(slots[name].shape)}")
            slots[name].copy_(tensor)
            missing.discard(name)
        if missing:
            first = next(name for name in slots if name in missing)
            raise KeyError(f"the checkpoint has no tensor {first!r}")

    def named_tensors(self) -> dict[str, torch.Tensor]:
        """Views of the parameters under `transformers` names (detached, sharing storage)."""
        shape = self.shape
        sizes = [shape.heads * shape.head_size] + [shape.kv_heads * shape.head_size] * 2
        slots = {"model.embed_tokens.weight": self.embed.detach(), "model.norm.weight": self.norm.detach()}
        if self.lm_head is not None:
            slots["lm_head.weight"] = self.lm_head.detach()
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            prefix = f"model.layers.{index}."
            for part, block in zip("qkv", layer.qkv.detach().split(sizes), strict=True):
                slots[f"{prefix}self_attn.{part}_proj.weight"] = block
            if layer.qkv_bias is not None:
                for part, block in zip("qkv", layer.qkv_bias.detach().split(sizes), strict=True):
                    slots[f"{prefix}self_attn.{part}_proj.bias"] = block
            if layer.q_norm is not None and layer.k_norm is not None:
                slots[f"{prefix}self_attn.q_norm.weight"] = layer.q_norm.detach()
                slots[f"{prefix}self_attn.k_norm.weight"] = layer.k_norm.detach()
            slots[f"{prefix}self_attn.o_proj.weight"] = layer.out.detach()
            gate, up = layer.gate_up.detach().chunk(2)
            slots |= {f"{prefix}mlp.gate_proj.weight": gate, f"{prefix}mlp.up_proj.weight": up}
            slots[f"{prefix}mlp.down_proj.weight"] = layer.down.detach()
            slots[f"{prefix}input_layernorm.weight"] = layer.input_norm.detach()
            slots[f"{prefix}post_attention_layernorm.weight"] = layer.post_norm.detach()
        return slots


class _Saved:
    """What a function keeps for its backward, in place of autograd's context."""

    needs_input_grad = (True,)

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None:
        self.saved_tensors = tensors


# As autograd has them, but for the check that nobody differentiates twice, which the node makes once for all.
_FUNCTIONS = (KernelLinear, NormByHand, AttentionByHand, SwiGluByHand)
_GRADIENTS = {function: inspect.unwrap(function.backward) for function in _FUNCTIONS}


class LayerStack(torch.autograd.Function):
    """All layers and the final norm, [N, E] to [N, E], as one node of autograd's graph: a small model feels every node.

    The functions are those that the graph would call, in its order: every number keeps its bits.
    """

    @staticmethod
    def forward(
        ctx: Any, x_NE: torch.Tensor, decoder: Decoder, attention: SharedAttention, *weights: nn.Parameter
    ) -> torch.Tensor:
        ctx.calls, ctx.weights = [], weights
        linear, size, epsilon = decoder.linear, decoder.shape.head_size, decoder.shape.norm_epsilon

        def call(function: type[torch.autograd.Function], *inputs: Any) -> torch.Tensor:
            ctx.calls.append((function, _Saved(), inputs[1:]))
            output: torch.Tensor = function.forward(ctx.calls[-1][1], *inputs)
            return output

        def product(x_NI: torch.Tensor, weight_OI: nn.Parameter, bias_O: nn.Parameter | None = None) -> torch.Tensor:
            return call(KernelLinear, x_NI, weight_OI, bias_O, linear.factor(weight_OI), linear.kernel)

        for layer in decoder.layers:
            assert isinstance(layer, Layer)
            qkv = product(call(NormByHand, x_NE, layer.input_norm, epsilon), layer.qkv, layer.qkv_bias)
            x_NE = x_NE + product(call(AttentionByHand, qkv.view(len(qkv), -1, size), attention), layer.out)
            gate_up = product(call(NormByHand, x_NE, layer.post_norm, epsilon), layer.gate_up)
            x_NE = x_NE + product(call(SwiGluByHand, gate_up), layer.down)
        return call(NormByHand, x_NE, decoder.norm, epsilon)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        weight_grads: dict[nn.Parameter, torch.Tensor] = {}

        def back(grad: torch.Tensor) -> torch.Tensor:
            function, saved, weights = ctx.calls.pop()
            inner, *others = _GRADIENTS[function](saved, grad)
            weight_grads.update((weight, own) for weight, own in zip(weights, others, strict=True) if own is not None)
            result: torch.Tensor = inner
            return result

        grad_NE = back(grads[0])
        while ctx.calls:
            grad_NE = grad_NE + back(back(back(back(grad_NE))))
            grad_NE = grad_NE + back(back(back(back(grad_NE)).flatten(1)))
        return grad_NE, None, None, *(weight_grads[weight] for weight in ctx.weights)
