"""Judge anybody's final scores: differences to a baseline with simultaneous intervals, verdicts, tables for a paper, one page.

harness judge scores.csv                              arm, seed, benchmark, score: CSV, TSV, JSON or JSONL
harness judge scores.csv baseline=grpo margin=1       margin: the difference that does not matter, in the unit that is shown
harness judge runs.csv arm=method by=model score=math500,aime24   a column a benchmark, judged apart by model
harness judge scores.csv baseline=above               each arm against the one above it, as in a ladder
harness judge wandb_runs.csv where.State=finished arm=algorithm score=eval/accuracy     wandb's runs; a chart needs no names

Columns that are not named are known by usual names, and that is told. arm=, seed=, score=, by=, benchmark=: columns. where.COLUMN=: only
these rows. evaluation_seed=COLUMN: repeated evaluations of a run, averaged, are no runs. baseline=: an arm, or one for each group.
pair=seed: over the seeds that both have; pair=none; else seed by seed where both have the same. unit=percent, fraction, raw.
better=lower: a loss or an error rate. out=FOLDER and columns=KEYS as in `harness report`; formats=pdf: the figure's, pdf, png or svg.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.commands._answer import formats_of
from harness.commands._arguments import VerbAnswer, key_values, listed_names
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError

_COLUMNS = ("arm", "seed", "score", "baseline", "by", "benchmark", "unit", "evaluation_seed")
_KEYS = (*_COLUMNS, "pair", "better", "margin", "out", "columns", "formats", "name")

ARGUMENTS = {"values": {"nargs": "+", "metavar": "FILE", "help": "the table, then key=value; see above"}}


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """What a table of scores says: rows of `effects.csv`, the answer in sentences, how it was read (`notes`), the files below `folder`."""

    effects: list[dict[str, Any]]
    sentences: list[str]
    notes: list[str]
    text: str
    folder: str
    written: list[str]


def answer(options: argparse.Namespace) -> Answer:
    from analysis.judgement import judge

    files = [item for item in options.values if "=" not in item or Path(item).exists()]
    arguments = [item for item in options.values if item not in files]
    if len(files) != 1:
        raise ConfigError("judge takes one table: harness judge scores.csv")
    where = dict(item.removeprefix("where.").split("=", 1) for item in arguments if item.startswith("where."))
    plain = [item for item in arguments if not item.startswith("where.")]
    values = key_values(plain, _KEYS, "judge", texts=(*_COLUMNS, "pair", "better", "columns", "formats", "name"))
    formats, margin = formats_of(values.get("formats", "pdf") or ""), values.get("margin")
    if margin is not None and not isinstance(margin, int | float):
        raise ConfigError(f"margin={margin} must be a number above 0, in the unit that is shown")
    path = Path(files[0])
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file")
    settings: dict[str, Any] = {key: values[key] for key in (*_COLUMNS, "better", "pair") if values.get(key)}
    settings |= {key: listed_names(values[key]) for key in ("score", "by") if key in settings}
    folder = Path(values.get("out") or Path(compose_run([]).runtime.results) / "judged" / path.stem)
    try:
        judgement = judge(path, name=values.get("name", ""), margin=margin, where=where, **settings)
        paths = judgement.write(folder, formats=formats, columns=listed_names(values.get("columns")))
    except ValueError as error:  # of the table or the margin
        raise ConfigError(str(error)) from error
    rows = [effect.row for effect in (*judgement.primary, *judgement.by_benchmark)]
    return Answer(rows, judgement.sentences, judgement.notes, judgement.text(), str(folder), list(map(str, paths)))


def show(result: Answer, options: argparse.Namespace) -> None:
    print(result.text)
    print(f"written: {result.folder} (the page: report.html)")
