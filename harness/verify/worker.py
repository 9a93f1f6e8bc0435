"""A process that grades with Math-Verify, one case after another, until it is killed or its link closes.

Formulas outside the small language come here, and what the second grader asks. The kernel ends the process when a case has used its
processor time, also inside one call of C: `setitimer(ITIMER_PROF)` with SIGPROF's default action. It never outlives its parent for
longer than one case.
"""

import logging
import resource
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

from harness.verify.compare import Comparison
from harness.verify.pool import READY
from harness.verify.read.answers import read_text

_DIGITS = 40  # by default it compares six decimals
_NORMALIZE = NormalizationConfig(basic_latex=True, malformed_operators=True, nits=True, boxed="none")
_LATEX = (LatexExtractionConfig(normalization_config=_NORMALIZE),)
_RECURSION_LIMIT = 3_000
_MEMORY_BYTES = 768 << 20  # sympy alone needs about 200 MiB
logging.getLogger("math_verify").setLevel(logging.ERROR)


def main(descriptor: int, cpu_seconds: float) -> None:
    """Answer cases with (verdict, method): (gold, answer, percent policy) by algebra, (gold, response) by plain Math-Verify.

    `descriptor` is a socket to the parent, told first that this process is ready; a case has `cpu_seconds` of processor time.
    """
    link = Connection(descriptor)
    grade(r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}", "either")
    grade(r"\int_0^1 x dx", r"\frac{1}{2}", "either")
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(_RECURSION_LIMIT)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    link.send(READY)
    while True:
        try:
            case = link.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        verdict = grade_response(*case) if len(case) == 2 else grade(*case)
        signal.setitimer(signal.ITIMER_PROF, 0)
        link.send(verdict)


def grade(gold: str, answer: str, percent: str) -> tuple[str, str]:
    """Return verdict and method of two answers as text: structure by our rules, formulas that have no value there by Math-Verify."""

    def leaf(gold: str, answer: str) -> bool:
        formulas = [parse(f"${text}$", _LATEX, parsing_timeout=None) for text in (gold, answer)]
        if not formulas[0]:
            raise ValueError(gold)
        return bool(verify(*formulas, float_rounding=_DIGITS, numeric_precision=_DIGITS, timeout_seconds=None))

    return _verdict(lambda: Comparison(percent, leaf).equal(read_text(gold), read_text(answer)), "math_verify")


def grade_response(gold: str, response: str) -> tuple[str, str]:
    """Return (verdict, method) of a response, by Math-Verify's own extraction and rules."""

    def is_right() -> bool:
        formulas = parse(gold if "$" in gold or "\\boxed" in gold else f"\\boxed{{{gold}}}", parsing_timeout=None)
        if not formulas:
            raise ValueError(gold)
        return bool(verify(formulas, parse(response, parsing_timeout=None), timeout_seconds=None))

    return _verdict(is_right, "plain_math_verify")


def _verdict(is_right: Callable[[], bool | None], method: str) -> tuple[str, str]:
    try:
        return "right" if is_right() else "wrong", method
    except ValueError:
        return "gold_unparsable", method
    except MemoryError:
        return "killed", "memory"
    except RecursionError:
        return "over_limit", method
    except Exception as error:
        return "error", f"{method}:{type(error).__name__}"
