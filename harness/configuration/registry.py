"""Families: a package whose modules are its members. A new member is one Python file (and one YAML); no list to edit.

A member module defines `Config`, a dataclass with a field `kind` whose default is the member's name. The class `Member` in the family's
`__init__` says what else a member defines: it is the base class of `Config`, or a protocol of the module's functions. Configuration files
select members by `kind`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any

from harness.configuration.error import nearest as nearest
from harness.configuration.user_code import module_of, own_kinds, own_member


class UnknownMemberError(ValueError):
    """A `kind` that no module of the family has."""


@functools.cache
def kinds(family: str) -> dict[str, str]:
    """Member kind → module name, for a family such as `harness.objective.advantage` (imports no member of a package)."""
    package = importlib.import_module(family)
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    # A member with the name of a Python keyword has an underscore behind it: `import_`.
    return {name.rstrip("_"): f"{family}.{name}" for name in names if not name.startswith("_")}


def member(family: str, kind: str) -> Any:
    """Return the module of one member, shipped or a user's own.

    Raises:
        UnknownMemberError: naming the family and the nearest member.
    """
    members = kinds(family)
    own = own_member(family, kind)
    if own is not None:
        return own
    if kind not in members:
        label = family.removeprefix("harness.").replace(".", "/")
        known = [*members, *own_kinds(family)]
        raise UnknownMemberError(f"{label} has no member {kind!r}{nearest(str(kind), known)}")
    return importlib.import_module(members[kind])


def implementation(family: str, config: Any) -> Any:
    """Return the module that implements a member's configuration object."""
    return module_of(config) or member(family, config.kind)
