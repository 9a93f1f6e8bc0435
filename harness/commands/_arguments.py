"""Arguments of verbs: plain `key=value` pairs, and the runs that a verb is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.configuration.registry import nearest
from harness.configuration.sections import RuntimeConfig, of_machine
from harness.store import Holder, ResultStore
from harness.store.pack import opened

# PyYAML follows YAML 1.1, where 3e-4 is text for want of a point. Sixteen hexadecimal digits are a run's id, never a number.
_EXPONENT = re.compile(r"(?![0-9a-f]{16}$)[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")
_PATHS = frozenset({"cases", "file", "golds", "out", "path", "runtime.results", "samples"})


def flag(text: str) -> dict[str, Any]:
    """Declare a switch that is off unless given, for a verb's `ARGUMENTS`."""
    return {"action": "store_true", "help": text}


class _Loader(yaml.SafeLoader):
    """Safe YAML in which numbers in exponent notation are numbers."""


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+.0123456789"))


def read_yaml(text: str, where: str) -> Any:
    """The value of a YAML text; `3e-4` is a number.

    Args:
        text: YAML.
        where: what the text is, for the error.

    Raises:
        ConfigError: the text is not YAML.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not YAML; quote the value") from error


def key_values(
    items: Sequence[str], keys: Sequence[str], verb: str, texts: Sequence[str] = ()
) -> dict[str, Any]:
    """Arguments as a mapping, values read as YAML.

    Args:
        items: `key=value`, each.
        keys: the keys there are.
        verb: for the errors.
        texts: those of the keys whose values are names: `arm=1e-4` stays as it is spelled (null is None all the same).

    Raises:
        ConfigError: an unknown or repeated key, or a value that is not YAML.
    """
    values: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or key not in keys:
            raise ConfigError(f"{verb} has no argument {item!r}{nearest(key, list(keys))}")
        if key in values:
            raise ConfigError(f"{verb}: {key}= is given twice")
        if key in _PATHS and text:
            values[key] = text  # as it stands: `out=res #2` is a folder with a space, not YAML with a comment
            continue
        value = read_yaml(text, f"{verb}: {item}")
        values[key] = text if key in texts and value is not None and not isinstance(value, str) else value
    return values


# ---- runs ----

HELP = "experiment=NAME to take only its runs; runtime.results=DIR"
SELECTION = {"overrides": {"nargs": "*", "help": HELP}}


@dataclass(frozen=True)
class Selection:
    """A store, the experiments that were named, their runs (or all), and the runtime that the other overrides describe."""

    store: ResultStore
    experiments: list[str]
    run_ids: list[str]
    runtime: RuntimeConfig
    runtime_overrides: list[str]


def select(overrides: Sequence[str]) -> Selection:
    """Read `experiment=NAME` (any number of them) and runtime overrides.

    Raises:
        ConfigError: an experiment that the store does not hold, or an override of something else.
    """
    names = [item.partition("=")[2] for item in overrides if item.startswith("experiment=")]
    rest = [item for item in overrides if not item.startswith("experiment=")]
    for item in rest:
        if not of_machine(item):
            raise ConfigError(
                f"{item!r} is of no use here: stored runs are what they are; give experiment=NAME and runtime.* only"
            )
    runtime = compose_run(rest).runtime
    store = ResultStore(runtime.results)
    for name in names:
        require_stored(store, name)
    plans = [store.plan(name) for name in names]
    ids = [run_id for plan in plans for arm in plan["arms"] for run_id in arm["runs"].values()]
    return Selection(store, names, list(dict.fromkeys(ids)) if names else store.run_ids(), runtime, rest)


def require_idle(selection: Selection) -> None:
    """Raises `ConfigError` where one of the runs is worked on."""
    for run_id in selection.run_ids:
        holder = selection.store.run(run_id).claimed_by()
        if holder is not None:
            raise ConfigError(f"run {run_id} runs ({_where(holder)}); end it first, with Ctrl-C or kill")


def _where(holder: Holder) -> str:
    return "its supervisor is starting" if holder.pid is None else f"process {holder.pid} on {holder.host}"


@contextmanager
def unpacked(overrides: Sequence[str]) -> Iterator[list[str]]:
    """Put the experiment and the results root of `pack=FILE`, if it is among the overrides, in its place for as long as it is read.

    Raises:
        StoreError: the pack cannot be read.
        ConfigError: an experiment or a results root beside it.
    """
    packs = [item.partition("=")[2] for item in overrides if item.startswith("pack=")]
    if not packs:
        yield list(overrides)
        return
    rest = [item for item in overrides if not item.startswith("pack=")]
    if len(packs) > 1 or any(item.startswith(("experiment=", "runtime.results=")) for item in rest):
        raise ConfigError(
            "a pack holds one experiment and is a results root of its own: give pack=FILE without experiment= and runtime.results="
        )
    with opened(packs[0]) as root:
        yield [
            *(f"experiment={name}" for name in ResultStore(root).plans()),
            *rest,
            f"runtime.results={root}",
        ]


def require_stored(store: ResultStore, name: str) -> None:
    """Raises `ConfigError` unless the store holds the experiment; one that is only declared is to be run first."""
    if name in store.plans():
        return
    if name in options("experiment"):
        where = "" if store.root == Path(RuntimeConfig.results) else f" runtime.results={store.root}"
        raise ConfigError(
            f"{_place(store)} holds nothing of experiment {name!r} yet; run it first: harness run experiment={name}{where}"
        )
    meant = get_close_matches(name, options("experiment"), n=1)
    hint = f"; did you mean {meant[0]!r}?" if meant and not store.plans() else nearest(name, store.plans())
    raise ConfigError(f"{_place(store)} holds no experiment {name!r}{hint}")


def require_one_experiment(overrides: Sequence[str], verb: str) -> str:
    """The name that `experiment=` gives.

    Raises:
        ConfigError: none or several; the message names those in the store.
    """
    names = [item.partition("=")[2] for item in overrides if item.startswith("experiment=")]
    if len(names) == 1:
        return names[0]
    store = ResultStore(compose_run([item for item in overrides if of_machine(item)]).runtime.results)
    held = ", ".join(store.plans()) or "none yet"
    raise ConfigError(f"name one experiment: harness {verb} experiment=NAME; {_place(store)} holds {held}")


def _place(store: ResultStore) -> str:
    return f"{store.root}{'' if store.root.is_dir() else ' (there is no such folder)'}"


def find_run(store: ResultStore, prefix: str) -> str:
    """The one run whose id begins with `prefix`.

    Raises:
        ConfigError: none or several do.
    """
    if "=" in prefix:
        raise ConfigError(f"{prefix!r} is no run: give the beginning of a run id first, then overrides")
    found = [run_id for run_id in store.run_ids() if run_id.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigError(
            f"no run in {store.root} begins with {prefix!r}; `harness status --runs` lists them"
        )
    raise ConfigError(f"{len(found)} runs begin with {prefix!r}: {', '.join(found[:5])}; give more digits")
