"""Matrix products for float32 on CPU: torch's default (MKL) or oneDNN, whichever this machine runs faster.

On CPUs where MKL takes a slow path (AMD, for one) oneDNN's float32 product is about twice as fast. It is reached through a
private operator, so it is probed for, timed once per machine, kept behind a switch and recorded with every run: the two
kernels differ by rounding (about 1e-6), so a run must not change kernel between attempts.
"""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from filelock import FileLock

KERNELS = ("torch", "onednn")


def onednn_available() -> bool:
    """Whether torch was built with the oneDNN linear operator and it accepts float32."""
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


def resolve_kernel(wanted: str, cache: Path) -> str:
    """The kernel a run uses: as configured, or for `auto` this machine's faster one, probed once and remembered in `cache`.

    Remembering it matters: a run that resumes must not change kernel because a busy machine timed differently.
    """
    if wanted != "auto":
        return wanted
    machine = f"{platform.node()} torch {torch.__version__}"
    record = cache / "linear_kernel.json"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{record}.lock"):
        known: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
        if machine not in known:
            known[machine] = probe()
            scratch = record.with_name(f".{record.name}.{os.getpid()}")
            scratch.write_text(json.dumps(known, indent=1))
            os.replace(scratch, record)
    return known[machine]


def probe(rows: int = 256, width: int = 256, repeats: int = 30) -> str:
    """Return the faster kernel for this machine, from one short timing of each (a few milliseconds)."""
    if not onednn_available():
        return "torch"
    x, weight = torch.randn(rows, width), torch.randn(width, width)
    seconds = {}
    for kernel in KERNELS:
        linear = Linear(kernel)
        with torch.no_grad():
            samples = []
            for _ in range(repeats):
                start = time.perf_counter()
                linear(x, weight)
                samples.append(time.perf_counter() - start)
        seconds[kernel] = min(samples)
    return min(seconds, key=lambda kernel: seconds[kernel])
