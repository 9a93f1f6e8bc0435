"""Make the intervals of tests/execution/numbers_check.json anew: train its runs with 24 seeds and write where the means of four belong.

python benchmarks/numbers_intervals.py RESULTS     # a folder for the runs; a repeated command goes on

Needed where base policies, problems or the runs change, or where the numbers of training change on purpose.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy import stats

from harness.execution.attempt import provenance
from harness.execution.progress import progress_on
from harness.store import ResultStore
from harness.store.atomic import write_file

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "execution"))

import numbers_check as numbers

SEEDS, BASES = range(24), 8  # three seeds a base policy
FALSE_ALARM = (
    0.01  # chance that any interval misses although all is right, at most (Sidak over the prediction intervals)
)
ROUNDING = (
    0.02  # share of the spread between runs of one base policy by which rounding may move a number of the first step
)
GAP = (0.0, 1e-4)  # nats a token


def intervals_of(runs: Mapping[int, Mapping[str, float]], arms: int) -> dict[str, dict[str, tuple[float, float]]]:
    """Compute the intervals of one arm from its numbers by seed."""
    found = {}
    names = list(next(iter(runs.values())))
    for name in names:
        if "gap" in name:
            found[name] = {"same_noise": GAP, "own_noise": GAP}
            continue
        first = name.startswith("first step")
        counted = len([other for other in names if "gap" not in other])
        late = len([other for other in names if not other.startswith("first step")])
        values_BS = np.array([[runs[seed][name] for seed in SEEDS if seed % BASES == base] for base in range(BASES)])
        spread = math.sqrt(values_BS.var(axis=1, ddof=1).mean())
        own = sum(runs[seed][name] for seed in numbers.SEEDS) / len(numbers.SEEDS)
        close = (own - ROUNDING * spread, own + ROUNDING * spread)
        same = close if first else predicted(values_BS, spread, late * arms)
        found[name] = {"same_noise": same, "own_noise": predicted(values_BS, spread, counted * arms)}
    return found


def predicted(values_BS: np.ndarray, spread: float, comparisons: int) -> tuple[float, float]:
    """Compute where the mean of new runs lies, one on each of the check's base policies: Student's t about the mean of those bases."""
    bases, seeds = values_BS.shape
    new = len(numbers.SEEDS)
    level = 1 - (1 - FALSE_ALARM) ** (1 / comparisons)
    half = stats.t.ppf(1 - level / 2, bases * (seeds - 1)) * spread * math.sqrt(1 / new + 1 / (new * seeds))
    centre = values_BS[:new].mean()
    return float(centre - half), float(centre + half)


def main(root: Path) -> None:
    """Train and write the file."""
    configs = numbers.configs("runtime.device=cpu")
    summary = numbers.train(configs, SEEDS, root, progress_on(sys.stderr))
    if not summary.complete:
        raise SystemExit(f"not all runs are finished; repeat the command: {summary.errors or 'stopped'}")
    runs: dict[str, dict[int, dict[str, float]]] = {arm: {} for arm in configs}
    for (arm, seed), spec in numbers.specs(configs, SEEDS).items():
        runs[arm][seed] = numbers.measured(ResultStore(root).run(spec.run_id))
    made = provenance("benchmarks/numbers_intervals.py")
    with_ = {"torch": made["packages"]["torch"], "cpu": made["hardware"]["cpu"], "seeds": len(SEEDS)}
    write_table(runs, with_)


def write_table(runs: Mapping[str, Mapping[int, Mapping[str, float]]], made_with: Mapping[str, object]) -> None:
    """Write `numbers_check.json`."""
    table = {
        "made_with": made_with,
        "belongs_to": numbers.belongs_to(numbers.configs()),
        "intervals": {arm: intervals_of(of_arm, len(runs)) for arm, of_arm in runs.items()},
    }
    write_file(numbers.FILE, json.dumps(table, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
