"""One response graded by Math-Verify as it comes, for `harness.verify.cross_check`. Imported in worker processes only."""

from __future__ import annotations

from math_verify import parse, verify


def grade(gold: str, response: str) -> tuple[str, str]:
    """Return (verdict, method) of a response, by Math-Verify's own extraction and rules."""
    framed = gold if "$" in gold or "\\boxed" in gold else f"\\boxed{{{gold}}}"
    try:
        wanted = parse(framed, parsing_timeout=None)
        if not wanted:
            return "gold_unparsable", "plain_math_verify"
        right = verify(wanted, parse(response, parsing_timeout=None), timeout_seconds=None)
    except MemoryError:
        return "killed", "memory"
    except RecursionError:
        return "over_limit", "plain_math_verify"
    except Exception as error:
        return "error", f"plain_math_verify:{type(error).__name__}"
    return "right" if right else "wrong", "plain_math_verify"
