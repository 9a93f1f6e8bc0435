"""Judge claims of the field: run, resume and judge declared claims; one page, one table, one figure.

harness audit claim=all
harness audit claim=gspo,cispo
harness audit claim=gspo 'experiment.seeds={start: 8, step: 4, most: 32}'   # declared after the fact, and marked so
harness audit claim=all --judge                                            # of what has been run; runs nothing
harness audit config_dir=mine claim=shorter                                # your own mine/claim/shorter.yaml, whose name is claim_shorter
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.commands import run as run_verb
from harness.commands._arguments import flag
from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.configuration.folder import folders_of
from harness.configuration.registry import nearest
from harness.configuration.runtime import of_machine
from harness.store import StoreError

ARGUMENTS = {
    "--judge": flag("run nothing, judge what has been run"),
    "overrides": {"nargs": "+", "help": "claim=NAME[,NAME...] or claim=all, and overrides of every run"},
}


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
    judge(Path(results), [] if "claim=all" in options.overrides else names)
    return code


def judge(root: Path, names: Sequence[str] = ()) -> None:
    """Judge claims by the runs in the store, print the table and write the pages to `claims/` in the results root.

    Where claims are named, table and figure of all claims stay as they are.

    Raises:
        StoreError: none of them has been run.
    """
    from analysis.claims.judged import all_judged

    found, unread = all_judged(root, [f"claim_{name}" for name in names])
    sys.stderr.writelines(f"{line}\n" for line in unread)
    if not found:
        raise StoreError(f"{root} holds no claim that has been run; run one with: harness audit claim=all")
    from analysis.claims.pages import in_words, write_overview, write_pages  # matplotlib

    out = root / "claims"
    print(in_words(found), end="")
    write_pages(found, out)
    if names:
        pages = ", ".join(f"{one.name}.md" for one in found)
        print(f"written: {out}: {pages} (table and figure of all: harness audit claim=all --judge)")
    else:
        write_overview(found, out)
        print(f"written: {out}")


def _claims(overrides: list[str]) -> tuple[list[str], list[str]]:
    """Split into names of claims, and the other overrides."""
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
