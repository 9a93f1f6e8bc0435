r"""Grade a file of cases, one JSON object a line, in order.

harness verify cases=FILE.jsonl out=FILE.jsonl [verifier=any] [verifier.extraction=boxed]

In: {"id", "gold", "response"}, and "problem" where it is known. Out: {"id", "verdict", "correct", "answer", "method", "seconds",
"second_correct"}; the last is the second grader's verdict (null: it has none; docs/evaluation.md).
A malformed line is reported by its number and gets the verdict "malformed"; the rest goes on, and where nothing is left the exit code is 1.
verifier= names a set of rules (any, answer_line, boxed); verifier.KEY= sets one of them (extraction, answer_must_end, form, percent,
decimal_digits: docs/evaluation.md) or how they are run (workers, timeout_cpu_seconds, ...).
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from harness.commands._arguments import key_values
from harness.commands._counter import Counter
from harness.commands._exit_codes import Exit
from harness.configuration.compose import config_directory, options
from harness.configuration.error import ConfigError, require
from harness.configuration.loader import load_dataclass
from harness.verify import VerifierConfig
from harness.verify.batch import VerifySummary, verify_file

RULES = ("verifier", *(f"verifier.{item.name}" for item in dataclasses.fields(VerifierConfig)))
_REPORTED_LINES = 20


ARGUMENTS = {"values": {"nargs": "+", "metavar": "key=value", "help": "cases=, out= and verifier settings"}}


def run(options: argparse.Namespace) -> int:
    values = key_values(options.values, ("cases", "out", *RULES), "verify")
    for key in ("cases", "out"):
        if key not in values:
            raise ConfigError("verify needs cases=FILE.jsonl and out=FILE.jsonl")
    cases, out = Path(str(values.pop("cases"))), Path(str(values.pop("out")))
    config = verifier_config({"verifier": "any", **values})
    if not cases.is_file():
        raise ConfigError(f"cases={cases} is not a file")
    if out.resolve() == cases.resolve():
        raise ConfigError(f"out={out} is the file of cases itself; name another")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        summary = verify_file(cases, out, config, Counter("verify"))
    except OSError as error:
        raise ConfigError(f"cannot write out={out}: {error.strerror or error}") from error
    print(describe(summary, out))
    return Exit.FOUND if summary.malformed and not summary.total else Exit.DONE


def verifier_config(values: Mapping[str, object]) -> VerifierConfig:
    """Return the verifier's settings: those of `verifier` under `conf/verifier`, then `verifier.KEY`. Raises `ConfigError`."""
    settings: dict[str, object] = {}
    if "verifier" in values:
        require("verifier", values["verifier"], options("verifier"))
        settings = yaml.safe_load(
            (config_directory() / "verifier" / f"{values['verifier']}.yaml").read_text()
        )
    settings |= {key.removeprefix("verifier."): value for key, value in values.items() if key != "verifier"}
    try:
        return load_dataclass(VerifierConfig, settings, "verifier")
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from error


def describe(summary: VerifySummary, out: Path) -> str:
    """Return counts in a line; malformed lines by number go to standard error."""
    for number, problem in summary.malformed[:_REPORTED_LINES]:
        sys.stderr.write(f"line {number}: {problem}\n")
    if len(summary.malformed) > _REPORTED_LINES:
        sys.stderr.write(f"... and {len(summary.malformed) - _REPORTED_LINES} more malformed lines\n")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(summary.verdicts.items()))
    return f"{summary.correct} of {summary.total} right ({counts or 'no lines'}): {out}"
