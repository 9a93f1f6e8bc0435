"""Which linear kernel is taken: by processor and torch alone, never by a clock."""

from __future__ import annotations

import pytest
import torch

from harness.model import linear
from harness.model.system import Processor, parse_cpuinfo

INTEL, AMD = Processor("GenuineIntel", "Xeon"), Processor("AuthenticAMD", "EPYC")
CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9R14
flags\t\t: fpu avx512f avx512_bf16

processor\t: 1
vendor_id\t: GenuineIntel
model name\t: another
"""


@pytest.mark.parametrize(
    ("machine", "has_onednn", "kernel"),
    [(AMD, True, "onednn"), (AMD, False, "torch"), (INTEL, True, "torch"), (Processor("", "arm"), True, "torch")],
)
def test_auto_is_a_rule(monkeypatch: pytest.MonkeyPatch, machine: Processor, has_onednn: bool, kernel: str) -> None:
    monkeypatch.setattr(linear, "processor", lambda: machine)
    monkeypatch.setattr(linear, "onednn_available", lambda: has_onednn)
    assert linear.resolve_kernel("auto") == kernel
    assert linear.resolve_kernel("torch") == "torch"
    assert linear.resolve_kernel("onednn") == "onednn"


def test_the_first_processor_is_read() -> None:
    assert parse_cpuinfo(CPUINFO) == Processor("AuthenticAMD", "AMD EPYC 9R14", bfloat16=True)
    assert parse_cpuinfo("CPU implementer\t: 0x41\n").vendor == ""
    assert not parse_cpuinfo(CPUINFO.replace("avx512_bf16", "avx512_vnni")).bfloat16
    assert parse_cpuinfo("Features\t: fp asimd bf16\n").bfloat16


def coarse(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.bfloat16().float()


@pytest.mark.parametrize(
    ("kernel", "by_the_processor", "tolerance"),
    # A result of bfloat16 has eight binary digits.
    [
        (linear.MIXED, True, 1e-5),
        (linear.MIXED, False, 1e-5),
        (linear.BFLOAT16, True, 2**-8),
        (linear.BFLOAT16, False, 2**-8),
    ],
)
def test_rounded_products_are_those_of_rounded_factors_and_leave_other_products_alone(
    monkeypatch: pytest.MonkeyPatch, kernel: str, by_the_processor: bool, tolerance: float
) -> None:
    """On every processor: one without bfloat16 products gets rounded factors."""
    if kernel == linear.BFLOAT16:
        monkeypatch.setattr(linear, "processor", lambda: Processor("", "", bfloat16=by_the_processor))
    elif not by_the_processor:
        monkeypatch.setattr(linear, "rounds_inputs", lambda: False)
    torch.manual_seed(0)
    x, weight, bias, grad = torch.randn(64, 32), torch.randn(48, 32), torch.randn(48), torch.randn(64, 48)
    rounded = linear.Linear(kernel)
    inputs = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
    y = rounded(*inputs)
    y.backward(grad)
    with torch.no_grad():
        torch.testing.assert_close(rounded(x, weight, bias), y.detach(), atol=0, rtol=0)
    wanted = (
        coarse(x) @ coarse(weight).T + bias,
        coarse(grad) @ coarse(weight),
        coarse(grad).T @ coarse(x),
        grad.sum(0),
    )
    for found, expected in zip((y.detach(), *(tensor.grad for tensor in inputs)), wanted, strict=True):
        assert found is not None
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, atol=tolerance * float(expected.abs().max()), rtol=0)
    assert torch.get_float32_matmul_precision() == "highest"
    assert rounded.for_head().kernel == linear.resolve_kernel("auto")
    assert linear.Linear("torch").for_head().kernel == "torch"


def test_weights_are_rounded_once_while_they_are_constant_and_anew_afterwards() -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(16, 16, generator=generator) for _ in range(2))
    rounded = linear.Linear(linear.BFLOAT16)
    first = rounded(x, weight)
    with rounded.constant_weights(), rounded.constant_weights():
        assert torch.equal(rounded(x, weight), first)
        assert torch.equal(rounded(x, weight.t()), rounded(x, weight.t().contiguous()))
        weight.mul_(2)  # against the promise, to see what is kept
        assert torch.equal(rounded(x, weight), first)
    assert torch.equal(rounded(x, weight), 2 * first)
