"""Judge claims of the field: run, resume and judge declared claims; one page, one table, one figure.

harness audit claim=all
harness audit claim=gspo,cispo
harness audit claim=gspo 'experiment.seeds={start: 8, step: 4, most: 32}'   # declared after the fact, and marked so
harness audit claim=all --judge                                            # of what has been run; runs nothing
harness audit claim=all replicate=true                                     # and a second look at what is decided, on fresh seeds
harness audit claim=all replicate=true first=FILE                          # first looks that are not in this store: from a record
harness audit claim=all replicate=true --list                              # second looks and what they may take; runs nothing
harness audit config_dir=mine claim=shorter                                # your own mine/claim/shorter.yaml, whose name is claim_shorter
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands import _second_looks
from harness.commands import run as run_verb
from harness.commands._arguments import flag
from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.configuration.folder import folders_of
from harness.configuration.registry import nearest
from harness.configuration.runtime import of_machine
from harness.store import ResultStore, StoreError

if TYPE_CHECKING:  # the analysis loads pandas
    from analysis.claims.judged import Judged

ARGUMENTS = {
    "--judge": flag("run nothing, judge what has been run"),
    "--list": flag(
        "with replicate=true: run nothing, list the second looks with their chances and core-hours"
    ),
    "overrides": {
        "nargs": "+",
        "help": "claim=NAME[,NAME...] or claim=all, replicate=true, first=FILE, and overrides of every run",
    },
}


def run(options: argparse.Namespace) -> int:
    """Execute the verb; the exit code is that of the first claim whose runs did not end well."""
    names, rest = _claims(options.overrides)
    replicate, record, rest = _replication(rest, options.list)
    # Composed before anything runs, so that a typo is said now; the rest is of the runs.
    root = Path(compose_run([item for item in rest if of_machine(item)]).runtime.results)
    if options.list:
        return _list(_second_looks.first_looks(root, names, record), rest, _all(options.overrides))
    code = 0
    if not options.judge:
        code = _run(names, rest, root, record, replicate=replicate, everything=_all(options.overrides))
    judge(root, [] if _all(options.overrides) else names)
    return code


def _run(
    names: Sequence[str],
    rest: list[str],
    root: Path,
    record: Path | None,
    *,
    replicate: bool,
    everything: bool,
) -> int:
    """Run first looks, and with ``replicate`` second ones; the code of the first that did not end well, or that was stopped."""
    told = {one.name for one in _second_looks.first_looks(root, names, record)} if record else set()
    first, codes = _second_looks.without_seeds(rest) if replicate else rest, [0]
    asked = [name for name in names if name not in told]
    for number, name in enumerate(asked, 1):
        print(f"[{number}/{len(asked)}] claim {name}", flush=True)
        chosen = argparse.Namespace(overrides=[f"claim={name}", *first], multirun=False, no_answer=True)
        codes.append(run_verb.run(chosen))
        if codes[-1] == run_verb.STOPPED:
            return _first_bad(codes)
    if replicate:
        found = _second_looks.first_looks(root, names, record)
        looks = _second_looks.to_take(found, rest, in_order=not everything)
        print(f"{len(looks)} of {len(found)} claims are decided and looked at again", flush=True)
        for number, look in enumerate(looks, 1):
            print(f"[{number}/{len(looks)}] second look at {look.line}", flush=True)
            codes.append(_second_looks.take(look, ResultStore(root), run_verb.run))
            if codes[-1] == run_verb.STOPPED:
                break
    return _first_bad(codes)


def _first_bad(codes: Sequence[int]) -> int:
    return next((code for code in codes if code), 0)


def _list(found: Sequence[Judged], rest: Sequence[str], everything: bool) -> int:
    """Print the second looks that `replicate=true` takes, one a line, and their core-hours."""
    looks = _second_looks.to_take(found, rest, in_order=not everything)
    for look in looks:
        print(look.line)
    total = sum(look.hours for look in looks)
    print(
        f"{len(looks)} of {len(found)} claims are decided: {total:.1f} core-hours, less what claims share with one another"
    )
    return 0


def judge(root: Path, names: Sequence[str] = ()) -> None:
    """Judge claims by the runs in the store, print the table and write the pages to `claims/` in the results root.

    Where claims are named, table and figure of all claims stay as they are.

    Raises:
        StoreError: none of them has been run.
    """
    from analysis.claims.load import all_judged

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


def _all(overrides: Sequence[str]) -> bool:
    return "claim=all" in overrides


def _replication(rest: list[str], listed: bool) -> tuple[bool, Path | None, list[str]]:
    """Split off `replicate=` and `first=`: whether second looks are taken, the record of first ones, and the other overrides."""
    own = {
        key: [item.partition("=")[2] for item in rest if item.startswith(f"{key}=")]
        for key in ("replicate", "first")
    }
    others = [item for item in rest if item.partition("=")[0] not in own]
    if wrong := [value for value in own["replicate"] if value not in ("true", "false")]:
        raise ConfigError(f"replicate={wrong[0]!r}; choose true or false")
    replicate = own["replicate"][-1:] == ["true"]
    if (own["first"] or listed) and not replicate:
        raise ConfigError("first= and --list are about second looks: add replicate=true")
    return replicate, Path(own["first"][-1]) if own["first"] else None, others
