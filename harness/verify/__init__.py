"""The verifier service: is the final answer of a response equal to the gold answer?

May import: nothing of ours.
"""

from __future__ import annotations

from harness.verify.config import TROUBLE, Verdict, VerifierConfig
from harness.verify.verifier import MathVerifier

__all__ = ["TROUBLE", "MathVerifier", "Verdict", "VerifierConfig"]
