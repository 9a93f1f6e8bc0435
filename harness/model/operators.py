"""The decoder's elementwise operators, in two forms: torch's, and with gradients written by hand.

A small model's update on a CPU is bound by the number of operators, not by arithmetic. Torch's RMS norm and SwiGLU take some thirty of
them forward and backward; by hand they are a dozen. The values forward are torch's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional


def _norm(x_NE: torch.Tensor, weight_E: torch.Tensor, epsilon: float) -> torch.Tensor:
    return functional.rms_norm(x_NE, (x_NE.shape[-1],), weight_E, epsilon)


def _gated(gate_up_NI: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up_NI.chunk(2, -1)
    return functional.silu(gate) * up


class _Norm(torch.autograd.Function):
    """y = w x r with r = 1 / rms(x). With g = ∂y w: ∂x = r (g - x r² mean(g x)), ∂w = Σ ∂y x r."""

    @staticmethod
    def forward(ctx: Any, x_NE: torch.Tensor, weight_E: torch.Tensor, epsilon: float) -> torch.Tensor:
        ctx.save_for_backward(x_NE, weight_E)
        ctx.epsilon = epsilon
        return _norm(x_NE, weight_E, epsilon)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (grad_NE,) = grads
        x_NE, weight_E = ctx.saved_tensors
        size = x_NE.shape[-1]
        scale_N1 = torch.linalg.vecdot(x_NE, x_NE).div_(size).add_(ctx.epsilon).rsqrt_()[..., None]
        unit_NE = x_NE * scale_N1
        slope_NE = grad_NE * weight_E
        mean_N1 = torch.linalg.vecdot(slope_NE, unit_NE).div_(size)[..., None]
        grad_weight = (grad_NE * unit_NE).flatten(0, -2).sum(0)
        return slope_NE.sub_(unit_NE.mul_(mean_N1)).mul_(scale_N1), grad_weight, None


class _Gated(torch.autograd.Function):
    """silu(gate) · up of one fused tensor [N, 2 I], whose gradient is written into one tensor."""

    @staticmethod
    def forward(ctx: Any, gate_up_NI: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate_up_NI)
        return _gated(gate_up_NI)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (grad_NI,) = grads
        (gate_up_NI,) = ctx.saved_tensors
        gate, up = gate_up_NI.chunk(2, -1)
        out = torch.empty_like(gate_up_NI)
        to_gate, to_up = out.chunk(2, -1)
        torch.mul(grad_NI, functional.silu(gate), out=to_up)
        torch.mul(torch.ops.aten.silu_backward(grad_NI, gate), up, out=to_gate)
        return out


@dataclass(frozen=True)
class Operators:
    """RMS norm `(x [..., E], weight [E], epsilon) -> [..., E]` and gated SiLU `(gate and up [N, 2 I]) -> [N, I]`."""

    norm: Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]
    gated: Callable[[torch.Tensor], torch.Tensor]


TORCH = Operators(_norm, _gated)
BY_HAND = Operators(_Norm.apply, _Gated.apply)
