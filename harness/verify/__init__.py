"""The verifier service: is the final answer of a response equal to the gold answer?

May import: nothing of ours.
"""

from __future__ import annotations

from harness.verify.config import VerifierConfig
from harness.verify.verdict import VERDICTS, Verdict
from harness.verify.verifier import MathVerifier

__all__ = ["VERDICTS", "MathVerifier", "Verdict", "VerifierConfig"]
