"""The published numbers beside the experiments: one schema, numeric, with the standing of each source."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
COLUMNS = ["arm", "metric", "value", "unit", "seeds", "protocol", "source"]


@pytest.mark.parametrize("name", ["dapo_ladder", "vapo", "dr_grpo", "deepseekmath", "olmo3", "scale_rl"])
def test_reference_numbers_name_protocol_and_source(name):
    with (EXPERIMENTS / name / "reference.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert list(rows[0]) == COLUMNS
    for row in rows:
        float(row["value"])
        assert int(row["seeds"]) >= 1
        assert re.search(r"\[(P|S|C|I)(/S)?\]", row["source"]), row
        assert all(row[column] for column in COLUMNS)


def test_dapo_ladder_is_the_published_one():
    with (EXPERIMENTS / "dapo_ladder" / "reference.csv").open(newline="") as file:
        values = [float(row["value"]) for row in csv.DictReader(file)]
    assert values == [30, 36, 38, 41, 42, 50, 47, 44, 50, 52]
