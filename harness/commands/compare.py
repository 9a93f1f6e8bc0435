r"""Compare evaluations of the same problems, paired by problem: differences with intervals and words, and where they differ most.

harness compare RUN_A RUN_B                          two runs, each at its last evaluation (RUN@STEP: at another)
harness compare RUN@0 RUN cap=32
harness compare mine/grpo mine/dapo                  two arms of an experiment, all finished seeds; or RUN,RUN,RUN for one side
harness compare FOLDER_A FOLDER_B@MODEL              what `harness evaluate` wrote
harness compare A.jsonl B.jsonl C.jsonl margin=3     recorded generations, also other tools', graded by our verifier

harness compare RUN_A RUN_B difficulty=RUN_C@0       also on problems that a third evaluation never, seldom, mostly or always solves

The first side is what the others are compared with. benchmark=NAME, margin=POINTS, ks=[1,8], match=id|problem, golds=FILE, out=FOLDER,
verifier=RULES (stored verdicts stand where all sides have them and no rules are given), runtime.results=DIR.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands._arguments import Counter, VerbAnswer, find_run_step, may_be_run, take_values
from harness.commands._values import Interval
from harness.commands.evaluate import RULES, ks_of, verifier_config
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError, nearest, require
from harness.configuration.identity import content_hash
from harness.store import ResultStore, layout
from harness.store.atomic import write_file
from harness.store.foreign_text import csv_text
from harness.verify import MathVerifier

if TYPE_CHECKING:
    from harness.evaluation.side_by_side import Comparison, Side

_KEYS = ("benchmark", "cap", "difficulty", "golds", "margin", "ks", "match", "out", "runtime.results", *RULES)
_MOST_ROWS = 10


ARGUMENTS = {"values": {"nargs": "+", "metavar": "A B", "help": "sides, then key=value; see above"}}


@dataclass(frozen=True)
class MetricComparison:
    """One metric of one side beside the first side, in per cent (tokens a response: in tokens)."""

    metric: str
    side: str
    first: float
    other: float
    difference: Interval


@dataclass(frozen=True)
class PassAtKComparison:
    """Difference of a side to the first in Pass@k for k = 1, 2, ..., points, with a band that holds at all k together.

    `over`: what the replicates are, problems or training runs. `above`, `below`: first and last k of ranges where the band excludes zero.
    """

    side: str
    over: str
    replicates: int
    level: float
    value: list[float]
    low: list[float | None]
    high: list[float | None]
    above: list[tuple[int, int]]
    below: list[tuple[int, int]]
    text: str


@dataclass(frozen=True)
class BandComparison:
    """A metric on the problems of one band of difficulty, in per cent; `difficulty`: how often the side that is not compared is right."""

    difficulty: str
    problems: int
    metric: str
    side: str
    first: float
    other: float
    difference: Interval


@dataclass(frozen=True)
class PointCost:
    """What a difference of one point in avg takes with 80 % power: problems at the present samples, or samples at the present problems.

    None where no number would do or none is known; `text` says which.
    """

    side: str
    problems: int | None
    samples: int | None
    text: str


@dataclass(frozen=True)
class ProblemShares:
    """A problem, and each side's share of right samples."""

    problem_id: str
    gold: str
    shares: dict[str, float]


@dataclass(frozen=True)
class VerdictDifference:
    """A sample whose recorded verdict is another one than ours."""

    problem_id: str
    sample_index: int
    recorded: bool
    verdict: str
    answer: str | None
    gold: str


@dataclass(frozen=True)
class GraderComparison:
    """Recorded verdicts of a side beside ours: how many differ of how many, and the first of them."""

    side: str
    differing: int
    labelled: int
    first: list[VerdictDifference]


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """Evaluations compared with the first one, `reference`.

    `problems`: number of those that all sides have. `pass_at_k`: of each further side, none with one sample a problem. `difficulty`: where
    `difficulty=` asks for it. `apart`: problems on which the sides differ most. `graders`: sides with recorded verdicts. `said`: what there
    was to say while the sides were read. `folder`: all of it as files.
    """

    reference: str
    problems: int
    metrics: list[MetricComparison]
    pass_at_k: list[PassAtKComparison]
    difficulty: list[BandComparison]
    power: list[PointCost]
    apart: list[ProblemShares]
    graders: list[GraderComparison]
    notes: list[str]
    said: list[str]
    text: str
    folder: str


def answer(options: argparse.Namespace) -> Answer:
    from harness.evaluation.result import require_ks
    from harness.evaluation.side_by_side import compare, fewest_samples

    values, names = take_values(options.values, _KEYS, "compare", texts=("benchmark", "difficulty"))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigError("compare needs two different sides or more: harness compare A B")
    require("match", values.setdefault("match", "id or problem"), ["id", "problem", "id or problem"])
    for key in ("cap", "margin"):
        if not isinstance(values.get(key, 1), int | float) or not 0 < values.get(key, 1) < math.inf:
            raise ConfigError(f"{key}={values[key]} must be a finite number above 0")
    store = ResultStore(str(values.get("runtime.results") or compose_run([]).runtime.results))
    difficulty_names = [values["difficulty"]] if values.get("difficulty") else []
    sides = _read([*names, *difficulty_names], values, store)
    ks = ks_of(values.get("ks"))
    require_ks(ks or (), fewest_samples(sides[: len(names)]))  # before they are graded
    rules = {key: value for key, value in values.items() if key in RULES}
    with MathVerifier(verifier_config({"verifier": "any", **rules})) as verifier:
        sides = _grade_sides(sides, verifier, bool(rules))
        compared_sides = sides[: len(names)]
        comparison = compare(
            compared_sides,
            verifier,
            margin=None if "margin" not in values else values["margin"] / 100,
            ks=ks,
            by_text={"id": False, "problem": True}.get(values["match"]),
            difficulty=sides[-1] if difficulty_names else None,
        )
    out = values.get("out") or store.root / "comparisons" / content_hash(names, {**values, "out": None})
    return _write_answer(comparison, compared_sides, Path(out))


def _read(names: Sequence[str], values: Mapping[str, Any], store: ResultStore) -> list[Side]:
    """The sides of these names; files and folders go by their last names alone where those differ."""
    from harness.evaluation.side_by_side import read_side

    parts = [_parts(name, store) for name in names]
    if "golds" in values and not any(Path(part).is_file() for side in parts for part in side):
        raise ConfigError(
            f"golds={values['golds']} is for files of samples without gold answers, and no side is a file: leave it out"
        )
    short_names = [Path(name).name if Path(name).exists() else name for name in names]
    sides = [
        read_side(
            label,
            side,
            store,
            benchmark=values.get("benchmark"),
            cap=values.get("cap"),
            golds=Path(str(values["golds"])) if "golds" in values else None,
        )
        for side, label in zip(parts, short_names if len(set(short_names)) == len(short_names) else names, strict=True)
    ]
    runs = [frame for side in sides for frame in side.runs]
    used = {
        "benchmark": any((frame["benchmark"] != "").any() for frame in runs),
        "cap": any("max_response_tokens" in frame for frame in runs),
    }
    if unused := [key for key in used if key in values and not used[key]]:
        raise ConfigError(
            f"{unused[0]}={values[unused[0]]} chooses among evaluations of models; recorded generations have no {unused[0]}: leave it out"
        )
    return sides


def _grade_sides(sides: list[Side], verifier: MathVerifier, regrade: bool) -> list[Side]:
    """The sides with our verdicts: `regrade`, or where one has none; golds that no answer can match are named."""
    from harness.evaluation.side_by_side import grade_side, is_graded, rules_of

    if not regrade and all(is_graded(side) for side in sides):
        rules = {side.name: " and ".join(sorted(rules_of(side))) for side in sides}
        if len({text for text in rules.values() if text}) > 1:
            texts = "; ".join(f"{name}: {text}" for name, text in rules.items())
            print(f"stored verdicts are by different rules ({texts}); verifier=any, say, grades all alike")
        return sides
    sides = [grade_side(side, verifier, Counter(f"verify {side.name}")) for side in sides]
    for side in sides:
        bad_ids = {name for run in side.runs for name in run["problem_id"][run["verdict"] == "gold_unparsable"]}
        if bad_ids:
            names = f"{', '.join(sorted(bad_ids)[:_MOST_ROWS])}{' …' * (len(bad_ids) > _MOST_ROWS)}"
            print(f"{side.name}: golds that no answer can match: {names}")
    return sides


def _parts(name: str, store: ResultStore) -> list[str]:
    """The evaluations that a side names: of an arm `EXPERIMENT/ARM` its finished runs, else what stands between commas."""
    experiment, _, arm = name.partition("/")
    if experiment in store.plans() and not Path(name).exists():
        arms = {record["name"]: record["runs"] for record in store.plan(experiment)["arms"]}
        require(f"arm of {experiment}", arm, list(arms))
        # A run that lost a file is refused where it is read; without it the arm would be another one.
        run_ids = [run for run in arms[arm].values() if store.run(run).status in ("finished", layout.INCOMPLETE)]
        if not run_ids:
            raise ConfigError(f"{name} has no finished run")
        return run_ids
    if not all(parts := name.split(",")):
        raise ConfigError(f"{name}: nothing stands at one side of a comma; write RUN,RUN without blanks")
    return [_part(part, store) for part in parts]


def _part(part: str, store: ResultStore) -> str:
    if Path(part).exists() or Path(part.partition("@")[0]).exists():
        return part
    key, equals, _ = part.partition("=")
    if equals:
        raise ConfigError(f"compare has no key {key!r}{nearest(key, [*_KEYS])}")
    if not may_be_run(part):
        raise ConfigError(f"{part}: no such file or folder, no run and no arm (EXPERIMENT/ARM) of {store.root}")
    return find_run_step(store, part)


def show(result: Answer, options: argparse.Namespace) -> None:
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


def _write_answer(comparison: Comparison, sides: list[Side], out: Path) -> Answer:
    import pandas as pd

    from analysis.comparison import comparison_figure, comparison_table, difficulty_table, notes_of
    from analysis.figures.curves import k_bands_plot
    from analysis.figures.drawing import figure_style, save
    from analysis.tables.pass_at_k import k_table
    from analysis.tables.table import to_terminal, write_table
    from harness.evaluation.side_by_side import disagreements

    problems, by_band = comparison.by_problem(), comparison.by_difficulty
    disagreement_rows = [(side.name, *disagreements(side)) for side in sides]
    tables = [comparison_table(comparison)]
    tables += [k_table(comparison.reference, comparison.k_bands)] if comparison.k_bands else []
    tables += [difficulty_table(comparison, by_band)] if by_band else []
    for table in tables:
        write_table(table, out, table.name)
    answers = pd.concat(rows for _, rows, _ in disagreement_rows)
    for name, frame in (("problems", problems), ("disagreements", answers)):
        write_file(out / f"{name}.csv", csv_text(frame).encode())
    with figure_style("paper"):
        save(comparison_figure(comparison), out, "differences")
        if comparison.k_bands:
            save(k_bands_plot(comparison.reference, comparison.k_bands), out, "k-bands")
    problem_shares = [
        ProblemShares(str(row["problem_id"]), str(row["gold"]), {side.name: float(row[side.name]) for side in sides})
        for row in problems.head(_MOST_ROWS).to_dict("records")
    ]
    graders = [
        GraderComparison(name, len(rows), total, [_verdict(row) for row in rows.head(_MOST_ROWS).to_dict("records")])
        for name, rows, total in disagreement_rows
        if total
    ]
    pass_at_k, power = _pass_at_k(comparison), _power(comparison)
    sentences = [*(one.text for one in pass_at_k), *(one.text for one in power)]
    return Answer(
        comparison.reference,
        len(problems),
        _metrics(comparison),
        pass_at_k,
        _bands(comparison),
        power,
        problem_shares,
        graders,
        notes_of(comparison),
        [line for side in sides for line in side.remarks],
        "\n".join([*(to_terminal(table).rstrip() for table in tables), *sentences]),
        str(out),
    )


def _metrics(comparison: Comparison) -> list[MetricComparison]:
    from analysis.comparison import compared_values, scale_of

    return [
        MetricComparison(metric, side, scale * first, scale * other, Interval.of(difference, scale))
        for side, metric, first, other, difference in compared_values(comparison)
        for scale in [scale_of(metric)]
    ]


def _pass_at_k(comparison: Comparison) -> list[PassAtKComparison]:
    from analysis.tables.pass_at_k import k_sentence

    return [
        PassAtKComparison(
            side,
            one.over,
            one.band.replicates,
            one.band.level,
            (100 * one.band.value_K).tolist(),
            (100 * one.band.low_K).tolist(),
            (100 * one.band.high_K).tolist(),
            one.band.above,
            one.band.below,
            k_sentence(side, one),
        )
        for side, one in comparison.k_bands.items()
    ]


def _bands(comparison: Comparison) -> list[BandComparison]:
    rows = comparison.by_difficulty.rows if comparison.by_difficulty else ()
    return [
        BandComparison(
            **{
                **vars(row),
                "first": 100 * row.first,
                "other": 100 * row.other,
                "difference": Interval.of(row.difference, 100),
            }
        )
        for row in rows
    ]


def _power(comparison: Comparison) -> list[PointCost]:
    from analysis.comparison import cost_sentence

    return [
        PointCost(side, cost.problems if cost else None, cost.samples if cost else None, cost_sentence(side, cost))
        for side, cost in comparison.point_costs.items()
    ]


def _verdict(row: Mapping[Any, Any]) -> VerdictDifference:
    answer = row["answer"]
    return VerdictDifference(
        str(row["problem_id"]),
        int(row["sample_index"]),
        bool(row["label"]),
        str(row["verdict"]),
        None if answer is None or answer != answer else str(answer),
        str(row["gold"]),
    )


def _verdict_text(row: VerdictDifference) -> str:
    label = "right" if row.recorded else "wrong"
    return (
        f"{row.problem_id} sample {row.sample_index}: recorded {label}, ours {row.verdict} (answer {row.answer!r}, "
        f"gold {row.gold[-40:]!r})"
    )
