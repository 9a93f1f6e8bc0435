r"""Compare evaluations of the same problems, paired by problem: differences with intervals and words, and where they differ most.

harness compare RUN_A RUN_B                          two runs, each at its last evaluation (RUN@STEP: at another)
harness compare RUN@0 RUN cap=32
harness compare mine/grpo mine/dapo                  two arms of an experiment, all finished seeds; or RUN,RUN,RUN for one side
harness compare FOLDER_A FOLDER_B@MODEL              what `harness evaluate` wrote
harness compare A.jsonl B.jsonl C.jsonl margin=3     recorded generations, also other tools', graded by our verifier

The first side is what the others are compared with. benchmark=NAME, margin=POINTS, ks=[1,8], match=id|problem, golds=FILE, out=FOLDER,
verifier=RULES (stored verdicts stand where all sides have them and no rules are given), runtime.results=DIR.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.values import Interval
from harness.commands._arguments import Counter, VerbAnswer, find_run, key_values
from harness.commands._verifier_rules import RULES, verifier_config
from harness.commands.evaluate import ks_of
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError, require
from harness.configuration.identity import content_hash
from harness.store import ResultStore
from harness.verify import MathVerifier

if TYPE_CHECKING:
    from harness.evaluation.side_by_side import Comparison, Side

_KEYS = ("benchmark", "cap", "golds", "margin", "ks", "match", "out", "runtime.results", *RULES)
_HEX = re.compile(r"[0-9a-f]{4,16}")
_SHOWN = 10


ARGUMENTS = {"values": {"nargs": "+", "metavar": "A B", "help": "sides, then key=value; see above"}}


@dataclass(frozen=True)
class MetricCompared:
    """One metric of one side beside the first side, in per cent (tokens a response: in tokens)."""

    metric: str
    side: str
    first: float
    other: float
    difference: Interval


@dataclass(frozen=True)
class ProblemCompared:
    """A problem, and each side's share of right samples."""

    problem_id: str
    gold: str
    shares: dict[str, float]


@dataclass(frozen=True)
class VerdictCompared:
    """A sample whose recorded verdict is another one than ours."""

    problem_id: str
    sample_index: int
    recorded: bool
    verdict: str
    answer: str | None
    gold: str


@dataclass(frozen=True)
class Graded:
    """Recorded verdicts of a side beside ours: how many differ of how many, and the first of them."""

    side: str
    differing: int
    labelled: int
    first: list[VerdictCompared]


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """Evaluations compared with the first one, `reference`.

    `problems`: number of those that all sides have. `apart`: those on which the sides differ most. `graders`: sides with recorded verdicts.
    `said`: what there was to say while the sides were read. `folder`: all of it as files.
    """

    reference: str
    problems: int
    metrics: list[MetricCompared]
    apart: list[ProblemCompared]
    graders: list[Graded]
    notes: list[str]
    said: list[str]
    text: str
    folder: str


def answer(options: argparse.Namespace) -> Answer:
    """Read and grade the sides, compare them, and write the tables and the figure."""
    from harness.evaluation.side_by_side import compare, graded, is_graded, read_side

    given = [item for item in options.values if item.partition("=")[0] in _KEYS]
    names = [item for item in options.values if item not in given]
    values = key_values(given, _KEYS, "compare", texts=("benchmark",))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigError("compare needs two different sides or more: harness compare A B")
    require("match", values.setdefault("match", "id or problem"), ["id", "problem", "id or problem"])
    for key in ("cap", "margin"):
        if not isinstance(values.get(key, 1), int | float) or values.get(key, 1) <= 0:
            raise ConfigError(f"{key}={values[key]} must be a number above 0")
    store = ResultStore(str(values.get("runtime.results") or compose_run([]).runtime.results))
    # Files and folders go by their names alone where those differ.
    short = [Path(name).name if Path(name).exists() else name for name in names]
    sides = [
        read_side(
            shown,
            _parts(name, store),
            store,
            benchmark=values.get("benchmark"),
            cap=values.get("cap"),
            golds=Path(str(values["golds"])) if "golds" in values else None,
        )
        for name, shown in zip(names, short if len(set(short)) == len(short) else names, strict=True)
    ]
    rules = {key: value for key, value in values.items() if key in RULES}
    with MathVerifier(verifier_config({"verifier": "any", **rules})) as verifier:
        if rules or not all(is_graded(side) for side in sides):
            sides = [graded(side, verifier, Counter(f"verify {side.name}")) for side in sides]
            for side in sides:
                bad = {name for run in side.runs for name in run["problem_id"][run["verdict"] == "gold_unparsable"]}
                if bad:
                    print(
                        f"{side.name}: golds that no answer can match: {', '.join(sorted(bad)[:_SHOWN])}{' …' * (len(bad) > _SHOWN)}"
                    )
        comparison = compare(
            sides,
            verifier,
            margin=None if "margin" not in values else values["margin"] / 100,
            ks=ks_of(values.get("ks")),
            by_text={"id": False, "problem": True}.get(values["match"]),
        )
    out = values.get("out") or store.root / "comparisons" / content_hash(names, {**values, "out": None})
    return _written(comparison, sides, Path(out))


def _parts(name: str, store: ResultStore) -> list[str]:
    """The evaluations that a side names: of an arm `EXPERIMENT/ARM` its finished runs, else what stands between commas."""
    experiment, _, arm = name.partition("/")
    if experiment in store.plans() and not Path(name).exists():
        arms = {record["name"]: record["runs"] for record in store.plan(experiment)["arms"]}
        require(f"arm of {experiment}", arm, list(arms))
        done = [run_id for run_id in arms[arm].values() if store.run(run_id).status == "finished"]
        if not done:
            raise ConfigError(f"{name} has no finished run")
        return done
    return [_part(part, store) for part in name.split(",")]


def _part(part: str, store: ResultStore) -> str:
    stem, at, mark = part.partition("@")
    if Path(part).exists() or Path(stem).exists():
        return part
    if not _HEX.fullmatch(stem):
        raise ConfigError(f"{part}: no such file or folder, no run and no arm (EXPERIMENT/ARM) of {store.root}")
    return f"{find_run(store, stem)}{at}{mark}"


def show(result: Answer, options: argparse.Namespace) -> None:
    """Print the table, where the sides differ most and where graders disagree."""
    print("\n".join([*result.said, result.text]))
    print("where they differ most, share right:")
    for row in result.apart:
        shares = ", ".join(f"{side} {share:.0%}" for side, share in row.shares.items())
        print(f"  {row.problem_id} (gold {row.gold[-40:]!r}): {shares}")
    for side in result.graders:
        print(f"{side.side}: {side.differing} of {side.labelled} recorded verdicts are others than ours")
        for verdict in side.first:
            print(f"  {_verdict_text(verdict)}")
    print(f"written: {result.folder}")


def _written(comparison: Comparison, sides: list[Side], out: Path) -> Answer:
    """Write table, problems, disagreements and figure, and return what they say."""
    import pandas as pd

    from analysis.api import comparison_figure, comparison_table, notes_of, scale_of
    from analysis.figures.drawing import save, styled
    from analysis.tables.table import to_terminal, write_table
    from harness.evaluation.side_by_side import disagreements

    table, problems, notes = comparison_table(comparison), comparison.by_problem(), notes_of(comparison)
    differing = [(side.name, *disagreements(side)) for side in sides]
    write_table(table, out, "comparison")
    problems.to_csv(out / "problems.csv", index=False)
    pd.concat(rows for _, rows, _ in differing).to_csv(out / "disagreements.csv", index=False)
    with styled("paper"):
        save(comparison_figure(comparison), out, "differences")
    metrics = []
    for side, differences in comparison.differences.items():
        for metric, difference in differences.items():
            scale = scale_of(metric)
            first, other = (
                scale * float(comparison.scores[name][metric].mean()) for name in (comparison.reference, side)
            )
            metrics.append(MetricCompared(metric, side, first, other, Interval.of(difference, scale)))
    apart = [
        ProblemCompared(str(row["problem_id"]), str(row["gold"]), {side.name: float(row[side.name]) for side in sides})
        for row in problems.head(_SHOWN).to_dict("records")
    ]
    graders = [
        Graded(name, len(rows), labelled, [_verdict(row) for row in rows.head(_SHOWN).to_dict("records")])
        for name, rows, labelled in differing
        if labelled
    ]
    lines = [line for side in sides for line in side.said]
    text = to_terminal(table).rstrip()
    return Answer(comparison.reference, len(problems), metrics, apart, graders, notes, lines, text, str(out))


def _verdict(row: Mapping[Any, Any]) -> VerdictCompared:
    answer = row["answer"]
    return VerdictCompared(
        str(row["problem_id"]),
        int(row["sample_index"]),
        bool(row["label"]),
        str(row["verdict"]),
        None if answer is None or answer != answer else str(answer),
        str(row["gold"]),
    )


def _verdict_text(row: VerdictCompared) -> str:
    theirs = "right" if row.recorded else "wrong"
    return (
        f"{row.problem_id} sample {row.sample_index}: recorded {theirs}, ours {row.verdict} (answer {row.answer!r}, "
        f"gold {row.gold[-40:]!r})"
    )
