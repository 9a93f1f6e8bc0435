"""Dynamic loss scaling for training with float16 products (arXiv:1710.03740, section 3.2; for RLVR arXiv:2510.26788).

float16 resolves policies eight times finer than bfloat16, so sampler and trainer agree better, but its smallest number is 6e-8: gradients
of a mean over many tokens vanish. The loss is multiplied by a power of two before backward and the gradients divided by it after. An
update whose gradients overflow is left out and the factor halved; after `GROWTH_UPDATES` updates without overflow it is doubled. As
`torch.amp.GradScaler`, but decided by the global gradient norm, which all ranks see alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from harness.model.adapters import whole
from harness.training.fault import NumericalFault

START, GROWTH_UPDATES = 2.0**16, 2000  # torch.amp.GradScaler's
SMALLEST = 2.0**-10  # a gradient that overflows below this is no matter of scale


class LossScale:
    """The factor of the loss; 1 and without effect where `active` is false."""

    def __init__(self, active: bool) -> None:
        self.active, self.value, self.since_overflow = active, START if active else 1.0, 0

    def gradient_norm(self, parameters: Sequence[torch.nn.Parameter]) -> tuple[torch.Tensor, float]:
        """Divide the gradients by the factor, in place, and return their global norm: as clipping takes it, and as a number."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self.active:
            torch._foreach_mul_(gradients, 1.0 / self.value)
        norm = torch.nn.utils.get_total_norm(gradients)
        return norm, float(whole(norm)) if gradients else 0.0

    def accepts(self, norm: float) -> bool:
        """Return whether an update of this gradient norm may be made; adapts the factor.

        Raises:
            NumericalFault: gradients overflow although the factor is `SMALLEST`.
        """
        if not self.active:
            return True
        if math.isfinite(norm):
            self.since_overflow += 1
            if self.since_overflow >= GROWTH_UPDATES:
                self.value, self.since_overflow = 2 * self.value, 0
            return True
        if self.value <= SMALLEST:
            raise NumericalFault(
                f"gradients overflow at every loss scale down to {SMALLEST:g}; train with model.precision=bfloat16 or float32",
                {},
            )
        self.value, self.since_overflow = self.value / 2, 0
        return False
