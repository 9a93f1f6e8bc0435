"""What a design can see; the formulas live beside the metrics, where ``harness plan`` uses them too."""

from __future__ import annotations

from harness.evaluation.power import minimum_detectable_difference, power, seeds_needed

__all__ = ["minimum_detectable_difference", "power", "seeds_needed"]
