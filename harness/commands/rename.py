"""Give an experiment another name: its plan and answer move, its runs stay where they are, and nothing is drawn anew.

harness rename experiment=OLD to=NEW
"""

from __future__ import annotations

import argparse
import os
import shlex

from harness.commands._arguments import key_values, require_idle, select
from harness.configuration.compose import options as declared
from harness.configuration.error import ConfigError
from harness.store import ResultStore, layout, lease
from harness.store.errors import write_errors

ARGUMENTS = {"overrides": {"nargs": "+", "help": "experiment=OLD to=NEW [runtime.results=DIR]"}}


def run(options: argparse.Namespace) -> int:
    """Execute the verb."""
    given = [item for item in options.overrides if item.startswith("to=")]
    new = key_values(given, ("to",), "rename", texts=("to",)).get("to")
    selection = select([item for item in options.overrides if item not in given])
    if len(selection.experiments) != 1 or not new:
        raise ConfigError("name one experiment and its new name: harness rename experiment=OLD to=NEW")
    (old,) = selection.experiments
    require_idle(selection)
    _rename(selection.store, old, str(new))
    print(
        f"{old} is {new} now, with the same {len(selection.run_ids)} runs; what was written of it before says {old} until"
    )
    print(f"  harness report experiment={new}")
    if old in declared("experiment"):
        print(
            f"to go on with it: harness run experiment={old} experiment.name={new} (without the name it is {old} again)"
        )
    return 0


def _rename(store: ResultStore, old: str, new: str) -> None:
    """Move the folder, then say the new name in the plan. Raises `ConfigError` where that would break or hide something."""
    folder, target = (layout.experiments_dir(store.root) / name for name in (old, new))
    if not layout.is_safe(new):
        raise ConfigError(f"no experiment can be called {new!r}; letters, digits and ._=+- make a name")
    if target.exists():
        raise ConfigError(
            f"there is an experiment {new!r} already ({target}); take another name, or remove it: harness clean --experiment"
        )
    plan = store.plan(old)
    # What was run of a declared experiment may take its name back.
    asked = shlex.split(plan.get("command", ""))
    if new in declared("experiment") and f"experiment={new}" not in asked:
        raise ConfigError(
            f"{new} is the name of another experiment: `harness run experiment={new}` would write over it; take another name"
        )
    for kept, what in (
        (layout.STUDY, "search, whose journal"),
        (layout.DECLARATION, "claim, whose declaration"),
    ):
        if (folder / kept).exists():
            raise ConfigError(f"{old} is a {what} goes by its name: it would begin anew; it keeps {old}")
    title = new if plan.get("title") == old else plan.get("title")
    with (
        lease.acquire(folder / layout.CLAIM_LOCK),
        write_errors(target),
    ):  # no import changes the plan meanwhile
        os.rename(folder, target)
        store.write_plan(new, {**plan, "name": new, "title": title})
