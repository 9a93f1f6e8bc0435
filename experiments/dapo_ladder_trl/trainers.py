"""The ladder's scores by both trainers as one table, for `harness judge`.

python experiments/dapo_ladder_trl/trainers.py ROOT --out trainers.csv
harness judge trainers.csv arm=trainer by=rung seed=seed score=avg32 baseline=builtin margin=3
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis import load

EXPERIMENTS = {"builtin": "dapo_ladder", "TRL": "dapo_ladder_trl"}


def scores(root: Path) -> pd.DataFrame:
    """A row a run, in per cent: trainer, rung, seed, avg32 at the training cap after the last step."""
    tables = []
    for trainer, name in EXPERIMENTS.items():
        results = load(root, name)
        plan, frame = results.experiment.plan, results.per_seed
        frame = frame[frame["cap"] == plan.primary_cap]
        rungs = frame["arm"].map(lambda arm, plan=plan: plan.arm(arm).label.removeprefix("+ "))
        tables.append(
            pd.DataFrame({"trainer": trainer, "rung": rungs, "seed": frame["seed"], "avg32": 100 * frame["avg"]})
        )
    return pd.concat(tables, ignore_index=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    scores(options.root).to_csv(options.out, index=False, float_format="%.4f")


if __name__ == "__main__":
    main()
