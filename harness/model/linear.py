"""Matrix products for float32 on CPU: torch's default (MKL) or oneDNN, chosen by the processor's maker and the build of torch.

On AMD's processors MKL takes a slow path: there oneDNN's float32 product is about twice as fast at the testbed's shapes (256 to 4096
rows: 1.1 to 2.5 times forward, at 16 rows it is slower). It is reached through a private operator, so it is asked for, kept behind a
switch and recorded with every run: the two kernels differ by rounding (about 1e-6), which training amplifies without bound. Nothing
is timed, so a busy machine chooses as an idle one does.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional

from harness.model.processor import AMD, processor

KERNELS = ("torch", "onednn")


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
    return torch.ops.mkldnn._linear_pointwise(x_NI, weight_OI, bias_O, "none", [], "")


class _OnednnLinear(torch.autograd.Function):
    """y = x Wᵀ + b with both gradients as oneDNN products."""

    @staticmethod
    def forward(
        ctx: Any, x_NI: torch.Tensor, weight_OI: torch.Tensor, bias_O: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(x_NI, weight_OI)
        ctx.has_bias = bias_O is not None
        return _onednn(x_NI, weight_OI, bias_O)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (grad_NO,) = grads
        x_NI, weight_OI = ctx.saved_tensors
        # The product with the larger output dimension first keeps oneDNN on its fast blocking.
        if weight_OI.shape[0] > weight_OI.shape[1]:
            grad_weight = _onednn(x_NI.t(), grad_NO.t(), None).t()
        else:
            grad_weight = _onednn(grad_NO.t(), x_NI.t(), None)
        grad_x = _onednn(grad_NO, weight_OI.t(), None) if ctx.needs_input_grad[0] else None
        return grad_x, grad_weight, grad_NO.sum(0) if ctx.has_bias else None


class Linear:
    """A linear map `(x [N, in], weight [out, in], bias [out] | None) -> [N, out]` by a named kernel.

    The oneDNN kernel serves float32 tensors on CPU; everything else goes to torch.
    """

    def __init__(self, kernel: str = "torch") -> None:
        if kernel not in KERNELS:
            raise ValueError(f"unknown linear kernel {kernel!r}; choose one of {', '.join(KERNELS)}")
        if kernel == "onednn" and not onednn_available():
            raise ValueError("runtime.linear_kernel=onednn, but this torch has no oneDNN; use torch or auto")
        self.kernel = kernel

    def __call__(
        self, x_NI: torch.Tensor, weight_OI: torch.Tensor, bias_O: torch.Tensor | None = None
    ) -> torch.Tensor:
        if self.kernel == "torch" or x_NI.device.type != "cpu" or x_NI.dtype != torch.float32:
            return functional.linear(x_NI, weight_OI, bias_O)
        if torch.is_grad_enabled():
            return _OnednnLinear.apply(x_NI, weight_OI, bias_O)  # type: ignore[no-untyped-call]
        return _onednn(x_NI, weight_OI, bias_O)


def resolve_kernel(wanted: str) -> str:
    """Return the kernel to use: as configured, or for `auto` oneDNN on AMD's processors where torch has it, and torch's own elsewhere."""
    if wanted != "auto":
        return wanted
    return "onednn" if processor().vendor == AMD and onednn_available() else "torch"
