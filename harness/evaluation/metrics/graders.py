"""Two graders compared: which samples both hold right, only the first, only the second (`harness.verify.second`)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Codes = NDArray[np.int8]

NO_VERDICT = -1
PARTS = ("both", "only_first", "only_second")


def second_codes(verdicts: Iterable[bool | None]) -> Codes:
    """Return the second grader's verdicts as 1 right, 0 wrong, -1 none."""
    return np.array([NO_VERDICT if one is None else int(one) for one in verdicts], dtype=np.int8)


def shares(first_R: Bools, second_R: Codes) -> dict[str, float]:
    """Return the shares of `PARTS` among the samples that the second grader has a verdict on; NaN without any."""
    right, wrong = second_R == 1, second_R == 0
    judged = int(right.sum() + wrong.sum())
    parts = {"both": first_R & right, "only_first": first_R & wrong, "only_second": ~first_R & right}
    return {name: float(there.sum() / judged) if judged else np.nan for name, there in parts.items()}
