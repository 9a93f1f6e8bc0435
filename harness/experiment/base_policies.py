"""Seeds of an experiment that start from the same base policy: several from one are no independent replicates."""

from __future__ import annotations

from collections.abc import Sequence

from harness.configuration.schema import RunConfig


def shared_base_policies(configs: Sequence[RunConfig]) -> int | None:
    """Count the shipped base policies that the seeds of every arm take in turn: seed s starts from number s modulo that.

    None where arms differ in it, where they have no set, or where one base policy is declared for all seeds: intervals are about that
    one policy then, and seeds are the replicates.
    """
    bases = [getattr(config.model, "bases", None) for config in configs]
    counts = {None if one is None or one.set is None else one.count for one in bases}
    (count, *others) = counts
    return None if others or count == 1 else count
