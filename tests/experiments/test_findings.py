"""Tables of documents that come from published results, and public tables, say what the results say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import ttest_1samp
from tables import table as rows

from analysis import judge
from analysis.tables.table import cell_text

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "public_tables"
PAGE = (FOLDER / "README.md").read_text()


def test_the_table_of_claims_is_that_of_their_effects(tmp_path: Path) -> None:
    """And the claims that a tuned experiment asks are as its table has them."""
    folder = ROOT / "experiments" / "claims"
    script = runpy.run_path(str(folder / "page.py"))
    effects = pd.read_csv(folder / "effects.csv").fillna({"engaged": ""})
    assert (folder / "claims.md").read_text(encoding="utf-8") == f"# All claims\n\n{script['claims_text'](effects)}"
    tuned = pd.DataFrame(script["tuned_effects"]()).sort_values("claim", ignore_index=True)
    same = effects[effects["claim"].isin(tuned["claim"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(same[tuned.columns], tuned, check_dtype=False)


def test_the_table_of_smollm2_is_that_of_its_results() -> None:
    """A row is a difference of its source's main table, or turned round; all five parts together are a paired t of seeds 0 to 7."""
    for row in pd.read_csv(ROOT / "experiments" / "claims" / "language_model.csv").to_dict("records"):
        folder, numbers = ROOT / row["source"], [row[f"effect{end}"] for end in ("", "_low", "_high")]
        if row["claim"] == "dapo_whole":
            scores = pd.read_parquet(folder / "frames" / "scores.parquet").query(
                "step > 0 and metric == 'avg' and seed < 8"
            )
            seeds = scores.pivot(index="seed", columns="arm", values="value")
            gains = 100 * (seeds["dapo_5_dynamic_sampling"] - seeds["dapo_0_naive_grpo"])
            bounds = ttest_1samp(gains, 0).confidence_interval()
            assert numbers == [round(value, 1) for value in (gains.mean(), *bounds)]
        else:
            table = pd.read_csv(folder / "tables" / f"{folder.name}.csv").dropna(subset="delta")
            found = (100 * table[["delta", "delta_low", "delta_high"]]).round(1).values.tolist()
            place = found.index(numbers if numbers in found else [-numbers[0], -numbers[2], -numbers[1]])
            assert table["delta_verdict"].iloc[place].replace("the margin", "3") == row["words"]


def test_the_two_regimes_are_compared_by_the_published_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "experiments" / "language_ladder" / "regimes.py"), run_name="__main__")
    lines = capsys.readouterr().out.strip().splitlines()
    page = (ROOT / "experiments" / "language_ladder" / "README.md").read_text(encoding="utf-8").replace("**", "")
    assert len(lines) == 6
    assert [line for line in lines if line.split("|", 2)[2] not in page] == []


@rows(__file__, "commands", "table, options, numbers")
def test_the_page_has_what_the_command_says(table, options, numbers):
    main = judge(FOLDER / f"{table}.csv", **options).tables[0]
    (column,) = (column for column in main.columns if column.key == "delta")
    texts = [cell_text(row[column.key], column) for row in main.rows if column.key in row]
    assert texts == [f"{number} {'not resolved' if '[−' in number else 'higher'}" for number in numbers]
    assert all(number.replace("[+2.3, +5.6]", "pp, 95 % CI [2.3, 5.6]") in PAGE for number in numbers)


def test_the_bootstrap_of_three_numbers_is_too_short():
    scores = pd.read_csv(FOLDER / "xling_grpo.csv")
    judged = judge(scores[scores["arm"].isin(["A3", "A4"])], baseline="A4", score="aime2024_maj8", margin=1)
    third = judged.primary[0].shown_estimate
    assert (third.value, third.low, third.high) == pytest.approx((5.556, -4.006, 15.117), abs=0.001)
