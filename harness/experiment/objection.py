"""An objection of a check to a comparison."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Objection:
    """One warning: which arm, why, and what to do about it."""

    arm: str
    check: str
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"[{self.check}] {self.arm}: {self.reason}. Fix: {self.fix}."
