"""A ladder's scores by both trainers as one table, for `harness judge`. TRL's runs are those of LADDER_trl.

python experiments/dapo_ladder_trl/trainers.py ROOT --out trainers.csv
harness judge trainers.csv arm=trainer by=rung seed=seed score=avg32 baseline=builtin margin=3
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis import load


def scores(root: Path, ladder: str) -> pd.DataFrame:
    """A row a run, in per cent: trainer, rung, seed, avg@n at the training cap after the last step."""
    tables = []
    for trainer, name in {"builtin": ladder, "TRL": f"{ladder}_trl"}.items():
        results = load(root, name)
        plan, frame = results.experiment.plan, results.per_seed
        frame = frame[frame["cap"] == plan.primary_cap]
        rungs = frame["arm"].map(lambda arm, plan=plan: plan.arm(arm).plain_label)
        score = f"avg{int(frame['samples'].max())}"
        tables.append(
            pd.DataFrame({"trainer": trainer, "rung": rungs, "seed": frame["seed"], score: 100 * frame["avg"]})
        )
    return pd.concat(tables, ignore_index=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--ladder", default="dapo_ladder")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    scores(options.root, options.ladder).to_csv(options.out, index=False, float_format="%.4f")


if __name__ == "__main__":
    main()
