"""Arms at their best: what values the trials of a tuned comparison have chosen, and how sharp each optimum is."""

from collections.abc import Mapping

from analysis.designs import key_label
from analysis.results import Results
from analysis.tables.table import Cell, Column, Table
from analysis.tables.words import experiment_table
from harness.experiment.plan import Part, Plan
from harness.experiment.tuning import choice_note

Scores = Mapping[str, float | None]


def tuning_sentences(plan: Plan) -> list[str]:
    """Say that each arm is at its best and of what, whose best lies at the edge of what was tried, and what the trials share."""
    part = plan.tuning
    if part is None or part.scores is None:
        return []
    choice = part.sets.removeprefix("each arm's ")
    sentences = [f"Each arm is at its {choice}.", choice_note(part)]
    edges = [f"{plan.arm(name).plain_label} ({', '.join(items)})" for name, items in _edges(part).items() if items]
    if edges:
        sentences.append(f"At the edge of what was tried: {'; '.join(edges)}.")
    if plan.base_policies is not None:
        own, trials = ({seed % plan.base_policies for seed in seeds} for seeds in (plan.seeds, part.seeds))
        if shared_count := len(own & trials):
            sentences.append(f"Trials and comparison share {shared_count} of {plan.base_policies} base policies.")
    return sentences


def tuning_table(results: Results) -> Table | None:
    """Make the table of the trials: the mean score of each arm at each value, the one it takes, and its lead over the next best."""
    plan, part = results.experiment.plan, results.experiment.plan.tuning
    if part is None or part.scores is None:
        return None
    points = list(dict.fromkeys(point for scores in part.scores.values() for point in scores))
    rows = []
    for name, scores in part.scores.items():
        row: dict[str, Cell] = {"arm": plan.arm(name).label, "best": point_label(_chosen(part, name))}
        known = sorted((score for score in scores.values() if score is not None), reverse=True)
        row["lead"] = known[0] - known[1] if len(known) > 1 else None  # how sharp the optimum is
        row |= {f"point_{points.index(point)}": mean for point, mean in scores.items()}
        rows.append(row)
    columns = [
        Column("arm", "arm"),
        Column("best", "takes"),
        Column("lead", "lead over the next best", plan.score.digits, plan.score.scale),
        *(
            Column(f"point_{i}", point_label(point), plan.score.digits, plan.score.scale)
            for i, point in enumerate(points)
        ),
    ]
    notes = [*tuning_sentences(plan), "Means over the trials' seeds; an empty cell is a value at which a run failed."]
    return experiment_table(results, "tuning", "trials", columns, rows, notes)


def _chosen(part: Part, name: str) -> str:
    return " ".join((part.settings or {})[name])


def point_label(point: str) -> str:
    """A combination of tried values as a reader says it."""
    pairs = (item.partition("=") for item in point.split(" "))
    return ", ".join(f"{key_label(key)} {value}" for key, _, value in pairs)


def _edges(part: Part) -> dict[str, list[str]]:
    """Arm → those of its values that are the least or the most of the numbers that were tried."""
    tried: dict[str, set[float]] = {}
    for key, value in (
        item.split("=", 1) for scores in (part.scores or {}).values() for point in scores for item in point.split(" ")
    ):
        tried.setdefault(key, set()).update(_number(value))
    found: dict[str, list[str]] = {}
    for name in part.scores or {}:
        for key, value in (item.split("=", 1) for item in _chosen(part, name).split(" ")):
            at_edge = any(number in (min(tried[key]), max(tried[key])) for number in _number(value))
            found.setdefault(name, []).extend([f"{key_label(key)} {value}"] * at_edge)
    return found


def _number(text: str) -> set[float]:
    try:
        return {float(text)}
    except ValueError:
        return set()
