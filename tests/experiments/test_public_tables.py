"""The public tables that are in the repository give the numbers of their page."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis import judge
from analysis.tables.table import cell_text

FOLDER = Path(__file__).parents[2] / "experiments" / "public_tables"
PAGE = (FOLDER / "README.md").read_text()
REMAX = {"where": {"level": "level1"}, "by": "model", "benchmark": "domain", "baseline": "grpo", "pair": "seed"}


@pytest.mark.parametrize(
    ("table", "options", "numbers"),
    [
        (
            "remax",
            REMAX | {"score": "pass8"},
            [
                *["−11.1 [−27.4, +5.1]", "+24.6 [+4.4, +44.7]", "+33.4 [+5.1, +61.8]", "+37.9 [+20.3, +55.4]"],
                *["−3.4 [−14.3, +7.6]", "+1.8 [−9.4, +12.9]", "+30.3 [+7.9, +52.8]", "+32.5 [+10.4, +54.6]"],
                *["−3.4 [−13.0, +6.1]", "+5.8 [−19.8, +31.3]", "+24.5 [+9.2, +39.7]", "+21.1 [+5.6, +36.7]"],
            ],
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
    assert texts == [f"{number} {'not resolved' if '[−' in number else 'higher'}" for number in numbers]
    assert all(number.replace("[+2.3, +5.6]", "pp, 95 % CI [2.3, 5.6]") in PAGE for number in numbers)


def test_the_bootstrap_of_three_numbers_is_too_short():
    rows = pd.read_csv(FOLDER / "xling_grpo.csv")
    judged = judge(rows[rows["arm"].isin(["A3", "A4"])], baseline="A4", score="aime2024_maj8", margin=1)
    third = judged.primary[0].shown_estimate
    assert (third.value, third.low, third.high) == pytest.approx((5.556, -4.006, 15.117), abs=0.001)
