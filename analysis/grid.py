"""Arms that form a grid: the settings that vary over them and the value each arm has."""

from __future__ import annotations

from typing import Any

from analysis.plan import Arm, Plan


def grid_axes(plan: Plan) -> dict[str, list[Any]] | None:
    """Setting to its sorted values, for arms that vary the same one or two settings; None where they do not.

    ``changes`` of an arm are ``{setting: [base value, own value]}``; a setting an arm leaves alone has the
    base value.
    """
    keys = sorted({key for arm in plan.arms for key in arm.changes})
    if plan.design != "arms" or not 1 <= len(keys) <= 2:
        return None
    points = [tuple(grid_value(plan, arm, key) for key in keys) for arm in plan.arms]
    if len(set(points)) < len(points) or len(points) < 3:
        return None
    return {key: _ordered([point[i] for point in points]) for i, key in enumerate(keys)}


def grid_value(plan: Plan, arm: Arm, key: str) -> Any:
    """The value of a setting in an arm."""
    if key in arm.changes:
        return arm.changes[key][-1]
    return next((other.changes[key][0] for other in plan.arms if key in other.changes), None)


def _ordered(values: list[Any]) -> list[Any]:
    distinct = list(dict.fromkeys(values))
    if all(isinstance(value, int | float) for value in distinct):
        return sorted(distinct)
    return distinct
