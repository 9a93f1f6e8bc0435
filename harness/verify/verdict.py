"""The record that every verification ends in."""

from __future__ import annotations

from dataclasses import dataclass

TROUBLE = ("timeout", "killed", "error", "over_limit", "gold_unparsable")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict.

    Attributes:
        verdict: `right`, `wrong`, `no_answer` (nothing could be extracted), `unevaluated` (equal to the gold answer, with operations
            left to do), `restated` (equal, and only repeats the problem), `gold_unparsable`, `over_limit` (refused before any
            parser saw it), `timeout`, `killed` (the process that graded it died: memory, or from outside) or `error` (the
            parser or the comparison failed). Only `right` counts as correct; the others are counted apart.
        answer: the canonical answer that was graded, None when there was none.
        method: what decided: `integer`, `rational`, `string`, `structure`, `arithmetic`, `math_verify`, `extraction`,
            `limits`, `form` or `pool`.
        seconds: elapsed time that grading took; of a verdict from the cache, what it took the first time.
    """

    verdict: str
    answer: str | None
    method: str
    seconds: float = 0.0

    @property
    def correct(self) -> bool:
        """Return whether the answer counts."""
        return self.verdict == "right"
