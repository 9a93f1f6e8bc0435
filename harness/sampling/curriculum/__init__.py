"""Prompt curricula. A member defines `Config` and `build(config, problems: int, seed: int) -> Curriculum`.

A curriculum that needs the initial policy's pass rates has `calibration_samples` and `calibrate(pass_rates)`; the loop
measures and calls it once, before the first step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np


class Curriculum(Protocol):
    """Draws training problems, learns from their outcomes, and survives a resume through plain state."""

    def draw(self, count: int) -> np.ndarray:
        """Indices [count] of the problems to roll out next; distinct within one call."""
        ...

    def observe(self, problems_P: np.ndarray, accuracy_P: np.ndarray) -> None:
        """Take note of the share of right responses of each problem just rolled out."""
        ...

    def record(self) -> dict[str, Any]:
        """Return entries for the step's metrics: what was sampled, paused and retired since the last call."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything a resumed run needs, as plain values (lists, not arrays)."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what `state` returned."""
        ...
