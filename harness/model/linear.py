"""Matrix products of float32 tensors on CPU: torch's default (MKL), oneDNN, or oneDNN with factors rounded to bfloat16.

The first two are chosen by the processor's maker and the build of torch. On AMD's processors MKL takes a slow path: there oneDNN's
float32 product is about twice as fast at the testbed's shapes (256 to 4096 rows: 1.1 to 2.5 times forward, at 16 rows it is slower).
It is reached through a private operator, so it is asked for, kept behind a switch and recorded with every run: the two kernels differ
by rounding (about 1e-6), which training amplifies without bound. Nothing is timed, so a busy machine chooses as an idle one does.

The others are precisions. `model.precision=mixed` has sums and results in float32, which is fast where the processor has AMX.
`model.precision=bfloat16` rounds results, too, as bfloat16 training does elsewhere: with AVX-512 BF16 a product takes half of float32's
time. Everything between products is float32 in both. A processor that has neither multiplies rounded factors in float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional

from harness.model.system import AMD, processor

MIXED, BFLOAT16 = "mixed", "bfloat16"
KERNELS = ("torch", "onednn", MIXED, BFLOAT16)


def onednn_available() -> bool:
    """Try if torch was built with the oneDNN linear operator and it accepts float32."""
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    try:
        _onednn(torch.zeros(2, 4), torch.zeros(3, 4), None)
    except RuntimeError:
        return False
    return True


def _onednn(x_NI: torch.Tensor, weight_OI: torch.Tensor, bias_O: torch.Tensor | None) -> torch.Tensor:
    return _onednn_operator()(x_NI, weight_OI, bias_O, "none", [], "")


@functools.cache
def _onednn_operator() -> Callable[..., torch.Tensor]:
    return torch.ops.mkldnn._linear_pointwise.default  # not looked up anew for every product


def _torch_weight_gradient(grad_NO: torch.Tensor, x_NI: torch.Tensor) -> torch.Tensor:
    return grad_NO.t() @ x_NI


def _onednn_weight_gradient(grad_NO: torch.Tensor, x_NI: torch.Tensor) -> torch.Tensor:
    # The product with the larger output dimension first keeps oneDNN on its fast blocking.
    if grad_NO.shape[1] > x_NI.shape[1]:
        return _onednn(x_NI.t(), grad_NO.t(), None).t()
    return _onednn(grad_NO.t(), x_NI.t(), None)


@contextmanager
def _rounding() -> Iterator[None]:
    """Let the processor round the factors of float32 products to bfloat16 if it multiplies that faster; sums stay float32."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)


@functools.cache
def rounds_inputs() -> bool:
    """Whether this processor rounds inputs itself where it is allowed to. Those without AMX multiply in float32, by oneDNN's kernels."""
    ones = torch.eye(64)
    with _rounding():
        return not torch.equal(ones * (1 + 2**-12) @ ones, ones * (1 + 2**-12))


def _mixed(x_NI: torch.Tensor, weight_OI: torch.Tensor, bias_O: torch.Tensor | None) -> torch.Tensor:
    with _rounding():
        return functional.linear(x_NI, weight_OI, bias_O)


def _mixed_weight_gradient(grad_NO: torch.Tensor, x_NI: torch.Tensor) -> torch.Tensor:
    with _rounding():
        return _torch_weight_gradient(grad_NO, x_NI)


def _bfloat16(x_NI: torch.Tensor, weight_OI: torch.Tensor, bias_O: torch.Tensor | None) -> torch.Tensor:
    with _rounding():  # of factors in float32
        product = (x_NI @ weight_OI.t()).bfloat16().float()
    return product if bias_O is None else product.add_(bias_O)


def _bfloat16_weight_gradient(grad_NO: torch.Tensor, x_NI: torch.Tensor) -> torch.Tensor:
    return _mixed_weight_gradient(grad_NO, x_NI).bfloat16().float()


_PRODUCTS: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = {
    "torch": (functional.linear, _torch_weight_gradient),
    "onednn": (_onednn, _onednn_weight_gradient),
    MIXED: (_mixed, _mixed_weight_gradient),
    BFLOAT16: (_bfloat16, _bfloat16_weight_gradient),
}


def _factor(tensor: torch.Tensor, kernel: str) -> torch.Tensor:
    """A tensor as this kernel's products take it. Where the processor does not round the factors of a mixed product, this does."""
    if kernel == BFLOAT16:
        return tensor.bfloat16() if processor().bfloat16 else tensor.bfloat16().float()
    return tensor.bfloat16().float() if kernel == MIXED and not rounds_inputs() else tensor


class KernelLinear(torch.autograd.Function):
    """y = x Wᵀ + b with all three products by a kernel; `factor_OI` is W as the kernel takes it."""

    @staticmethod
    def forward(
        ctx: Any,
        x_NI: torch.Tensor,
        weight_OI: torch.Tensor,
        bias_O: torch.Tensor | None,
        factor_OI: torch.Tensor,
        kernel: str,
    ) -> torch.Tensor:
        x_NI = _factor(x_NI, kernel)
        ctx.save_for_backward(x_NI, factor_OI)
        ctx.has_bias, ctx.kernel = bias_O is not None, kernel
        return _PRODUCTS[kernel][0](x_NI, factor_OI, bias_O)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x_NI, factor_OI = ctx.saved_tensors
        grad_NO = _factor(grads[0], ctx.kernel)
        product, weight_gradient = _PRODUCTS[ctx.kernel]
        grad_x = product(grad_NO, factor_OI.t(), None) if ctx.needs_input_grad[0] else None
        return grad_x, weight_gradient(grad_NO, x_NI), grads[0].sum(0) if ctx.has_bias else None, None, None


class Linear:
    """A linear map `(x [N, in], weight [out, in], bias [out] | None) -> [N, out]` by a named kernel.

    The other kernels serve float32 tensors on CPU; everything else goes to torch. `head`: the kernel of `for_head`, where `kernel` rounds.
    """

    def __init__(self, kernel: str = "torch", head: str = "auto") -> None:
        if kernel not in KERNELS:
            raise ValueError(f"unknown linear kernel {kernel!r}; choose one of {', '.join(KERNELS)}")
        if kernel == "onednn" and not onednn_available():
            raise ValueError("runtime.linear_kernel=onednn, but this torch has no oneDNN; use torch or auto")
        self.kernel, self.rounds, self.head = kernel, kernel in (MIXED, BFLOAT16), head
        self._factors: dict[tuple[int, tuple[int, ...]], torch.Tensor] | None = None

    def for_head(self) -> Linear:
        """The kernel of the product with the vocabulary, which is never rounded (as in MiniMax-M1, arXiv:2506.13585)."""
        return Linear(resolve_kernel(self.head)) if self.rounds else self

    @contextmanager
    def constant_weights(self) -> Iterator[None]:
        """Inside, no weight changes or is freed, and each is rounded once."""
        if self._factors is not None or not self.rounds:
            yield
            return
        self._factors = {}
        try:
            yield
        finally:
            self._factors = None

    def factor(self, weight_OI: torch.Tensor) -> torch.Tensor:
        """A weight as the kernel's products take it."""
        if not self.rounds:
            return weight_OI
        if self._factors is None:
            return _factor(weight_OI.detach(), self.kernel)
        place = weight_OI.data_ptr(), weight_OI.stride()  # a matrix and its transpose begin at one address
        if place not in self._factors:
            self._factors[place] = _factor(weight_OI.detach(), self.kernel)
        return self._factors[place]

    def __call__(self, x_NI: torch.Tensor, weight_OI: torch.Tensor, bias_O: torch.Tensor | None = None) -> torch.Tensor:
        if self.kernel == "torch" or x_NI.device.type != "cpu" or x_NI.dtype != torch.float32:
            return functional.linear(x_NI, weight_OI, bias_O)
        factor_OI = self.factor(weight_OI)
        if torch.is_grad_enabled():
            return KernelLinear.apply(x_NI, weight_OI, bias_O, factor_OI, self.kernel)  # type: ignore[no-untyped-call]
        return _PRODUCTS[self.kernel][0](_factor(x_NI, self.kernel), factor_OI, bias_O)


def resolve_kernel(kernel: str) -> str:
    """Return the kernel to use: as configured, or for `auto` oneDNN on AMD's processors where torch has it, and torch's own elsewhere."""
    if kernel != "auto":
        return kernel
    return "onednn" if processor().vendor == AMD and onednn_available() else "torch"


def _norm(x_NE: torch.Tensor, weight_E: torch.Tensor, epsilon: float) -> torch.Tensor:
    return functional.rms_norm(x_NE, (x_NE.shape[-1],), weight_E, epsilon)


def _swiglu(gate_up_NI: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up_NI.chunk(2, -1)
    return functional.silu(gate) * up


class NormByHand(torch.autograd.Function):
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


_KEPT_BYTES = 2**20  # of silu(gate) until backward: computed again it costs the testbed as much as a product


class SwiGluByHand(torch.autograd.Function):
    """silu(gate) · up of one fused tensor [N, 2 I], whose gradient is written into one tensor."""

    @staticmethod
    def forward(ctx: Any, gate_up_NI: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up_NI.chunk(2, -1)
        silu = functional.silu(gate)
        ctx.save_for_backward(gate_up_NI, silu if silu.nbytes < _KEPT_BYTES else None)
        return silu * up

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor]:
        (grad_NI,) = grads
        gate_up_NI, silu = ctx.saved_tensors
        gate, up = gate_up_NI.chunk(2, -1)
        out = torch.empty_like(gate_up_NI)
        grad_gate, grad_up = out.chunk(2, -1)
        torch.mul(grad_NI, functional.silu(gate) if silu is None else silu, out=grad_up)
        torch.mul(torch.ops.aten.silu_backward(grad_NI, gate), up, out=grad_gate)
        return (out,)


@dataclass(frozen=True)
class Operators:
    """RMS norm `(x [..., E], weight [E], epsilon) -> [..., E]` and gated SiLU `(gate and up [N, 2 I]) -> [N, I]`."""

    norm: Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]
    swiglu: Callable[[torch.Tensor], torch.Tensor]


TORCH = Operators(_norm, _swiglu)
BY_HAND = Operators(NormByHand.apply, SwiGluByHand.apply)
