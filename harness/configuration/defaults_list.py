"""Which files make a configuration, in which order, and where the values of each belong: Hydra's defaults lists.

The part of Hydra's algorithm (hydra/_internal/defaults_list.py) that the files here use: entries for files and groups, `override`,
`_self_`, packages and lists of choices. Anything else, and every error, is left to Hydra (`NotPlainError`). A test compares both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.configuration.yaml_files import Default, File, NotPlainError, read

Choice = str | tuple[str, ...] | None


@dataclass(frozen=True)
class Part:
    """A file and the dotted place of its values, empty for the top."""

    file: File
    package: str


@dataclass(frozen=True)
class _Place:
    """Where the entries of a file stand: relative to a folder of files, and to a place of values."""

    group: str
    package: str


@dataclass
class _Walk:
    """What is known while the tree is walked. Who speaks first about a choice decides it: the command line, then the later files."""

    folder: str
    choices: dict[str, Choice]
    used: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)

    def choose(self, key: str, entry: Default) -> Choice:
        """The choice at a place of a defaults list."""
        if key in self.made:
            raise NotPlainError(f"{key} is chosen twice")
        self.made.add(key)
        if key not in self.choices:
            return entry.value
        self.used.add(key)
        return self.choices[key]


def parts(folder: str, root: str, choices: Mapping[str, Choice]) -> list[Part]:
    """The files of the configuration `root` with choices of groups, in the order in which they are merged.

    Args:
        folder: the configuration folder.
        root: the primary file, without `.yaml`.
        choices: group → member, members or null, which override those of the files.

    Raises:
        NotPlainError: Hydra has to compose this, or to say what is wrong.
    """
    walk = _Walk(folder, dict(choices))
    found = list(_parts_of(walk, read(folder, root), _Place("", "")))
    if walk.choices.keys() - walk.used:
        raise NotPlainError("a choice of a group that no defaults list has")
    return found


def _parts_of(walk: _Walk, file: File, at: _Place) -> Sequence[Part]:
    """A file and those that it names. The last entry is walked first, so that its overrides hold for the entries before."""
    entries = _ordered(file.defaults)
    for entry in entries:
        if entry.overrides:
            walk.choices.setdefault(_key(entry, at), entry.value)
    found: list[Sequence[Part]] = []
    for entry in reversed(entries):
        if entry.path == "_self_":
            found.append([Part(file, at.package)])
        elif not entry.overrides:
            children = list(_children(walk, entry, at))
            found += [_child(walk, path, package, at) for path, package in reversed(children)]
    return [part for sub in reversed(found) for part in sub] if found else [Part(file, at.package)]


def _ordered(entries: Sequence[Default]) -> Sequence[Default]:
    """The entries with `_self_`, which comes last where it is not written."""
    written = [entry for entry in entries if entry.path == "_self_"]
    others = [entry for entry in entries if entry.path != "_self_"]
    overriding = [entry.overrides for entry in others]
    if len(written) > 1 or overriding != sorted(overriding):
        raise NotPlainError("_self_ stands twice, or an override before another entry")
    missing = not written and not all(overriding)
    return [*entries, Default(path="_self_")] if missing else entries


def _children(walk: _Walk, entry: Default, at: _Place) -> Iterator[tuple[str, str | None]]:
    """(path, package) of the files that an entry names; their path is absolute where it begins with a slash."""
    if entry.path is not None:
        yield entry.path, None
        return
    chosen = walk.choose(_key(entry, at), entry)
    for name in (chosen,) if isinstance(chosen, str) else chosen or ():
        yield f"{entry.group}/{name}", entry.package


def _child(walk: _Walk, path: str, package: str | None, at: _Place) -> Sequence[Part]:
    absolute, path = path.startswith("/"), path.removeprefix("/")
    relative = path.rpartition("/")[0]
    group = relative if absolute else _joined("/", at.group, relative)
    file = read(walk.folder, _joined("/", group, path.rpartition("/")[2]))
    if package is None and file.package is not None:  # a header counts from the top
        place = file.package.removeprefix("_global_").removeprefix(".")
    else:
        place = _joined(".", at.package, relative.replace("/", ".") if package is None else package)
    return _parts_of(walk, file, _Place(group, place))


def _key(entry: Default, at: _Place) -> str:
    """What names the choice of an entry: its group, with an @ where its values do not lie at the place of that name."""
    assert entry.group is not None
    name = entry.group.removeprefix("/")
    group = name if entry.group.startswith("/") else _joined("/", at.group, name)
    place = _joined(".", at.package, name.replace("/", ".") if entry.package is None else entry.package)
    return group if place == group.replace("/", ".") else f"{group}@{place or '_global_'}"


def _joined(mark: str, *names: str) -> str:
    return mark.join(filter(None, names))
