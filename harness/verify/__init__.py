"""The verifier service: is the final answer of a response equal to the gold answer?

May import: nothing of ours.
"""

from harness.verify.config import TROUBLE, Verdict, VerifierConfig
from harness.verify.gold import OWN_TEXT, is_no_answer
from harness.verify.read.symbols import restore_escapes
from harness.verify.verifier import MathVerifier

__all__ = ["OWN_TEXT", "TROUBLE", "MathVerifier", "Verdict", "VerifierConfig", "is_no_answer", "restore_escapes"]
