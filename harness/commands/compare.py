r"""Compare evaluations of the same problems, paired by problem: differences with intervals and verdicts, and where they differ most.

harness compare RUN_A RUN_B                          two runs, each at its last evaluation (RUN@STEP: at another)
harness compare RUN@0 RUN cap=32
harness compare FOLDER_A FOLDER_B@MODEL              what `harness evaluate` wrote
harness compare A.jsonl B.jsonl C.jsonl margin=3     recorded generations, also other tools', graded by our verifier

The first side is what the others are compared with. benchmark=NAME, margin=POINTS, ks=[1,8], match=id|problem, golds=FILE, out=FOLDER,
verifier=RULES (stored verdicts stand where all sides have them and no rules are given), runtime.results=DIR. Arms over their seeds are
what `harness report` answers.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands._arguments import Counter, VerbAnswer, find_run_step, may_be_run, take_values
from harness.commands.evaluate import RULES, ks_of, verifier_config
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError, nearest, require
from harness.configuration.identity import content_hash
from harness.store import ResultStore
from harness.store.atomic import write_file
from harness.store.foreign_text import csv_text
from harness.verify import MathVerifier

if TYPE_CHECKING:
    from harness.evaluation.paired import Comparison, Side

_KEYS = ("benchmark", "cap", "golds", "margin", "ks", "match", "out", "runtime.results", *RULES)
_MOST_ROWS = 10


ARGUMENTS = {"values": {"nargs": "+", "metavar": "A B", "help": "sides, then key=value; see above"}}


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """Evaluations compared with the first one, `reference`, on so many `problems`; `effects`: rows of `effects.csv` in `folder`."""

    reference: str
    problems: int
    effects: list[dict[str, Any]]
    notes: list[str]
    text: str
    folder: str


def answer(options: argparse.Namespace) -> Answer:
    from harness.evaluation.paired import compare
    from harness.evaluation.result import require_ks

    values, names = take_values(options.values, _KEYS, "compare", texts=("benchmark",))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigError("compare needs two different sides or more: harness compare A B")
    require("match", values.setdefault("match", "id or problem"), ["id", "problem", "id or problem"])
    for key in ("cap", "margin"):
        if not isinstance(values.get(key, 1), int | float) or not 0 < values.get(key, 1) < math.inf:
            raise ConfigError(f"{key}={values[key]} must be a finite number above 0")
    store = ResultStore(str(values.get("runtime.results") or compose_run([]).runtime.results))
    sides = _read(names, values, store)
    ks = ks_of(values.get("ks"))
    require_ks(ks or (), min(side.samples for side in sides))  # before they are graded
    rules = {key: value for key, value in values.items() if key in RULES}
    with MathVerifier(verifier_config({"verifier": "any", **rules})) as verifier:
        comparison = compare(
            _grade_sides(sides, verifier, bool(rules)),
            verifier,
            margin=None if "margin" not in values else values["margin"] / 100,
            ks=ks,
            by_text={"id": False, "problem": True}.get(values["match"]),
        )
    out = values.get("out") or store.root / "comparisons" / content_hash(names, {**values, "out": None})
    return _write_answer(comparison, Path(out))


def _read(names: Sequence[str], values: Mapping[str, Any], store: ResultStore) -> list[Side]:
    """The sides of these names; files and folders go by their last names alone where those differ."""
    from harness.evaluation.paired import read_side

    parts = [_part(name, store) for name in names]
    if "golds" in values and not any(Path(part).is_file() for part in parts):
        raise ConfigError(f"golds={values['golds']} is for files of samples, and no side is a file: leave it out")
    short_names = [Path(name).name if Path(name).exists() else name for name in names]
    labels = short_names if len(set(short_names)) == len(short_names) else names
    golds = Path(str(values["golds"])) if "golds" in values else None
    chosen: dict[str, Any] = {"benchmark": values.get("benchmark"), "cap": values.get("cap"), "golds": golds}
    sides = [read_side(label, part, store, **chosen) for part, label in zip(parts, labels, strict=True)]
    for line in [line for side in sides for line in side.remarks]:
        print(line)
    used = {
        "benchmark": any((side.frame["benchmark"] != "").any() for side in sides),
        "cap": any("max_response_tokens" in side.frame for side in sides),
    }
    if unused := [key for key in used if key in values and not used[key]]:
        raise ConfigError(f"{unused[0]}={values[unused[0]]}: recorded generations have no {unused[0]}; leave it out")
    return sides


def _grade_sides(sides: list[Side], verifier: MathVerifier, regrade: bool) -> list[Side]:
    """The sides with our verdicts: `regrade`, or where one has none; golds that no answer can match are named."""
    from harness.evaluation.stored import graded_frame

    if not regrade and all("correct" in side.frame for side in sides):
        if len({side.rules for side in sides if side.rules}) > 1:
            texts = "; ".join(f"{side.name}: {side.rules}" for side in sides)
            print(f"stored verdicts are by different rules ({texts}); verifier=any, say, grades all alike")
        return sides
    graded = (graded_frame(side.frame, verifier, Counter(f"verify {side.name}")) for side in sides)
    sides = [replace(side, frame=frame) for side, frame in zip(sides, graded, strict=True)]
    for side in sides:
        bad_ids = sorted(set(side.frame["problem_id"][side.frame["verdict"] == "gold_unparsable"]))
        if bad_ids:
            names = f"{', '.join(bad_ids[:_MOST_ROWS])}{' …' * (len(bad_ids) > _MOST_ROWS)}"
            print(f"{side.name}: golds that no answer can match: {names}")
    return sides


def _part(part: str, store: ResultStore) -> str:
    if Path(part).exists() or Path(part.partition("@")[0]).exists():
        return part
    key, equals, _ = part.partition("=")
    if equals:
        raise ConfigError(f"compare has no key {key!r}{nearest(key, [*_KEYS])}")
    if not may_be_run(part):
        name = part.partition("/")[0]
        arm = f"; its arms are answered by harness report experiment={name}" * (name in store.plans())
        raise ConfigError(f"{part}: no such file or folder, and no run of {store.root}{arm}")
    return find_run_step(store, part)


def show(result: Answer, options: argparse.Namespace) -> None:
    print(f"{result.text}\nwritten: {result.folder}")


def _write_answer(comparison: Comparison, out: Path) -> Answer:
    from analysis.comparison import comparison_effects, comparison_figure, comparison_table, notes_of
    from analysis.effects import effects_frame
    from analysis.figures.drawing import figure_style, save
    from analysis.tables.table import renderings, to_terminal, write_texts

    problems, effects = comparison.by_problem(), comparison_effects(comparison)
    table = comparison_table(comparison)
    write_texts(out, renderings([table]))
    for name, frame in (("problems", problems), ("effects", effects_frame(effects))):
        write_file(out / f"{name}.csv", csv_text(frame).encode())
    with figure_style("paper"):
        save(comparison_figure(comparison), out, "differences")
    sides = [*comparison.scores]
    apart = [
        f"  {row['problem_id']} (gold {row['gold'][-40:]!r}): {', '.join(f'{side} {100 * row[side]:.0f}' for side in sides)}"
        for row in problems.head(_MOST_ROWS).to_dict("records")
    ]
    head = f"where they differ most, % right (all: {out / 'problems.csv'}):"
    text = "\n".join([to_terminal(table).rstrip(), head, *apart])
    rows = [effect.row for effect in effects]
    return Answer(comparison.reference, len(problems), rows, notes_of(comparison), text, str(out))
