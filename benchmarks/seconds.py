"""Where the seconds of a store's runs went, and its scores: python benchmarks/seconds.py RESULTS."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import pandas as pd
import yaml


def main(results: Path) -> None:
    for folder in sorted((results / "runs").iterdir()):
        journal, config = folder / "metrics.jsonl", yaml.safe_load((folder / "config.yaml").read_text())
        rows = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
        steps = [row for row in rows if "seconds_total" in row]
        parts = sorted({name for row in steps for name in row if name.startswith("seconds_")})
        medians = (f"{part[8:]} {statistics.median(row.get(part) or 0 for row in steps):.2f}" for part in parts)
        gap = max((row["sampler_log_prob_gap_max"] for row in steps), default=0.0)
        scores = [
            f"{100 * pd.read_parquet(file)['correct'].mean():.1f}"
            for file in sorted(folder.glob("samples/*/*/*.parquet"))
        ]
        algorithm = config["algorithm"]
        system = (
            f"{algorithm['dead_groups']['policy']} {algorithm['overlong']['policy']} {algorithm['aggregation']['kind']}"
        )
        print(folder.name[:6], config["seed"], system, len(steps), "steps,", *medians, f"gap {gap:.1g},", *scores)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
