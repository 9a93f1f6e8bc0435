"""Write the tables, figures and page of an experiment again, from the store alone.

harness report experiment=NAME                    the page, the main table, the main figures, the methods paragraph
harness report experiment=NAME figures=all tables=all   every figure and table that its runs have data for
harness report experiment=NAME only=table         print the answer and write nothing
harness report logs=FILE,FILE out=DIR             curves of TRL's trainer_state.json, verl's JSONL or a wandb export, and nothing else

only: all, table, tables, figures, methods (paragraph and BibTeX), page. figures, tables: main, all.
formats: pdf,png (and svg). out: a folder. columns of LaTeX tables: keys such as score,delta,engaged, or all; without it score and
difference. style: paper, screen, or the width of icml, neurips, iclr, acl.
"""

import argparse

from harness.commands._answer import Report, formats_of, report_of, show_report
from harness.commands._arguments import require_one_experiment, select, take_values
from harness.commands._logs import draw_logs
from harness.configuration.error import ConfigError, require

_CHOICES = {
    "only": ("all", "table", "tables", "figures", "methods", "page"),
    "figures": ("main", "all"),
    "tables": ("main", "all"),
    "style": ("paper", "screen", "icml", "acl", "neurips", "iclr"),
}
_KEYS = (*_CHOICES, "formats", "columns", "out")
# What each part that `only=` names takes.
_TAKEN = {
    "all": _KEYS,
    "table": (),
    "tables": ("tables", "columns", "out"),
    "figures": ("figures", "style", "formats", "out"),
    "methods": ("out",),
    "page": ("out",),
}
ARGUMENTS = {
    "overrides": {"nargs": "*", "help": "experiment=NAME [only=] [figures=] [runtime.results=DIR]"},
}


Answer = Report


def answer(options: argparse.Namespace) -> Report:
    if any(item.startswith("logs=") for item in options.overrides):
        return draw_logs(options.overrides)
    name = require_one_experiment(options.overrides, "report")
    values, rest = take_values(options.overrides, _KEYS, "report", texts=_KEYS)
    arguments = {key: value or "" for key, value in values.items()}
    for key in arguments.keys() & _CHOICES.keys():
        require(key, arguments[key], _CHOICES[key])
    if "formats" in arguments and not formats_of(arguments["formats"]):
        raise ConfigError("formats= names none; give formats=pdf,png, or only=tables for no figures")
    store = select(rest, _KEYS).store
    part = arguments.get("only", "all")
    if ignored := [key for key in arguments if key not in ("only", *_TAKEN[part])]:
        raise ConfigError(f"only={part} has no use for {'=, '.join(ignored)}=; leave it out")
    return report_of(store, name, **arguments)


def show(report: Report, options: argparse.Namespace) -> None:
    show_report(report)
