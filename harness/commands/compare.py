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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands._arguments import find_run, key_values
from harness.commands._counter import Counter
from harness.commands.evaluate import ks_of
from harness.commands.verify import RULES, verifier_config
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError, require
from harness.configuration.identity import content_hash
from harness.store import ResultStore
from harness.verify import MathVerifier

if TYPE_CHECKING:
    from harness.evaluation.paired import Comparison, Side

_KEYS = ("benchmark", "cap", "golds", "margin", "ks", "match", "out", "runtime.results", *RULES)
_HEX = re.compile(r"[0-9a-f]{4,16}")
_SHOWN = 10


ARGUMENTS = {"values": {"nargs": "+", "metavar": "A B", "help": "sides, then key=value; see above"}}


def run(options: argparse.Namespace) -> int:
    from harness.evaluation.paired import compare
    from harness.evaluation.sides import graded, is_graded, read_side

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
    print(
        "\n".join(line for side in sides for line in side.said), end="\n" * any(side.said for side in sides)
    )
    rules = {key: value for key, value in values.items() if key in RULES}
    with MathVerifier(verifier_config({"verifier": "any", **rules})) as verifier:
        if rules or not all(is_graded(side) for side in sides):
            sides = [graded(side, verifier, Counter(f"verify {side.name}")) for side in sides]
            for side in sides:
                bad = {
                    name
                    for run in side.runs
                    for name in run["problem_id"][run["verdict"] == "gold_unparsable"]
                }
                if bad:
                    print(
                        f"{side.name}: golds that no answer can match: {', '.join(sorted(bad)[:_SHOWN])}{' …' * (len(bad) > _SHOWN)}"
                    )
        found = compare(
            sides,
            verifier,
            margin=None if "margin" not in values else values["margin"] / 100,
            ks=ks_of(values.get("ks")),
            by_text={"id": False, "problem": True}.get(values["match"]),
        )
    out = values.get("out") or store.root / "comparisons" / content_hash(names, {**values, "out": None})
    show(found, sides, Path(out))
    return 0


def _parts(name: str, store: ResultStore) -> list[str]:
    """The evaluations that a side names: of an arm `EXPERIMENT/ARM` its finished runs, else what stands between commas."""
    experiment, _, arm = name.partition("/")
    if experiment in store.plans() and not Path(name).exists():
        arms = {one["name"]: one["runs"] for one in store.plan(experiment)["arms"]}
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
        raise ConfigError(
            f"{part}: no such file or folder, no run and no arm (EXPERIMENT/ARM) of {store.root}"
        )
    return f"{find_run(store, stem)}{at}{mark}"


def show(found: Comparison, sides: list[Side], out: Path) -> None:
    """Print the table, where the sides differ most and where graders disagree; write all of it."""
    import pandas as pd

    from analysis.comparison import comparison_figure, comparison_table
    from analysis.figures.style import save, styled
    from analysis.tables.files import write_table
    from analysis.tables.table import to_terminal
    from harness.evaluation.sides import disagreements

    table, problems = comparison_table(found), found.by_problem()
    print(to_terminal(table).rstrip())
    print("where they differ most, share right:")
    for row in problems.head(_SHOWN).to_dict("records"):
        shares = ", ".join(f"{side.name} {row[side.name]:.0%}" for side in sides)
        print(f"  {row['problem_id']} (gold {row['gold'][-40:]!r}): {shares}")
    differing = []
    for side in sides:
        rows, labelled = disagreements(side)
        differing.append(rows)
        if labelled:
            print(f"{side.name}: {len(rows)} of {labelled} recorded verdicts are others than ours")
            for row in rows.head(_SHOWN).to_dict("records"):
                print(f"  {_told(row)}")
    write_table(table, out, "comparison")
    problems.to_csv(out / "problems.csv", index=False)
    pd.concat(differing).to_csv(out / "disagreements.csv", index=False)
    with styled("paper"):
        save(comparison_figure(found), out, "differences")
    print(f"written: {out}")


def _told(row: Mapping[Any, Any]) -> str:
    theirs = "right" if row["label"] else "wrong"
    return (
        f"{row['problem_id']} sample {row['sample_index']}: recorded {theirs}, ours {row['verdict']} (answer {row['answer']!r}, "
        f"gold {row['gold'][-40:]!r})"
    )
