"""Arguments of verbs: plain `key=value` pairs, and the runs that a verb is about."""

import atexit
import json
import math
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from pathlib import Path
from typing import Any

from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.configuration.registry import nearest
from harness.configuration.sections import RuntimeConfig, of_machine
from harness.configuration.yaml_value import read_yaml
from harness.execution.exit_codes import EXIT_INTERRUPTED
from harness.store import ResultStore, layout
from harness.store.foreign_text import escape_json

_PATHS = frozenset(
    ["data.path", "folder", "golds", "heldout", "model", "out", "regrade", "runtime.results", "samples", "task"]
)
_NULLS = ("", "null", "~")


def flag(text: str) -> dict[str, Any]:
    """Declare a switch that is off unless given, for a verb's `ARGUMENTS`."""
    return {"action": "store_true", "help": text}


def key_values(items: Sequence[str], keys: Sequence[str], verb: str, texts: Sequence[str] = ()) -> dict[str, Any]:
    """Arguments `key=value` as a mapping, values read as YAML.

    Values of `texts` are names and stay as they are spelled: `arm=1e-4`, `arm=grpo #2`, unless they stand in quotes (null is None all the
    same). Raises `ConfigError` for an unknown or repeated key, and for a value that is not YAML.
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
        is_name = key in texts and text[:1] not in ("'", '"') and text not in _NULLS
        values[key] = text if is_name else read_yaml(text, f"{verb}: {item}")
    return values


def take_values(
    items: Sequence[str], keys: Sequence[str], verb: str, texts: Sequence[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """The values that the arguments give to `keys`, as `key_values`, and the other arguments."""
    own = [item for item in items if item.partition("=")[0] in keys]
    return key_values(own, keys, verb, texts), [item for item in items if item not in own]


def take_switch(values: dict[str, Any], key: str) -> bool:
    """Take `key=true` or `key=false` out of the arguments. Raises `ConfigError` for another value."""
    value = values.pop(key, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{key}={value}; choose true or false")
    return value


def split(items: Sequence[str], key: str) -> tuple[list[str], list[str]]:
    """The values that `key=` gives, and the other items."""
    rest = [item for item in items if not item.startswith(f"{key}=")]
    return [item.partition("=")[2] for item in items if item.startswith(f"{key}=")], rest


def listed_names(value: Any) -> list[str]:
    """The names of a YAML list, or those between commas; none of null."""
    if value is None:
        return []
    return [str(item) for item in (value if isinstance(value, list) else str(value).split(","))]


# ---- runs ----

HELP = "experiment=NAME to take only its runs; runtime.results=DIR"


@dataclass(frozen=True)
class Selection:
    """A store, the experiments that were named, their runs (or all), and the runtime that the other overrides describe."""

    store: ResultStore
    experiments: list[str]
    run_ids: list[str]
    runtime: RuntimeConfig


def select(overrides: Sequence[str], keys: Sequence[str] = ()) -> Selection:
    """Read `experiment=NAME`, any number of them, and runtime overrides. Raises `ConfigError` for others, which tells the `keys`, too."""
    takes = "".join(f"{key}=, " for key in keys)
    names, rest = split(overrides, "experiment")
    for item in rest:
        if not of_machine(item):
            raise ConfigError(
                f"{item!r} is of no use here: stored runs are what they are; give {takes}experiment=NAME and runtime.* only"
            )
    runtime = compose_run(rest).runtime
    store = ResultStore(runtime.results)
    for name in names:
        require_stored(store, name)
    plans = [store.plan(name) for name in names]
    ids = [run_id for plan in plans for arm in plan["arms"] for run_id in arm["runs"].values()]
    return Selection(store, names, list(dict.fromkeys(ids)) if names else store.run_ids(), runtime)


def require_stored(store: ResultStore, name: str) -> None:
    """Raises `ConfigError` unless the store holds the experiment; one that is only declared is to be run first."""
    if name in store.plans():
        return
    if layout.is_safe(name) and (plan := layout.plan_file(store.root, name)).parent.is_dir():
        raise ConfigError(f"{plan} is missing; put it back, or run the experiment again: no finished run is run twice")
    if name in options("experiment"):
        root_override = "" if store.root == Path(RuntimeConfig.results) else f" runtime.results={store.root}"
        raise ConfigError(
            f"{_place(store)} holds nothing of experiment {name!r} yet; run it first: harness run experiment={name}{root_override}"
        )
    if not get_close_matches(name, store.plans()) and (matches := get_close_matches(name, options("experiment"), n=1)):
        raise ConfigError(
            f"{_place(store)} holds no experiment {name!r}; did you mean {matches[0]!r}, which is declared and was not run here?"
        )
    raise ConfigError(f"{_place(store)} holds no experiment {name!r}{nearest(name, store.plans())}")


def require_one_experiment(overrides: Sequence[str], verb: str) -> str:
    """The name that `experiment=` gives. Raises `ConfigError` for none or several, with the names in the store."""
    names, _ = split(overrides, "experiment")
    if len(names) == 1:
        return names[0]
    store = ResultStore(compose_run([item for item in overrides if of_machine(item)]).runtime.results)
    experiments = ", ".join(store.plans()) or "none yet"
    raise ConfigError(f"name one experiment: harness {verb} experiment=NAME; {_place(store)} holds {experiments}")


def _place(store: ResultStore) -> str:
    return str(store.root) if store.root.is_dir() else f"{store.root.absolute()} (there is no such folder)"


def may_be_run(name: str) -> bool:
    """Say if a name is spelled as a run's id or its beginning, with or without `@STEP`."""
    return re.fullmatch(r"[0-9a-f]{4,16}(@.*)?", name) is not None


def find_run_step(store: ResultStore, name: str) -> str:
    """The name with the beginning of a run's id completed: `ab12@0`. Raises as `find_run`."""
    prefix, at, step = name.partition("@")
    return f"{find_run(store, prefix)}{at}{step}"


def stored_name(store: ResultStore, name: str) -> str:
    """A path, or a name of a model, as it is; the beginning of a run's id completed. Raises as `find_run`."""
    return find_run_step(store, name) if may_be_run(name) and not Path(name).exists() else name


def find_run(store: ResultStore, prefix: str) -> str:
    """The one run whose id begins with `prefix`. Raises `ConfigError` where none or several do."""
    ids = [run_id for run_id in store.run_ids() if run_id.startswith(prefix)]
    if not ids:
        names = [path.name for path in sorted(layout.runs_dir(store.root).glob("*"))]
        unread = [name for name in names if name.startswith(prefix) and layout.RUN_ID.fullmatch(name)]
        if faults := [fault for run_id in unread if (fault := store.run(run_id).fault())]:
            raise ConfigError(faults[0])
        raise ConfigError(f"no run in {store.root} begins with {prefix!r}; `harness status --runs` lists them")
    if len(ids) > 1:
        raise ConfigError(f"{len(ids)} runs begin with {prefix!r}: {', '.join(ids[:5])}; give more digits")
    return ids[0]


class Exit(IntEnum):
    """The code that a verb ends with (docs/commands.md)."""

    DONE = 0
    FOUND = 1  # a run failed, or the verb found what it looks for: a difference, a fault, a conflict
    REFUSED = 2  # a configuration, an argument or the store is wrong; one line on standard error names the fix
    AGAIN = EXIT_INTERRUPTED  # stopped, or the work is going on elsewhere: repeat the command
    INTERRUPTED = 128 + signal.SIGINT
    CUT_OFF = 128 + signal.SIGPIPE  # the reader of the output went away


class Counter:
    """Call it with (count, total), at last with count == total: a bar with the time left on a terminal, elsewhere a line at the end."""

    def __init__(self, label: str) -> None:
        from rich.progress import Progress, TextColumn, TimeRemainingColumn

        from harness.execution.progress import Terminal

        columns = (TextColumn("{task.description}: {task.completed}/{task.total}", markup=False), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Terminal(sys.stderr))
        self._task = self._bar.add_task(label, start=False)

    def __call__(self, count: int, total: int) -> None:
        if not self._bar.live.is_started:
            atexit.register(self._end)  # which shows the cursor again, whatever ends this
            self._bar.start()
            self._bar.start_task(self._task)
        self._bar.update(self._task, completed=count, total=total)
        if count >= total:
            self._end()
            atexit.unregister(self._end)

    def _end(self) -> None:
        with suppress(ValueError):  # the stream may be closed by then
            self._bar.stop()


FAMILY = "harness.commands"


@dataclass(frozen=True)
class VerbAnswer:
    """Base of a verb's `Answer`, a dataclass of plain values and dataclasses. NaN and infinities become null (`float | None`)."""

    @property
    def exit_code(self) -> int:
        return Exit.DONE


def to_json(answer: VerbAnswer) -> str:
    """One JSON object, its keys in the order of the fields."""
    from pydantic import TypeAdapter

    plain = TypeAdapter(type(answer)).dump_python(answer, mode="json")
    return escape_json(json.dumps(_finite(plain), indent=1, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    """A plain value with None for numbers that are not finite, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list) else value
