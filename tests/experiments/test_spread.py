"""The spread of a seed's difference, by hand."""

from __future__ import annotations

import pandas as pd
from spread import spread


def test_the_parts_of_a_difference_by_hand() -> None:
    """Differences 3/4 and 1/4 of one base policy, 0 and 0 of the other: mean squares within 1/16, between 1/4; base (1/4 - 1/16) / 2.

    The four problems' means are 1/2, 1/4, 1/4 and 0: variance 1/24, over 4.
    """
    reference = pd.DataFrame(0.0, index=[0, 1, 2, 3], columns=["a", "b", "c", "d"])
    arm = reference.copy()
    arm.loc[0] = [1.0, 1.0, 1.0, 0.0]
    arm.loc[2] = [1.0, 0.0, 0.0, 0.0]
    mean, base, seed, samples, problems = spread(arm, reference, samples=4, bases=2)
    assert (mean, samples, problems) == ("+25.0", "0.0", "10.2")
    assert (base.partition(" ")[0], seed.partition(" ")[0]) == ("30.6", "25.0")
