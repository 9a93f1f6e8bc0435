"""The record of all published effects: claims and declared comparisons as one row each, and a forest plot beside papers' own numbers.

``python experiments/effects/effects.py`` reads ``results/published`` and ``experiments/claims/effects.csv`` and writes ``effects.csv``,
``effects.parquet`` and ``forest.png`` beside itself.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from analysis.claims.record import Effect, joined, read_effects, write_effects
from matplotlib.figure import Figure

from analysis.figures.style import legend_below, new_figure, save, styled
from analysis.tables.published import matching_arm, read_reference
from harness.configuration.compose import options
from harness.experiment.plan import Plan, PlannedArm
from harness.experiment.planning import make_plan

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_SEARCHES = {"clip_lr_search"}  # they compare nothing
_PARTS = {"main-effects": "main effect", "interactions": "interaction"}


def comparisons(published: Path) -> Iterator[Effect]:
    """Rows of every published experiment: arms against what they are compared with, then main effects and interactions."""
    for folder in sorted(path for path in published.glob("*/tables") if path.is_dir()):
        for name in sorted(
            {path.stem for path in folder.glob("*.csv")} & {*options("experiment")} - _SEARCHES
        ):
            plan = Plan.read(make_plan([f"experiment={name}"]).record())
            yield from _of_arms(folder, plan)
            for part, title in _PARTS.items():
                for row in _rows(folder / f"{name}-{part}.csv"):
                    yield _effect(folder, plan, row, "effect", system=row["patch"], reference=title)


def _of_arms(folder: Path, plan: Plan) -> Iterator[Effect]:
    labels, theirs = {arm.label: arm for arm in plan.arms}, reported(plan)
    costs = {row["arm"]: row for row in _rows(folder / "cost.csv")}
    for row in _rows(folder / f"{plan.name}.csv"):
        label = row["arm"].removesuffix(" †").removesuffix(" ‡")
        arm = labels.get(label)
        reference = plan.reference_of(arm) if arm else None
        if arm is None or reference is None or not row.get("delta"):
            continue
        told = theirs.get(arm.name, math.nan) - theirs.get(reference.name, math.nan)
        made = [costs[one] for one in (arm.label, reference.label) if one in costs]
        spent = {
            key: sum(float(one[column]) * int(one["seeds"].split("/")[0]) for one in made) / scale
            if len(made) == 2
            else math.nan
            for key, column, scale in (("tokens", "tokens", 1), ("hours", "total", 3600))
        }
        yield _effect(
            folder, plan, row, "delta", system=arm.label, reference=reference.label, published=told, **spent
        )


def _effect(folder: Path, plan: Plan, row: Mapping[str, str], key: str, **more: str | float) -> Effect:
    """A row of a table as a row of the record; values as shown."""
    scale = plan.metrics[0].scale

    def number(column: str, by: float = 1.0) -> float:
        return by * float(row[f"{key}_{column}"]) if row.get(f"{key}_{column}") else math.nan

    seeds = int(number("seeds"))
    told = more.get("published", math.nan)
    source = plan.reference or "" if isinstance(told, float) and not math.isnan(told) else ""
    return Effect.of(
        {
            "experiment": folder.parent.name,
            "title": plan.title,
            "regime": _regime(plan),
            "metric": plan.metrics[0].name,
            "unit": plan.metrics[0].unit,
            "seeds": joined(plan.seeds) if seeds == len(plan.seeds) else f"{seeds} seeds",
            "effect": scale * float(row[key]),
            "low": number("low", scale),
            "high": number("high", scale),
            "level": number("level"),
            "margin": number("margin", scale),
            "words": row.get(f"{key}_verdict", ""),
            "engagement": row.get("engaged", ""),
            "published_source": source,
            **more,
        }
    )


def reported(plan: Plan) -> dict[str, float]:
    """The level that a paper reports of each arm, in per cent; the first where it reports several."""
    found: dict[str, float] = {}
    for row in read_reference(plan, ROOT):
        arm: PlannedArm | None = matching_arm(plan, row["arm"])
        if arm is not None and row["unit"] == "%":
            found.setdefault(arm.name, float(row["value"]))
    return found


def _regime(plan: Plan) -> str:
    presets = {
        item.partition("=")[2] for arm in plan.arms for item in arm.overrides if item.startswith("preset=")
    }
    return " ".join(sorted(presets)) or "default"


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def forest(rows: Sequence[Effect]) -> Figure:
    """Ours with interval, the paper's own step beside it. Another model and task: signs and order may be compared, sizes may not."""
    shown = [row for row in rows if not math.isnan(row.published)]
    figure, axes = new_figure(wide=True, height=0.8 + 0.14 * len(shown))
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    for y, row in enumerate(shown):
        axes.plot([row.low, row.high], [y, y], color="#0072B2", linewidth=1.3)
        ours = axes.scatter([row.effect], [y], color="#0072B2", s=16, zorder=3, label="testbed")
        theirs = axes.scatter(
            [row.published], [y], marker="D", facecolors="white", edgecolors="#D55E00", s=18, zorder=3
        )
    labels = [f"{re.sub('^[+] ', '', row.system)} ({row.experiment})" for row in shown]
    axes.set_yticks(range(len(shown)), labels)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("points (ours: 95 % simultaneous interval; the papers': one run, AIME 2024, 32B)")
    if shown:
        legend_below(figure, [ours, theirs], ["testbed", "paper"])
    return figure


def main() -> int:
    """Write the record and the figure; print how many rows each part has."""
    claims = read_effects(ROOT / "experiments" / "claims" / "effects.csv")
    others = list(comparisons(ROOT / "results" / "published"))
    rows = [*claims, *others]
    write_effects(rows, HERE / "effects")
    with styled("paper"):
        save(forest(rows), HERE, "forest", ["png"])
    told = sum(not math.isnan(row.published) for row in rows)
    print(f"{len(claims)} looks at claims, {len(others)} comparisons, {told} with a paper's number")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
