"""The public tables that are in the repository give the numbers of their page."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis import judge
from analysis.tables.table import cell_text

FOLDER = Path(__file__).parents[2] / "experiments" / "public_tables"
PAGE = (FOLDER / "README.md").read_text()
REPLAY = {"by": "model", "benchmark": "domain", "baseline": "control", "pair": "seed"}


@pytest.mark.parametrize(
    ("table", "options", "numbers"),
    [
        (
            "modebench_replay",
            REPLAY | {"score": "pass8"},
            ["+33.7 [+18.4, +49.0]", "+44.2 [+37.2, +51.1]", "+27.9 [+22.2, +33.6]"],
        ),
        (
            "modebench_replay",
            REPLAY | {"score": "mean8"},
            ["+15.9 [+1.5, +30.3]", "+19.2 [+15.3, +23.1]", "+17.2 [+14.8, +19.5]"],
        ),
        (
            "modebench_replay",
            REPLAY | {"score": "distinct8", "unit": "raw"},
            ["+1.00 [+0.83, +1.16]", "+0.77 [+0.54, +1.01]", "+0.56 [+0.38, +0.74]"],
        ),
        (
            "grpo_decomp",
            {"where": {"study": "gsm8k"}, "score": "gsm8k_test_greedy_acc", "baseline": "random"},
            ["+3.9 [+2.3, +5.6]"],
        ),
    ],
)
def test_the_page_has_what_the_command_says(table, options, numbers):
    main = judge(FOLDER / f"{table}.csv", **options).tables[0]
    (column,) = (column for column in main.columns if column.key == "delta")
    texts = [cell_text(row[column.key], column) for row in main.rows if column.key in row]
    assert texts == [f"{number} higher" for number in numbers]
    assert all(number.replace("[+2.3, +5.6]", "pp, 95 % CI [2.3, 5.6]") in PAGE for number in numbers)


def test_the_bootstrap_of_three_numbers_is_too_short():
    rows = pd.read_csv(FOLDER / "xling_grpo.csv")
    judged = judge(rows[rows["arm"].isin(["A3", "A4"])], baseline="A4", score="aime2024_maj8", margin=1)
    third = judged.primary[0].shown_estimate
    assert (third.value, third.low, third.high) == pytest.approx((5.556, -4.006, 15.117), abs=0.001)
