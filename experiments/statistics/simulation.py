"""Do the intervals and the words do what they say? Simulation with known truth.

``python experiments/statistics/simulation.py intervals`` prints one table: how often each interval of the harness holds its truth.
``ladders`` prints how often the words of a column of five comparisons are false, and how often they find what is there; ``looks`` the same
of a sequential design, and how many seeds it takes; ``skew`` what skewed differences do.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable

import simulated_coverage
import simulated_ladders
import simulated_looks
import simulated_skew

PARTS: dict[str, Callable[[int, int], Iterable[str]]] = {
    "intervals": simulated_coverage.table,
    "ladders": simulated_ladders.report,
    "looks": simulated_looks.report,
    "skew": simulated_skew.report,
}


def main(arguments: list[str] | None = None) -> int:
    """Write the tables of measured rates to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("all", *PARTS), default="all")
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for name, part in PARTS.items():
        if options.what in ("all", name):
            sys.stdout.writelines([*part(options.simulations, options.seed), "\n"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
