"""Grids of settings with their labels, and what is near their best cell."""

import itertools
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import pandas as pd
import yaml

from analysis.results import Results
from harness.evaluation.metrics.names import HIGHER
from harness.experiment.plan import Plan, PlannedArm

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Grid:
    """Arms by two settings: the keys and values of its rows and columns, and the arm of each pair of values."""

    row_key: str
    rows: list[Any]
    column_key: str
    columns: list[Any]
    arms: dict[tuple[Any, Any], PlannedArm]


def grid_of(plan: Plan) -> Grid | None:
    """Return the grid that the arms form over two settings; None where they fill less than half of one, as the trials of a search do.

    ``changes`` of an arm are ``{setting: [base value, own value]}``; a setting an arm leaves alone has the base
    value. Where they are no grid (a chosen group member changes many settings), overrides ``setting=value`` are compared.
    """
    if plan.design != "arms" or len(plan.arms) < 3:
        return None
    overridden = {key for arm in plan.arms for key in _overrides(arm)}
    settings = _two_settings(plan, {key for arm in plan.arms for key in (arm.changes or _overrides(arm))})
    settings = _two_settings(plan, overridden) if settings is None else settings
    if settings is None:
        return None
    (row, rows), (column, columns) = ((str(key), _sort_values(values.tolist())) for key, values in settings.items())
    if 2 * len(plan.arms) < len(rows) * len(columns):
        return None
    points = settings.itertuples(index=False, name=None)
    return Grid(row, rows, column, columns, dict(zip(points, plan.arms, strict=True)))


def _two_settings(plan: Plan, keys: Iterable[str]) -> pd.DataFrame | None:
    """The values of the two settings that vary, a row an arm; None where another number of them does, or two arms are alike."""
    rows = [{key: _value(plan, arm, key) for key in sorted(keys)} for arm in plan.arms]
    settings = pd.DataFrame(rows, dtype=object)
    settings = settings.loc[:, settings.map(str).nunique() > 1]
    return None if settings.shape[1] != 2 or settings.map(str).duplicated().any() else settings


def _value(plan: Plan, arm: PlannedArm, key: str) -> Any:
    """The value of a setting in an arm, a list as an override spells it; None where nothing says it."""
    overrides = _overrides(arm)
    if key in overrides:
        return overrides[key]
    base = next((other.changes[key][0] for other in plan.arms if key in other.changes), None)
    value = arm.changes[key][-1] if key in arm.changes else base
    return f"[{','.join(map(str, value))}]" if isinstance(value, list) else value


def near_best(results: Results) -> tuple[str, frozenset[str]] | None:
    """The best arm, and the arms whose difference to it is not resolved.

    Which arm is best is an outcome, so every pair of arms counts in the family: whichever turns out best, its comparisons hold together.
    A pair that the experiment declared has its answer there, so that one report never has two.
    None without scores, in a metric that has no better direction, and where results stop the seeds.
    With one seed nothing is resolved, so every arm is near the best.
    """
    plan = results.experiment.plan
    scores = {arm.name: values for arm in plan.arms if (values := results.values(arm))}
    # Over the seeds that pairs are over: an arm that has the easy seeds alone is not the best.
    seeds = set.intersection(*map(set, scores.values())) if plan.paired and scores else set[int]()
    means = {name: statistics.fmean(values[seed] for seed in seeds or values) for name, values in scores.items()}
    if not means or not results.metric.better or plan.stopped_by_results:
        return None
    best = (max if results.metric.better == HIGHER else min)(means, key=means.__getitem__)
    pairs = {frozenset((a.name, b.name)): (a, b) for a, b in itertools.combinations(plan.arms, 2)}
    differences = results.differences({"+".join(sorted(pair)): arms for pair, arms in pairs.items()})
    resolved_pairs = [{a.name, b.name} for a, b in plan.comparisons if results.declared[a.name].resolved]
    open_pairs = [
        pair
        for pair in pairs
        if best in pair and pair <= means.keys() and pair not in resolved_pairs
        if not differences["+".join(sorted(pair))].resolved
    ]
    return best, frozenset().union(*open_pairs) - {best}


def _overrides(arm: PlannedArm) -> dict[str, Any]:
    pairs = (item.lstrip("+").partition("=") for item in arm.overrides)
    values = {key: value for key, _, value in pairs if key != "seed"}
    numbers = {key: float(value) for key, value in values.items() if _NUMBER.fullmatch(value)}
    integers = {key: int(values[key]) for key in numbers if values[key].lstrip("+-").isdigit()}
    return {**values, **numbers, **integers}


def _sort_values(values: list[Any]) -> list[Any]:
    distinct = list(dict.fromkeys(values))
    return sorted(distinct) if all(isinstance(value, int | float) for value in distinct) else distinct


@cache
def _labels() -> dict[str, dict[str, Any]]:
    """Names of settings and of their values, as `labels.yaml` has them."""
    text = resources.files("analysis").joinpath("labels.yaml").read_text(encoding="utf-8")
    labels: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return labels


def key_label(key: str) -> str:
    """Name a setting: ``upper clip bound``; one without an entry by the end of its key."""
    key = key.replace("/", ".")
    return _labels()["settings"].get(key, key.rpartition(".")[2].replace("_", " "))


def setting_label(key: str, value: Any) -> str:
    """Write a value of a setting in a sentence: ``left out of the loss``, ``0.28``."""
    text = f"{value:g}" if isinstance(value, float) else str(value).replace("_", " ")
    return _labels()["values"].get(key, {}).get(str(value)) or text
