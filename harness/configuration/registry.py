"""Families: a package whose modules are its members. A new member is one Python file (and one YAML); no list to edit.

A member module defines `Config`, a dataclass with a field `kind` whose default is the member's name. The family's `__init__` says what
else a member defines: a class `Member` that `Config` inherits, or `FUNCTIONS` of the module. Configuration files select members by `kind`.
"""

import functools
import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import Any

from harness.configuration.error import nearest as nearest
from harness.configuration.user_code import FILES, module_of, own_files, own_member, register


@functools.cache
def kinds(family: str) -> dict[str, str]:
    """Member kind → module name, for a family such as `harness.objective.advantage` (imports no member of a package)."""
    package = importlib.import_module(family)
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return {name: f"{family}.{name}" for name in names if not name.startswith("_")}


def member(family: str, kind: str) -> Any:
    """Return the module of one member, shipped or a user's own. Raises `ValueError` that names the nearest."""
    members = kinds(family)
    own_module = own_member(family, kind)
    if own_module is not None:
        return own_module
    if kind not in members:
        valid_kinds = [*members, *(own for other, own in FILES if other == family)]
        raise ValueError(
            f"{family.removeprefix('harness.').replace('.', '/')} has no member {kind!r}{nearest(str(kind), valid_kinds)}"
        )
    return importlib.import_module(members[kind])


def implementation(family: str, config: Any) -> Any:
    """Return the module that implements a member's configuration object."""
    return module_of(config) or member(family, config.kind)


ADVANTAGE, SURROGATE = "harness.objective.advantage", "harness.objective.surrogate"
AGGREGATION, KL = "harness.objective.aggregation", "harness.objective.kl"
BENCHMARK, MODEL = "harness.problems.benchmarks", "harness.base_policy"
ENGINE, CURRICULUM, BACKEND = "harness.rollout.engine", "harness.sampling.curriculum", "harness.backends"
SOURCE, WEIGHTING = "harness.sampling.source", "harness.objective.weighting"
TRACKING = "harness.tracking"
FAMILIES = (
    ADVANTAGE, SURROGATE, AGGREGATION, KL, BENCHMARK, MODEL, ENGINE, CURRICULUM, BACKEND, SOURCE, TRACKING, WEIGHTING,
)  # fmt: skip


def own_members(folders: Iterable[Path]) -> list[Path]:
    """Make the members of one's own in these folders known in this process; returns the folders that have any. Raises `ConfigError`."""
    folders = list(folders)
    register(folders, FAMILIES, kinds)
    return [folder for folder in folders if own_files(folder, FAMILIES)]


def family(package: str, default: str, neutral: bool = False) -> Any:
    """A field that holds one member's `Config` of a family package; `default` is the member taken when nothing is given."""
    metadata = {"family": package, "neutral": neutral}
    return field(default_factory=lambda: member(package, default).Config(), metadata=metadata)


def neutral(default: Any) -> Any:
    """A field added after runs were stored: at its default it means what its absence meant, and is no part of the identity."""
    return field(default=default, metadata={"neutral": True})


def place(default: Any) -> Any:
    """A field that names a file, a data set, an address or a secret: only a command line or a file given now may, never a store."""
    return field(default=default, metadata={"place": True})
