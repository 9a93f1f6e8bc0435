"""What tables and answer say of whether a mechanism was engaged."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest
from synthetic_store import RUNGS, build_store, loaded, relogged

from analysis.answer import answer_of
from analysis.effects import declared_effects
from analysis.engagement import Engagement
from analysis.results import Results
from analysis.tables.experiment import main_table
from analysis.tables.table import to_csv, to_frame, to_latex, to_markdown, to_terminal
from harness.engagement.measure import Measure

CLIP = Measure("released", ("algorithm.surrogate.clip_high",), "of tokens", ("clip_released_fraction",), 0.003, "a")
MASK = Measure("masked", ("algorithm.overlong.policy",), "of responses", ("masked_fraction",), 0.003, "b")
RATE = Measure("always", ("optimizer.learning_rate",))


def steps(**fields: list[float]) -> pd.DataFrame:
    return pd.DataFrame(fields)


def engagement(measures: Sequence[Measure], runs: Mapping[str, list[pd.DataFrame]]) -> Engagement:
    return Engagement(tuple(measures), tuple(measure.value(runs.get(measure.arm, ())) for measure in measures))


def test_each_measure_is_read_from_the_runs_of_the_arm_that_shows_it() -> None:
    runs = {
        "a": [steps(clip_released_fraction=[0.001, 0.003]), steps(clip_released_fraction=[0.006])],
        "b": [steps(masked_fraction=[0.001], clip_released_fraction=[0.9])],
    }
    found = engagement([CLIP, MASK], runs)
    assert found.values == pytest.approx((0.004, 0.001))
    assert found.text() == "released: 0.4 % of tokens; masked: 0.1 % of responses, hardly engaged"
    assert not found.hardly  # one of two mechanisms was engaged


def test_a_difference_is_hardly_engaged_where_all_of_it_is_measured_and_under_the_thresholds() -> None:
    runs = {"a": [steps(clip_released_fraction=[0.0002])], "b": [steps(masked_fraction=[0.0])]}
    both = engagement([CLIP, MASK], runs)
    assert both.hardly
    shares = "released: 0.02 % of tokens; masked: 0 % of responses"
    assert both.text(resolved=True) == shares
    for other in (RATE, Measure("", ("algorithm.advantage.ddof",))):
        assert not engagement([CLIP, other], runs).hardly
    assert engagement([CLIP, RATE], runs).text() == "released: 0.02 % of tokens, hardly engaged; always"


def test_what_no_run_says_is_left_out() -> None:
    nothing = engagement([CLIP, RATE], {"a": [steps(loss=[1.0])]})
    assert math.isnan(nothing.values[0])
    assert (nothing.text(), nothing.hardly) == ("always", False)
    assert engagement([], {}).text() == ""


def ladder(root: Path) -> Results:
    """Four rungs and two seeds: clip-higher hardly engaged, filtering well engaged, the last without a measure."""
    store = build_store(root, problems=8, steps=4, evaluate=(0, 4), seeds=(0, 1))
    plan = store.plan("ladder")
    names = [rung[0] for rung in RUNGS]
    for index, measure in ((1, MASK), (2, CLIP)):
        record = {**asdict(measure), "arm": names[index]}
        plan["arms"][index]["engagement"] = [record]
    for index, field, share in ((1, "masked_fraction", 0.14), (2, "clip_released_fraction", 0.0002)):
        for run_id in plan["arms"][index]["runs"].values():
            relogged(store.run(run_id), lambda _, fields={field: share}: fields)
    store.write_plan("ladder", plan)
    return loaded(root)


def test_the_main_table_has_the_column_beside_the_difference_in_every_form_and_the_answer_says_it(
    tmp_path: Path,
) -> None:
    results = ladder(tmp_path)
    table = main_table(results)
    keys = [column.key for column in table.columns]
    assert keys.index("engaged") == keys.index("delta") + 1
    cells = [row.get("engaged") for row in table.rows]
    assert cells == [None, None, "14 % of responses", "0.02 % of tokens, hardly engaged", None]
    assert "0.02 % of tokens, hardly engaged |" in to_markdown(table)
    assert r"& 0.02 \% of tokens, hardly engaged &" in to_latex(table, columns=["all"])
    assert '"0.02 % of tokens, hardly engaged"' in to_csv(table)
    assert "hardly engaged" in to_terminal(table, width=240)
    assert any("docs/objective/engagement.md" in note for note in table.notes)
    assert re.search(r"\] not tested \| 0.02 % of tokens, hardly engaged \|", to_markdown(table))
    assert to_frame(table)["delta_verdict"].tolist()[-2:] == ["not tested", "not resolved"]
    assert [effect.row["word"] for effect in declared_effects(results)][1] == "not tested"
    assert answer_of(results).lines[1].verdict == "not tested: 0.02 % of tokens"
    affected = [line.affected for line in answer_of(results).lines]
    assert affected == ["14 % of responses", "0.02 % of tokens, hardly engaged", ""]


@pytest.mark.parametrize("shown_by", ["clip", "base"])
@pytest.mark.parametrize(("with_mask", "verdict"), [(0.0002, "not tested: 0.02 % of tokens"), (0.04, "not resolved")])
def test_an_effect_whose_patch_hardly_acted_in_any_setting_is_not_tested(tmp_path, with_mask, verdict, shown_by):
    """Clip and mask crossed: the clip released next to nothing alone; what the runs with or without it show with the mask decides."""
    arms = {"base": [], "clip": [CLIP], "mask": [MASK], "mask+clip": [MASK, CLIP]}
    design = {"design": "factorial", "patches": [[], ["clip"], ["mask"], ["mask", "clip"]], "margin": 3.0}
    rungs = [(name, name, 0.5, 1.0) for name in arms]
    store = build_store(tmp_path, rungs=rungs, problems=8, steps=4, evaluate=(0, 4), seeds=range(4), **design)
    plan = store.plan("ladder")
    for arm, measures in zip(plan["arms"], arms.values(), strict=True):
        arm["engagement"] = [{**asdict(measure), "arm": shown_by} for measure in measures]
        released = with_mask if "mask" in arm["name"] else 0.0001
        for run_id in arm["runs"].values():
            fields = {"clip_released_fraction": released, "masked_fraction": 0.14}
            relogged(store.run(run_id), lambda _, fields=fields: fields)
    store.write_plan("ladder", plan)
    results = loaded(tmp_path)
    lines = {line.name: line for line in answer_of(results).lines}
    assert [lines[name].verdict for name in ("clip", "clip × mask", "mask")] == [verdict, verdict, "not resolved"]
    assert lines["mask"].affected == "14 % of responses"
    assert "14 % of responses" in [effect.engaged for effect in declared_effects(results)]
