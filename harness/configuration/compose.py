"""From overrides to run configurations: Hydra composes; directories, status and processes are ours."""

from __future__ import annotations

import copy
import functools
import importlib.util
import itertools
import pickle
import re
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.configuration.error import ConfigError, UnknownKeyError
from harness.configuration.identity import flatten
from harness.configuration.registry import nearest, own_members
from harness.configuration.schema import RunConfig, load

__all__ = ["compose_run", "compose_values", "config_directory", "expand", "options", "parse_overrides"]

CONFIG_DIR = "config_dir"
_WORDS = (CONFIG_DIR, "match", "checks")  # what stands for a key, beside groups
_MAPPING = re.compile(r"[A-Za-z_][\w.]*=\{")

OmegaConf.register_new_resolver("twice", lambda number: 2 * number, replace=True)


def compose_run(overrides: Sequence[str]) -> RunConfig:
    """Return the run configuration that overrides describe; composed once a process, every caller gets a copy. Raises `ConfigError`."""
    return copy.deepcopy(_run_of(str(config_directory()), tuple(overrides)))


@functools.lru_cache(maxsize=4096)
def _run_of(directory: str, overrides: tuple[str, ...]) -> RunConfig:
    values = compose_values(overrides)
    values.pop("experiment", None)
    try:
        return load(values)
    except UnknownKeyError as error:
        raise ConfigError(
            _misplaced(error.key, overrides) or f"{error}{_set_by(error.key, overrides)}"
        ) from error


def compose_values(overrides: Sequence[str]) -> dict[str, Any]:
    """Compose `config.yaml` with overrides into a plain mapping, interpolations resolved (`experiment` included). Raises `ConfigError`."""
    # `checks=` is said so often that it may stand without its section.
    overrides = [f"runtime.{item}" if item.startswith("checks=") else item for item in overrides]
    # Hydra adds no key to a mapping that is given whole (`model.overrides={num_layers: 2}`); what is unknown is refused when it is loaded.
    overrides = [f"++{item}" if _MAPPING.match(item) else item for item in overrides]
    _refuse_without_effect(overrides)
    try:
        values = OmegaConf.to_container(_composed(searched(overrides)), resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_explained(str(error), error.__cause__, overrides)) from error
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"a configuration file is no YAML: {' '.join(str(error).split())}") from error
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _refuse_without_effect(overrides: Sequence[str]) -> None:
    """Raises `ConfigError` for what Hydra would take and ignore: settings of Hydra itself, no member of a group, an empty mapping."""
    for item in overrides:
        if re.match(r"[+~]*hydra[./@]", item):
            raise ConfigError(
                f"{item}: settings of Hydra's own application have no effect here; leave it out (where runs are sent: launcher=local|slurm|"
                "ray; where results go: runtime.results=DIR)"
            )
    for item in parse_overrides([item for item in overrides if not item.startswith(f"{CONFIG_DIR}=")]):
        group = item.key_or_group
        if item.package is None and _is_group(group) and (item.is_delete() or item.value() is None):
            raise ConfigError(f"{item.input_line}: a run needs a member of {group}; choose {group}=NAME")
        if item.value() == {} and item.is_force_add():
            raise ConfigError(
                f"{item.input_line.lstrip('+')} changes nothing, since mappings are merged; take single entries out with ~{group}.NAME"
            )


def _composed(overrides: Sequence[str]) -> DictConfig:
    """Return what `hydra.compose` returns.

    Chosen files are merged once a process (0.1 s), and values are set on a copy (8 ms), so that a grid of a thousand arms takes seconds.
    Hydra, too, sets values last.
    """
    values = [item for item in parse_overrides(overrides) if sets_a_value(item)]
    lines = {item.input_line for item in values}
    chosen = tuple(item for item in overrides if item not in lines)
    directory = str(config_directory())
    config: DictConfig = pickle.loads(_merged(directory, chosen))
    try:
        for item in values:
            OmegaConf.update(config, item.key_or_group, item.value(), force_add=item.is_force_add())
    except OmegaConfBaseException:
        config = pickle.loads(_merged(directory, tuple(overrides)))  # Hydra says which override it was
    return config


@functools.lru_cache(maxsize=1024)
def _merged(directory: str, overrides: tuple[str, ...]) -> bytes:
    """Return a pickled `DictConfig`: loading it is ten times faster than a deep copy."""
    with initialize_config_dir(directory, version_base="1.3", job_name="harness"):
        return pickle.dumps(hydra_compose("config", list(overrides)))


def sets_a_value(item: Override) -> bool:
    """Say if an override gives a key a value, rather than choosing files, adding, deleting or sweeping."""
    plain = item.type in (OverrideType.CHANGE, OverrideType.FORCE_ADD) and item.package is None
    return plain and not (_chooses(item) or item.is_hydra_override() or item.is_sweep_override())


def _chooses(item: Override) -> bool:
    """Say if an override chooses members of a group, rather than giving a key a value."""
    return _is_group(item.key_or_group) and not isinstance(item.value(), dict)


def _is_group(key: str) -> bool:
    return "/" in key or (config_directory() / key).is_dir()


def choices(overrides: Sequence[str]) -> list[tuple[str, Override]]:
    """The overrides that choose members, each with its group (and the place of the members, `benchmark@evaluation.benchmarks.aime24`)."""
    parsed = parse_overrides([item for item in overrides if not item.startswith(f"{CONFIG_DIR}=")])
    return [(item.get_key_element().lstrip("+~"), item) for item in parsed if _chooses(item)]


def refuse_second_choice(overrides: Sequence[str]) -> None:
    """Raises `ConfigError` for a group that one list chooses twice, of which Hydra takes the last; of a value it is meant to."""
    chosen: dict[str, str] = {}
    for group, item in choices(overrides):
        if first := chosen.get(group):
            names = [line.partition("=")[2].strip("[]") for line in (first, item.input_line)]
            several = f"give {group}=[{','.join(names)}]" if _takes_several(group) else "keep one of them"
            raise ConfigError(
                f"{first} {item.input_line}: the second would take the place of the first; {several}"
            )
        chosen[group] = str(item.input_line)


def _takes_several(group: str) -> bool:
    """Say if several members of a group may be chosen together."""
    defaults = yaml.safe_load((config_directory() / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    return any(isinstance(entry, dict) and isinstance(entry.get(group), list) for entry in defaults)


def parse_overrides(overrides: Sequence[str]) -> list[Override]:
    """Read overrides by Hydra's grammar. Raises `ConfigError` for one that it cannot read."""
    try:
        return OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise ConfigError(_explained(str(error), None, overrides)) from error


class _Members:
    """What Hydra's parser asks for the members that a glob may mean; those in the user's folders are among them."""

    def __init__(self, overrides: Sequence[str]) -> None:
        self._overrides = overrides

    def get_group_options(self, group_name: str, **_: Any) -> list[str]:
        return options(group_name, self._overrides)


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """Expand choices, ranges and globs to one list of overrides a job, in the order of Hydra's multirun. Raises `ConfigError`."""
    jobs: dict[str, list[str]] = {}
    try:
        parsed = OverridesParser.create(config_loader=_Members(overrides)).parse_overrides(list(overrides))
        for item in parsed:
            key = item.get_key_element()
            if item.is_sweep_override() and not item.is_discrete_sweep():
                raise ConfigError(
                    f"{item.input_line}: an interval is for `harness sweep`; give range() or choice()"
                )
            sweeps = item.is_sweep_override()
            values = item.sweep_string_iterator() if sweeps else [item.get_value_element_as_str()]
            jobs[key] = [f"{key}={value}" for value in values]
    except HydraException as error:
        raise ConfigError(_explained(str(error), None, overrides)) from error
    return [list(job) for job in itertools.product(*jobs.values())]


# ---- what is wrong with overrides that do not compose -----------------------------------------------------------------------


def _set_by(key: str, overrides: Sequence[str]) -> str:
    """Name the patch of the command line that wrote a key which its configuration does not have; empty without one."""
    for name, path in _chosen_files("patch", overrides):
        if OmegaConf.select(OmegaConf.load(path), key) is not None:
            return f" (patch={name} sets it; the members chosen here do not have it)"
    return ""


def _misplaced(key: str, overrides: Sequence[str]) -> str:
    """Name the file of a patch, rung or preset that says nothing of its place, so that its keys stand under its group; else empty."""
    if key not in ("patch", "rung", "preset"):
        return ""
    for name, path in _chosen_files(key, overrides):
        if not re.search(r"^# *@package +_global_", path.read_text(encoding="utf-8"), re.MULTILINE):
            return f"{key}={name} changes nothing: {path} must begin with the line `# @package _global_`"
    return ""


def _chosen_files(group: str, overrides: Sequence[str]) -> list[tuple[str, Path]]:
    """The members of a group that overrides choose, with their files."""
    chosen = [item.partition("=")[2].strip("[]") for item in overrides if item.startswith(f"{group}=")]
    names = [part.strip() for item in chosen for part in item.split(",")]
    return [(name, path) for name in names if (path := file_of(group, name, overrides)).exists()]


def _explained(message: str, cause: BaseException | None, overrides: Sequence[str]) -> str:
    """Hydra's message, with the nearest valid key, option or group appended where one was mistyped, else with its cause."""
    first = message.strip().splitlines()[0] if message.strip() else "the configuration cannot be composed"
    if first.startswith("Error merging override") and cause is not None:
        first = f"{first}: {str(cause).strip().splitlines()[0]}"
    word = re.match(r"Error parsing override '([\w./-]+)'$", first)
    if word:
        return f"{word[1]!r} is no key=value{_meant(word[1], overrides)}"
    key = re.search(r"Could not override '([^']+)'", message)
    if key and "No match in the defaults list" not in message:
        return f"unknown key {key[1]!r}{_nearest_key(key[1], overrides)}"
    if key:
        return f"unknown group {key[1]!r}{nearest(key[1], _groups())}"
    option = re.search(r"(?:Could not find|Could not load) '([^']+)/([^'/]+)'", message)
    if option:
        return no_option(option[1], option[2], overrides)
    return first


def _groups() -> list[str]:
    folder = config_directory()
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir())


def _meant(word: str, overrides: Sequence[str]) -> str:
    """The member of a group that a word without `=` may stand for."""
    members = {name: group for group in reversed(_groups()) for name in options(group, overrides)}
    members |= dict.fromkeys(options("experiment", overrides), "experiment")
    close = get_close_matches(word, members, n=1, cutoff=0.8)
    if close:
        return f"; did you mean {members[close[0]]}={close[0]}?"
    return "; give KEY=VALUE, for example experiment=NAME"


def _nearest_key(key: str, overrides: Sequence[str]) -> str:
    """The nearest key of the chosen members; of a single word also the nearest group."""
    if key in _keys([]):
        return (
            f": it belongs to another choice of {key.partition('.')[0]}= than the one that is made, or the YAML of a member of your own "
            "does not list it"
        )
    folders = [item for item in overrides if item.startswith(f"{CONFIG_DIR}=")]
    keys = _keys([*folders, *(str(item.input_line) for _, item in choices(overrides))])
    if "." not in key:
        return nearest(key, sorted({*(name for name in keys if "." not in name), *_groups(), *_WORDS}))
    close = get_close_matches(key, keys, n=1)
    return f"; did you mean {close[0]!r}?" if close else "; `harness keys` lists them"


def _keys(overrides: Sequence[str]) -> set[str]:
    """Every key of a configuration, and every prefix of one."""
    leaves = set(flatten(compose_values(overrides)))
    return leaves | {".".join(leaf.split(".")[:n]) for leaf in leaves for n in range(1, leaf.count(".") + 1)}


@functools.cache
def config_directory() -> Path:
    """The folder of YAML files: `conf/` beside the package in a checkout, `_conf` inside it in an installed wheel."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parent / "conf", package / "_conf"):
        if (folder / "config.yaml").exists():
            return folder
    raise ConfigError(f"no configuration files beside {package}; reinstall rlvr-harness")


def options(group: str, overrides: Sequence[str] = ()) -> list[str]:
    """The members of a configuration group, for example `rung` or `algorithm/kl`, sorted; with those of `config_dir=` overrides."""
    folders = [config_directory(), *folders_of(overrides)]
    return sorted(path.stem for folder in folders for path in (folder / group).glob("*.yaml"))


def file_of(group: str, name: str, overrides: Sequence[str]) -> Path:
    """The file of a group's member, shipped or in a folder that `config_dir=` overrides name."""
    places = [folder / group / f"{name}.yaml" for folder in (config_directory(), *folders_of(overrides))]
    return next((path for path in places if path.exists()), places[0])


def no_option(group: str, name: str, overrides: Sequence[str] = ()) -> str:
    """Say that a group has no such option, and what is near it."""
    return f"{group} has no option {name!r}{nearest(name, options(group, overrides))}"


def folders_of(overrides: Sequence[str]) -> list[Path]:
    """The folders of installed packages and those that `config_dir=` overrides name, absolute. Raises `ConfigError`."""
    found = list(installed_folders())
    for item in overrides:
        key, _, value = item.partition("=")
        if key.lstrip("+") != CONFIG_DIR:
            continue
        folder = Path(value.strip("'\"")).expanduser().resolve()
        if not folder.is_dir():
            raise ConfigError(f"{item}: there is no folder {folder}")
        if not any(folder.glob("*/**/*.yaml")):
            raise ConfigError(
                f"{item}: no YAML file in a group below it; an experiment is {value}/experiment/NAME.yaml"
            )
        found.append(folder)
    return found


@functools.cache
def installed_folders() -> tuple[Path, ...]:
    """The folders of packages that say `[project.entry-points."rlvr_harness.config_dir"] NAME = "PACKAGE"`."""
    points = sorted(entry_points(group="rlvr_harness.config_dir"), key=lambda point: point.name)
    specs = [importlib.util.find_spec(point.value) for point in points]
    return tuple(
        Path(spec.submodule_search_locations[0]) for spec in specs if spec and spec.submodule_search_locations
    )


def searched(overrides: Sequence[str]) -> list[str]:
    """The overrides with their folders as Hydra's search path. Raises `ConfigError` for a file with the name of a shipped one."""
    folders = folders_of(overrides)
    if not folders:
        return list(overrides)
    for folder in folders:
        names = (path.relative_to(folder) for path in sorted(folder.glob("*/**/*.yaml")))
        taken = next((name for name in names if (config_directory() / name).exists()), None)
        if taken is not None:
            raise ConfigError(f"{folder / taken} has the name of a shipped file; rename it")
    rest = [item for item in overrides if item.partition("=")[0].lstrip("+") != CONFIG_DIR]
    members = own_members(folders)
    recorded = [f"runtime.config_dir={_quoted(members)}"] if members else []
    return [f"hydra.searchpath={_quoted(folders, 'file://')}", *rest, *recorded]


def _quoted(folders: Sequence[Path], scheme: str = "") -> str:
    return "[{}]".format(",".join("'{}{}'".format(scheme, str(one).replace("'", r"\'")) for one in folders))
