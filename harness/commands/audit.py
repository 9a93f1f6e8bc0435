"""Judge claims of the field: run, resume and judge declared claims; one page, one table, one figure.

harness audit claim=all
harness audit claim=gspo,cispo
harness audit claim=gspo 'experiment.seeds={start: 8, step: 4, most: 32}'   # declared after the fact, and marked so
harness audit claim=all --judge                                            # of what has been run; runs nothing
harness audit config_dir=mine claim=shorter                                # your own mine/claim/shorter.yaml, whose name is claim_shorter
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from harness.commands import run as run_verb
from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.configuration.own_folder import folders_of
from harness.configuration.registry import nearest
from harness.configuration.runtime import of_machine
from harness.store import StoreError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--judge", action="store_true", help="run nothing, judge what has been run")
    parser.add_argument(
        "overrides", nargs="+", help="claim=NAME[,NAME...] or claim=all, and overrides of every run"
    )


def run(options: argparse.Namespace) -> int:
    """Execute the verb; the exit code is that of the first claim whose runs did not end well."""
    names, rest = _claims(options.overrides)
    # Composed before anything runs, so that a typo is said now; the rest is of the runs.
    results = compose_run([item for item in rest if of_machine(item)]).runtime.results
    code = 0
    if not options.judge:
        for number, name in enumerate(names, 1):
            print(f"[{number}/{len(names)}] claim {name}", flush=True)
            chosen = argparse.Namespace(overrides=[f"claim={name}", *rest], multirun=False, no_answer=True)
            ended = run_verb.run(chosen)
            code = code or ended
            if ended == run_verb.STOPPED:
                break
    asked = [] if "claim=all" in options.overrides else names
    judged = subprocess.run(
        [sys.executable, "-m", "analysis.claims", results, *asked], check=False
    ).returncode
    if judged:
        raise StoreError("the claims could not be judged (see above); what has been run is kept")
    return code


def _claims(overrides: list[str]) -> tuple[list[str], list[str]]:
    """Names of claims, and the other overrides."""
    given = [item.partition("=")[2] for item in overrides if item.startswith("claim=")]
    own = (path.stem for folder in folders_of(overrides) for path in folder.glob("claim/*.yaml"))
    known = sorted([*options("claim"), *own])
    if len(given) != 1:
        raise ConfigError(f"name the claims once: harness audit claim=all, or of {', '.join(known)}")
    names = known if given == ["all"] else given[0].split(",")
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no claim {name!r}{nearest(name, known)}")
    return names, [item for item in overrides if not item.startswith("claim=")]
