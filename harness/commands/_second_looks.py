"""Second looks at decided claims: which are to be taken, what they are held against, and what they may take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.configuration.error import ConfigError
from harness.experiment.claim import remember
from harness.experiment.planning import Plan, make_plan
from harness.experiment.replication import SUFFIX, overrides, refuse_shared, starts
from harness.store import ResultStore

if TYPE_CHECKING:  # the analysis loads pandas
    from analysis.claims.judged import Judged

_SEEDS = "experiment.seeds"


@dataclass(frozen=True)
class SecondLook:
    """A second look that is to be taken.

    Attributes:
        first: the look that it repeats.
        overrides: of its run.
        plan: of its run.
        chance: to say the first one's word, if the first effect is true.
        seeds: that it takes on average then.
        changed: the claim is not as it was at its first run.
    """

    first: Judged
    overrides: list[str]
    plan: Plan
    chance: float
    seeds: float
    changed: bool

    @property
    def hours(self) -> float:
        """Expected core-hours: those of a seed in the first look, times the expected seeds."""
        return self.first.hours / max(self.first.seeds, 1) * self.seeds

    @property
    def line(self) -> str:
        """Claim, first word and effect, fresh seeds, chance of the same word, core-hours."""
        from analysis.claims.table import effect_text

        used = self.plan.experiment.seeds
        late = "; the claim was changed after its first run" if self.changed else ""
        return (
            f"{self.first.name}: {self.first.word}, {effect_text(self.first)}, {self.first.seeds} seeds; again on seeds {used[0]} to "
            f"{used[-1]}, the same word with {100 * self.chance:.0f} % if that is the effect, {self.seeds:.0f} seeds, "
            f"{self.hours:.2f} core-hours expected{late}"
        )


def without_seeds(rest: Sequence[str]) -> list[str]:
    """The overrides that the first look gets: seeds on the command line are those of the second one."""
    return [item for item in rest if not item.lstrip("+").startswith(_SEEDS)]


def first_looks(root: Path, names: Sequence[str], record: Path | None) -> list[Judged]:
    """First looks of the store, and of a record those that the store lacks, in the order of the names."""
    from analysis.claims.load import all_judged

    found = {one.name: one for one in all_judged(root, [f"claim_{name}" for name in names], record)[0]}
    return [found[name] for name in names if name in found]


def told_elsewhere(root: Path, record: Path | None) -> set[str]:
    """Name the claims whose first look a record tells of and the store does not hold."""
    from analysis.claims.load import recorded
    from analysis.claims.record import FIRST

    plans = ResultStore(root).plans()
    return {one.name for name, one in recorded(record, FIRST).items() if name not in plans}


def second_look(first: Judged, rest: Sequence[str]) -> SecondLook:
    """Declare the second look at a decided claim.

    Raises:
        ConfigError: it would share a seed or a base policy with the first look, or none is left.
    """
    name, plain = f"claim_{first.name}", [f"claim={first.name}", *without_seeds(rest)]
    if not first.starts:
        raise ConfigError(
            f"{name}: nothing tells which base policies its first look used; run it again: harness audit claim={first.name}"
        )
    declared = make_plan(plain)
    given = [f"claim={first.name}", *rest, *overrides(name, declared.arms[0].config, first.starts, rest)]
    plan = make_plan(given)
    refuse_shared(name, first.starts, starts([arm.config for arm in plan.arms], plan.seeds))
    experiment = plan.experiment
    looks = experiment.looks or [len(experiment.seeds)]
    expected = first.prospect(looks)
    changed = first.declared_after or first.declaration != declared.record()["declaration"]
    return SecondLook(first, given, plan, expected.chance, expected.seeds, changed)


def to_take(firsts: Sequence[Judged], rest: Sequence[str], *, in_order: bool) -> list[SecondLook]:
    """Second looks at the claims that are decided; unless in the given order, those of the least evidence first."""
    decided = [one for one in firsts if one.decided]
    ordered = decided if in_order else sorted(decided, key=lambda one: -one.p_value)
    return [second_look(one, rest) for one in ordered]


def take(look: SecondLook, store: ResultStore, run: Callable[[argparse.Namespace], int]) -> int:
    """Run a second look to its end; what it is held against is kept at its first run. Returns the exit code of the run."""
    from analysis.claims.judged import effect_of

    against = {
        "first": effect_of(look.first).record(),
        "chance": look.chance,
        "changed": look.changed,
    }
    declaration = str(look.plan.record()["declaration"])
    remember(store, f"claim_{look.first.name}{SUFFIX}", declaration, against)
    return run(argparse.Namespace(overrides=look.overrides, multirun=False, no_answer=True))
