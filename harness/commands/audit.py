"""Judge claims of the field: run, resume and judge declared claims; one page, one table, one figure.

harness audit claim=all
harness audit claim=gspo,cispo
harness audit claim=gspo 'experiment.seeds={start: 8, step: 4, most: 32}'   # declared after the fact, and marked so
harness audit claim=all --judge                                            # of what has been run; runs nothing
harness audit claim=all replicate=true                                     # and a second look at what is decided, on fresh seeds
harness audit --config-dir mine claim=shorter                             # your own mine/claim/shorter.yaml, whose name is claim_shorter
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands._arguments import Exit, VerbAnswer, flag, split, take_switch, take_values
from harness.commands._values import Interval
from harness.configuration.compose import compose_run, of_hydra, options
from harness.configuration.error import ConfigError
from harness.configuration.registry import nearest
from harness.configuration.sections import of_machine
from harness.experiment.claim import base_policies, is_seeds, refuse_shared, second_look
from harness.experiment.planning import declared_experiment, make_plan
from harness.store import StoreError

if TYPE_CHECKING:  # the analysis loads pandas
    from analysis.claims import JudgedClaim, Look

ARGUMENTS = {
    "--judge": flag("run nothing, judge what has been run"),
    "overrides": {
        "nargs": "+",
        "help": "claim=NAME[,NAME...] or claim=all, replicate=true, and overrides of every run",
    },
}


@dataclass(frozen=True)
class ClaimRow:
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
class Answer(VerbAnswer):
    """Judged claims.

    `unread`: claims that could not be read, and why. `folder`: where the page of all claims was written; null where claims were named.
    `code`: that of the first claim whose runs did not end well.
    """

    claims: list[ClaimRow]
    unread: list[str]
    text: str
    folder: str | None
    code: int

    @property
    def exit_code(self) -> int:
        return self.code


def answer(options: argparse.Namespace) -> Answer:
    names, rest = _claims(options.overrides)
    unused = [item for item in rest if of_hydra(item) or not of_machine(item)]
    if options.judge and unused:
        raise ConfigError(
            f"{unused[0]} changes nothing with --judge: stored claims are judged as declared; leave it out"
        )
    values, rest = take_values(rest, ("replicate",), "audit")
    replicate = take_switch(values, "replicate")
    settings, rest = [item for item in rest if of_hydra(item)], [item for item in rest if not of_hydra(item)]
    # Composed before anything runs, so that a typo is an error now; the other overrides are of the runs.
    root = Path(compose_run([item for item in rest if of_machine(item)]).runtime.results)
    code = 0 if options.judge else _run(names, rest, settings, root, replicate=replicate)
    return judge(root, [] if "claim=all" in options.overrides else names, code)


def show(result: Answer, options: argparse.Namespace) -> None:
    sys.stderr.writelines(f"{line}\n" for line in result.unread)
    print(result.text, end="")
    print(f"written: {result.folder}" if result.folder else "page and figure of all: harness audit claim=all --judge")


def _run(names: Sequence[str], rest: Sequence[str], settings: Sequence[str], root: Path, *, replicate: bool) -> int:
    """Run first looks, and with ``replicate`` second ones; 75 where one was stopped, else the code of the first that did not end well."""
    main = import_module("harness.train").main
    first = [item for item in rest if not is_seeds(item)] if replicate else list(rest)
    code = 0
    for overrides in _looks(names, first, rest, root, replicate=replicate):
        exit_code = main([*overrides, *settings, "--no-answer"])
        if exit_code == Exit.AGAIN:
            return exit_code
        code = code or exit_code
    return code


def _looks(
    names: Sequence[str], first: list[str], rest: Sequence[str], root: Path, *, replicate: bool
) -> Iterator[list[str]]:
    """The overrides of each look to run, told as it comes; second looks are chosen by what the first ones found."""
    for name in names:
        _refuse_another_name(name, first)
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] claim {name}", flush=True)
        yield [f"claim={name}", *first]
    if not replicate:
        return
    from analysis.claims import judged_claims

    claims = judged_claims(root, [f"claim_{name}" for name in names])[0]
    decided_claims = [claim for claim in claims if claim.first.decided]
    print(f"{len(decided_claims)} of {len(claims)} claims are decided and looked at again", flush=True)
    second_looks = [_second_look(claim.name, claim.first, first, rest) for claim in decided_claims]
    for number, (claim, (overrides, seeds)) in enumerate(zip(decided_claims, second_looks, strict=True), 1):
        word = f"{claim.first.word}, {claim.first.seeds} seeds"
        print(
            f"[{number}/{len(decided_claims)}] second look at {claim.name} ({word}), on seeds {seeds[0]} to {seeds[-1]}",
            flush=True,
        )
        yield overrides


def _refuse_another_name(claim: str, overrides: Sequence[str]) -> None:
    """Raise `ConfigError` where the runs of a claim would be stored under a name that is not looked for."""
    name = declared_experiment([f"claim={claim}", *overrides]).name
    if name != f"claim_{claim}":
        raise ConfigError(
            f"claim={claim} is named {name!r}, where `harness audit` does not find it; write `name: claim_{claim}` under `experiment:`"
        )


def _second_look(name: str, look: Look, first: Sequence[str], rest: Sequence[str]) -> tuple[list[str], Sequence[int]]:
    """Overrides and seeds of the second look at a claim. Raises `ConfigError` where no seed or base policy is left for it."""
    if not look.policies:
        raise ConfigError(
            f"{look.plan.name}: nothing tells which base policies its first look used; run it again: harness audit claim={name}"
        )
    first_plan = make_plan([f"claim={name}", *first])
    fresh = second_look(look.plan.name, first_plan.arms[0].config, look.policies, rest)
    overrides = [f"claim={name}", *rest, *fresh]
    plan = make_plan(overrides)
    refuse_shared(look.plan.name, look.policies, base_policies([arm.config for arm in plan.arms], plan.seeds))
    return overrides, list(plan.seeds)


def judge(root: Path, names: Sequence[str] = (), code: int = Exit.DONE) -> Answer:
    """Judge claims by the runs in the store; where none is named, all, with their page in `claims/`. Raises `StoreError` without runs."""
    from analysis.claims import claims_text, judged_claims, write_claims

    claims, unread = judged_claims(root, [f"claim_{name}" for name in names])
    if not claims:
        sys.stderr.writelines(f"{line}\n" for line in unread)
        raise StoreError(f"{root} holds no claim that has been run; run one with: harness audit claim=all")
    folder = None if names else root / "claims"
    if folder is not None:
        write_claims(claims, folder)
    return Answer(list(map(_row, claims)), unread, claims_text(claims), None if folder is None else str(folder), code)


def _row(claim: JudgedClaim) -> ClaimRow:
    from analysis.answer import describe

    first, second = claim.first, claim.second
    return ClaimRow(
        name=claim.name,
        title=first.plan.title,
        statement=first.claim["statement"],
        source=first.claim["source"],
        expects=first.claim["expects"],
        finding=first.finding.value,
        verdict=claim.verdict,
        effect=Interval.of(first.effect.shown_estimate),
        unit=first.effect.metric.unit,
        sentence=describe(first.effect.estimate, first.effect.metric),
        engaged=first.effect.engaged,
        seeds=first.seeds,
        most_seeds=first.most_seeds,
        generated_tokens=first.tokens,
        hours=first.hours,
        declared_after=claim.late,
        notes=list(first.plan.notes),
        second=None if second is None else (second.finding.value, Interval.of(second.effect.shown_estimate)),
    )


def _claims(overrides: list[str]) -> tuple[list[str], list[str]]:
    values, rest = split(overrides, "claim")
    declared_names = options("claim")
    if len(values) != 1:
        raise ConfigError(f"name the claims once: harness audit claim=all, or of {', '.join(declared_names)}")
    names = declared_names if values == ["all"] else values[0].split(",")
    for name in names:
        if name not in declared_names:
            raise ConfigError(f"there is no claim {name!r}{nearest(name, declared_names)}")
    return names, rest
