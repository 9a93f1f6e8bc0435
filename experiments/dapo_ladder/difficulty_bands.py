"""Problems put into bands of difficulty without choosing by the outcome that is then compared.

A problem that a run solved rarely was partly unlucky there. In bands made from the reference's own samples the low band rises by itself
when sampled or trained again (regression to the mean), which would look like a gain of the other arm. So the band of a problem, where a
base policy's runs are compared, comes from the reference's runs of all *other* base policies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def crossed_bands(rates_P: Mapping[int, Floats], edges: Sequence[float]) -> dict[int, Ints]:
    """Replicate to the band of each problem, by the reference's mean pass rate over all other replicates.

    Args:
        rates_P: replicate (a base policy, or a seed) to pass rate per problem, fractions of 1, the same problems in the same order.
        edges: rising, between 0 and 1; band i holds rates in [edge i-1, edge i), the last one everything from the last edge on.

    Raises:
        ValueError: fewer than two replicates, or edges that do not rise.
    """
    if len(rates_P) < 2:
        raise ValueError(
            f"{len(rates_P)} replicates of the reference: bands come from the others, so at least two are needed (seeds whose samples "
            "of the reference are the same, such as those of one policy before training, are one)"
        )
    if any(not 0 < edge < 1 for edge in edges) or any(np.diff(edges) <= 0):
        raise ValueError(f"edges={list(edges)}: they must rise, between 0 and 1")
    total = np.sum([*rates_P.values()], axis=0)
    # Sums of shares end in last bits; a rate exactly at an edge must not depend on them.
    means = {one: np.round((total - rates) / (len(rates_P) - 1), 12) for one, rates in rates_P.items()}
    return {one: np.digitize(mean, edges).astype(np.int64) for one, mean in means.items()}


def band_means(values_P: Floats, band_P: Ints, bands: int) -> Floats:
    """Mean of a value over the problems of each band, [bands]; NaN where a band has none."""
    sizes = np.bincount(band_P, minlength=bands)
    sums = np.bincount(band_P, values_P, minlength=bands)
    return np.divide(sums, sizes, out=np.full(bands, np.nan), where=sizes > 0)
