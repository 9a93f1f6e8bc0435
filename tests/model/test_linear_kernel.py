"""Which linear kernel is taken: by processor and torch alone, never by a clock."""

from __future__ import annotations

import pytest
import torch

from harness.model import linear
from harness.model.linear import KERNELS, batched_product
from harness.model.system import Processor, parse_cpuinfo

INTEL, AMD = Processor("GenuineIntel", "Xeon"), Processor("AuthenticAMD", "EPYC")
CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9R14

processor\t: 1
vendor_id\t: GenuineIntel
model name\t: another
"""


@pytest.mark.parametrize(
    ("machine", "has_onednn", "kernel"),
    [
        (AMD, True, "onednn"),
        (AMD, False, "torch"),
        (INTEL, True, "torch"),
        (Processor("", "arm"), True, "torch"),
    ],
)
def test_auto_is_a_rule(monkeypatch: pytest.MonkeyPatch, machine: Processor, has_onednn: bool, kernel: str) -> None:
    monkeypatch.setattr(linear, "processor", lambda: machine)
    monkeypatch.setattr(linear, "onednn_available", lambda: has_onednn)
    assert linear.resolve_kernel("auto") == kernel
    assert linear.resolve_kernel("torch") == "torch"
    assert linear.resolve_kernel("onednn") == "onednn"


def test_the_first_processor_is_read() -> None:
    assert parse_cpuinfo(CPUINFO) == Processor("AuthenticAMD", "AMD EPYC 9R14")
    assert parse_cpuinfo("CPU implementer\t: 0x41\n").vendor == ""


@pytest.mark.parametrize("by_the_processor", [True, False])
def test_rounded_products_are_those_of_rounded_inputs_and_leave_other_products_alone(
    monkeypatch: pytest.MonkeyPatch, by_the_processor: bool
) -> None:
    """On every processor: one without bfloat16 products gets rounded inputs."""
    if not by_the_processor:
        monkeypatch.setattr(linear, "rounds_inputs", lambda: False)
    torch.manual_seed(0)
    x, weight, grad = torch.randn(64, 32), torch.randn(48, 32), torch.randn(64, 48)
    rounded = linear.Linear(linear.BFLOAT16)
    inputs = [tensor.clone().requires_grad_() for tensor in (x, weight)]
    y = rounded(*inputs)
    y.backward(grad)
    with torch.no_grad():
        torch.testing.assert_close(rounded(x, weight), y.detach(), atol=0, rtol=0)

    def coarse(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.bfloat16().float()

    wanted = coarse(x) @ coarse(weight).T, coarse(grad) @ coarse(weight), coarse(grad).T @ coarse(x)
    for found, expected in zip((y.detach(), inputs[0].grad, inputs[1].grad), wanted, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-5)
    assert torch.get_float32_matmul_precision() == "highest"
    assert linear.Linear(linear.BFLOAT16).for_head().kernel == linear.resolve_kernel("auto")
    assert linear.Linear("torch").for_head().kernel == "torch"


@pytest.mark.parametrize("kernel", KERNELS)
def test_batched_product_is_never_rounded(kernel: str) -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(6, 40, 40, generator=generator) for _ in range(2))
    before = torch.get_float32_matmul_precision()
    made = batched_product(left, right, kernel)
    assert (made - left.double() @ right.double()).abs().max() < 1e-5
    assert torch.get_float32_matmul_precision() == before
