"""The record of effects, read from the published ladder."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from runpy import run_path

import pytest
from analysis.claims.record import read_effects

from harness.experiment.plan import Plan
from harness.experiment.planning import make_plan

ROOT = Path(__file__).parents[2]


def test_the_ladder_s_steps_stand_beside_the_paper_s() -> None:
    script = run_path(str(ROOT / "experiments" / "effects" / "effects.py"))
    plan = Plan.read(make_plan(["experiment=dapo_ladder"]).record())
    rows = list(script["_of_arms"](ROOT / "results" / "published" / "dapo_ladder" / "tables", plan))
    found = {row.system: row for row in rows}
    assert [row.published for row in rows] == [6, 2, 3, 1, 8]  # Table 1: 30, 36, 38, 41, 42, 50
    last = found["+ dynamic sampling"]
    assert (last.reference, last.words, last.seeds) == ("+ token-level loss", "higher", "0 1 2 3 4 5 6 7")
    assert (last.effect, last.low, last.high) == pytest.approx((7.1, 4.4, 9.9), abs=0.05)
    assert last.tokens > 0
    kept = [
        row
        for row in read_effects(ROOT / "experiments" / "effects" / "effects.csv")
        if row.experiment == "dapo_ladder"
    ]
    assert [row.effect for row in kept] == [row.effect for row in rows]
    assert all(math.isfinite(row.margin) for row in kept)


def test_every_published_comparison_of_fewer_than_eight_seeds_says_why() -> None:
    text = (ROOT / "results" / "README.md").read_text()
    section = text.partition("## Fewer than eight seeds")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    told = set(re.findall(r"`(\w+)`", "".join(rows)))
    few = {"all_systems_rates"}  # a choice, published without tables
    for costs in (ROOT / "results" / "published").glob("*/tables/cost.csv"):
        with costs.open(newline="", encoding="utf-8") as file:
            if min(int(row["seeds"].split("/")[0]) for row in csv.DictReader(file)) < 8:
                few.add(costs.parents[1].name)
    assert told == few
