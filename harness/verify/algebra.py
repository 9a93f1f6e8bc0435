"""Math-Verify, for formulas outside the small language and as a second grader. Imported in worker processes only."""

import logging
from collections.abc import Callable

from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

from harness.verify.compare import Comparison
from harness.verify.read.answers import read_text

_DIGITS = 40  # by default it compares six decimals
_NORMALIZE = NormalizationConfig(basic_latex=True, malformed_operators=True, nits=True, boxed="none")
_LATEX = (LatexExtractionConfig(normalization_config=_NORMALIZE),)
logging.getLogger("math_verify").setLevel(logging.ERROR)


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
