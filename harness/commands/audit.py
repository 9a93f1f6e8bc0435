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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.found import Interval
from harness.commands import _second_looks
from harness.commands import run as run_verb
from harness.commands._arguments import flag
from harness.commands._as_json import VerbAnswer
from harness.commands._exit_codes import Exit
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


_RECORD = "experiments/claims/effects.csv"  # the published looks, in a clone


@dataclass(frozen=True)
class ClaimFound:
    """A declared claim and what its experiment found, in the shown unit.

    `verdict`: the finding with its margin, of both looks where there are two; `second`: the finding and the effect of the second one.
    `engaged`: how much of the data the mechanism touched. `hours`: of training, all runs of the first look together.
    """

    name: str
    title: str
    statement: str
    source: str
    expects: str
    finding: str
    verdict: str
    effect: Interval
    unit: str
    sentence: str
    engaged: str
    seeds: int
    most_seeds: int
    generated_tokens: float
    hours: float
    declared_after: bool
    notes: list[str]
    second: tuple[str, Interval] | None


@dataclass(frozen=True)
class LookAgain:
    """A second look that `replicate=true` takes: seeds, chance to say the first one's word if the first effect is true, core-hours."""

    name: str
    seeds: list[int]
    chance: float
    hours: float
    line: str


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """Judged claims, or with `--list` the second looks that are to be taken.

    `unread`: claims that could not be read, and why. `code`: that of the first claim whose runs did not end well.
    """

    claims: list[ClaimFound]
    second_looks: list[LookAgain]
    unread: list[str]
    text: str
    folder: str | None
    all_claims: bool
    code: int

    @property
    def exit_code(self) -> int:
        """That of the first claim whose runs did not end well."""
        return self.code


def answer(options: argparse.Namespace) -> Answer:
    """Run the claims unless told not to, judge them, and write their pages."""
    names, rest = _claims(options.overrides)
    replicate, record, rest = _replication(rest, options.list)
    # Composed before anything runs, so that a typo is said now; the rest is of the runs.
    root = Path(compose_run([item for item in rest if of_machine(item)]).runtime.results)
    everything = _all(options.overrides)
    if options.list:
        found = _second_looks.first_looks(root, names, record)
        return _list(found, rest, everything, _unlooked(root, names, found, record))
    code = 0
    if not options.judge:
        code = _run(names, rest, root, record, replicate=replicate, everything=everything)
    return judge(root, [] if everything else names, code, record)


def show(found: Answer, options: argparse.Namespace) -> None:
    """Print the table of the claims and where their pages lie, or the second looks."""
    sys.stderr.writelines(f"{line}\n" for line in found.unread)
    print(found.text, end="")
    if found.folder is not None:
        pages = ", ".join(f"{one.name}.md" for one in found.claims)
        more = f": {pages} (table and figure of all: harness audit claim=all --judge)"
        print(f"written: {found.folder}{'' if found.all_claims else more}")


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
    told = _second_looks.told_elsewhere(root, record)
    first, codes = _second_looks.without_seeds(rest) if replicate else rest, [0]
    asked = [name for name in names if name not in told]
    for number, name in enumerate(asked, 1):
        print(f"[{number}/{len(asked)}] claim {name}", flush=True)
        chosen = argparse.Namespace(overrides=[f"claim={name}", *first], multirun=False, no_answer=True)
        codes.append(run_verb.run(chosen))
        if codes[-1] == Exit.AGAIN:
            return _first_bad(codes)
    if replicate:
        found = _second_looks.first_looks(root, names, record)
        looks = _second_looks.to_take(found, rest, in_order=not everything)
        print(f"{len(looks)} of {len(found)} claims are decided and looked at again", flush=True)
        for number, look in enumerate(looks, 1):
            print(f"[{number}/{len(looks)}] second look at {look.line}", flush=True)
            codes.append(_second_looks.take(look, ResultStore(root), run_verb.run))
            if codes[-1] == Exit.AGAIN:
                break
    return _first_bad(codes)


def _first_bad(codes: Sequence[int]) -> int:
    return next((code for code in codes if code), 0)


def _unlooked(root: Path, names: Sequence[str], found: Sequence[Judged], record: Path | None) -> list[str]:
    """Say in a line how many claims have no first look to look at again, and where such looks are; nothing where all have one."""
    without = len(set(names) - {one.name for one in found})
    if not without:
        return []
    there = f"in {root}" if record is None else f"in {root} or {record}"
    published = f" (first={_RECORD} are the published ones)" if record is None else ""
    return [
        f"{without} of {len(names)} claims have no first look {there}: without --list they are run before, unless first=FILE tells of "
        f"them{published}"
    ]


def _list(found: Sequence[Judged], rest: Sequence[str], everything: bool, unlooked: Sequence[str]) -> Answer:
    """Tell the second looks that `replicate=true` takes, one a line, and their core-hours; then what has no first look."""
    looks = _second_looks.to_take(found, rest, in_order=not everything)
    total = sum(look.hours for look in looks)
    lines = [
        *(look.line for look in looks),
        f"{len(looks)} of {len(found)} claims are decided: {total:.1f} core-hours, less what claims share with one another",
        *unlooked,
    ]
    again = [
        LookAgain(look.first.name, look.plan.experiment.seeds, look.chance, look.hours, look.line)
        for look in looks
    ]
    return Answer([], again, [], "\n".join(lines) + "\n", None, everything, Exit.DONE)


def judge(root: Path, names: Sequence[str] = (), code: int = Exit.DONE, record: Path | None = None) -> Answer:
    """Judge claims by the runs in the store, and by a record what is not there; write the pages to `claims/` in the results root.

    Where claims are named, table and figure of all claims stay as they are.

    Raises:
        StoreError: none of them has been run.
    """
    from analysis.claims.load import all_judged

    found, unread = all_judged(root, [f"claim_{name}" for name in names], record)
    if not found:
        sys.stderr.writelines(f"{line}\n" for line in unread)
        raise StoreError(f"{root} holds no claim that has been run; run one with: harness audit claim=all")
    from analysis.claims.pages import in_words, write_overview, write_pages  # matplotlib

    out = root / "claims"
    write_pages(found, out)
    if not names:
        write_overview(found, out)
    return Answer(list(map(_found, found)), [], unread, in_words(found), str(out), not names, code)


def _found(one: Judged) -> ClaimFound:
    second = one.second
    return ClaimFound(
        name=one.name,
        title=one.title,
        statement=one.claim["statement"],
        source=one.claim["source"],
        expects=one.claim["expects"],
        finding=one.finding.value,
        verdict=one.verdict,
        effect=Interval.of(one.effect),
        unit=one.unit,
        sentence=one.sentence,
        engaged=one.engaged,
        seeds=one.seeds,
        most_seeds=one.most_seeds,
        generated_tokens=one.generated_tokens,
        hours=one.hours,
        declared_after=one.declared_after,
        notes=list(one.notes),
        second=None if second is None else (second.finding.value, Interval.of(second.effect)),
    )


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
