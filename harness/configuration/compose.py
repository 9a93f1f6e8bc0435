"""From overrides to run configurations, composed by Hydra; folders of one's own beside the shipped files, and errors that name the fix."""

import contextlib
import copy
import functools
import itertools
import os
import pickle
import re
import threading
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hydra
import omegaconf
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType, Quote, QuotedString, RangeSweep
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.configuration.error import ConfigError, UnknownKeyError
from harness.configuration.identity import flatten, run_id
from harness.configuration.registry import nearest, own_members
from harness.configuration.schema import RunConfig, load

_SHORT_KEYS = ("match", "checks")  # what stands for a key, beside groups
# Keys of a declaration whose mapping, given whole, takes the place of the file's.
REPLACED = ("experiment.seeds", "experiment.factors", "experiment.margin", "experiment.together", "experiment.tune")
_MAPPING = re.compile(r"[A-Za-z_][\w.]*=\{")
_LOCK = threading.RLock()
_own_folders: ContextVar[tuple[Path, ...]] = ContextVar("own_folders", default=())


def _run_directory(*, _root_: DictConfig) -> str:
    """Where Hydra writes `.hydra/` of a job: the directory of its run."""
    keys = [str(key) for key in _root_ if key not in ("hydra", "experiment", "claim")]
    values = OmegaConf.to_container(OmegaConf.masked_copy(_root_, keys), resolve=True)
    assert isinstance(values, dict)
    config = load({str(key): value for key, value in values.items()})
    return str(Path(config.runtime.results).resolve() / "runs" / run_id(config))


# OmegaConf 2.4 has another name for it, which meant something else before.
_register = getattr(
    OmegaConf, "register_new_resolver" if omegaconf.__version__.startswith("2.3") else "register_resolver"
)
_register("twice", lambda number: 2 * number, replace=True)
_register("run_directory", _run_directory, replace=True)
# Hydra 1.3 warns where no version is asked for, 1.4 where one is; both behave alike with this.
VERSION_BASE: dict[str, Any] = {"version_base": "1.3"} if hydra.__version__.startswith("1.3") else {}


def compose_run(overrides: Sequence[str]) -> RunConfig:
    """Return the run configuration that overrides describe; composed once a process, every caller gets a copy. Raises `ConfigError`."""
    return copy.deepcopy(_run_of(tuple(folders()), tuple(overrides)))


@functools.lru_cache(maxsize=4096)
def _run_of(_: tuple[Path, ...], overrides: tuple[str, ...]) -> RunConfig:
    values = compose_values(overrides)
    values.pop("experiment", None)
    try:
        return load(values)
    except UnknownKeyError as error:
        files = " and ".join(item for item in overrides if item.startswith(("patch=", "rung=", "preset=")))
        hint = f" ({files} may set it: the members chosen here do not have it)" * bool(files)
        raise ConfigError(f"{error}{hint}") from error


def compose_values(overrides: Sequence[str], primary: str = "compose") -> dict[str, Any]:
    """Compose `conf/hydra/PRIMARY.yaml` with overrides into a plain mapping, interpolations resolved. Raises `ConfigError`."""
    overrides = hydra_overrides(overrides)
    for item in overrides:
        if of_hydra(item):
            raise ConfigError(f"{item}: a setting of Hydra is for `harness run`; leave it out here")
    try:
        values = OmegaConf.to_container(_compose(overrides, primary), resolve=True)
    except (HydraException, OmegaConfBaseException, yaml.MarkedYAMLError) as error:
        raise ConfigError(explanation(error, overrides)) from error
    except ValueError as error:
        refuse_below_a_list(error, overrides)
        raise
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def check_launcher(overrides: Sequence[str]) -> None:
    """Raises `ConfigError` where Hydra knows no such launcher (`hydra/launcher=NAME`), or it has no such setting."""
    try:
        with initialize_config_dir(str(config_directory()), job_name="harness", **VERSION_BASE):
            hydra_compose("config", list(overrides), return_hydra_config=True)
    except HydraException as error:
        hint = "harness run hydra/launcher=NAME --cfg hydra -p hydra.launcher lists its settings"
        raise ConfigError(f"{explanation(error, overrides)}; {hint}") from error


def of_hydra(override: str) -> bool:
    """Say if an override is a setting of Hydra, which only its application takes."""
    return re.match(r"[+~]*hydra[./@]", override) is not None


def hydra_overrides(overrides: Sequence[str]) -> list[str]:
    """The overrides as Hydra takes them. Raises `ConfigError` for what it would take and ignore: no member of a group, an empty mapping."""
    # `checks=` is said so often that it may stand without its section.
    overrides = [f"runtime.{item}" if item.startswith("checks=") else item for item in overrides]
    # Hydra adds no key to a mapping that is given whole (`model.overrides={num_layers: 2}`); what is unknown is refused when it is loaded.
    overrides = [f"++{item}" if _MAPPING.match(item) else item for item in overrides]
    for override in parse_overrides(overrides):
        group = override.key_or_group
        if override.is_sweep_override():
            continue
        if override.package is None and _is_group(group) and (override.is_delete() or override.value() is None):
            raise ConfigError(f"{override.input_line}: a run needs a member of {group}; choose {group}=NAME")
        if override.value() == {} and override.is_force_add() and group not in REPLACED:
            raise ConfigError(f"{group}={{}} changes nothing: take single entries out with ~{group}.NAME")
    return overrides


def _compose(overrides: list[str], primary: str) -> DictConfig:
    """Compose by Hydra. It sets values when files are merged, so shipped files are merged once (0.1 s), values set on a copy (0.01 s)."""
    items = parse_overrides(overrides)
    values = [item for item in items if sets_a_value(item)]
    others = [item for item in items if not sets_a_value(item)]
    if not folders() and all(_is_choice(item) and not item.is_delete() for item in others):
        with contextlib.suppress(OmegaConfBaseException):  # Hydra says which override it was
            choices_alone = tuple(str(item.input_line) for item in others)
            config: DictConfig = pickle.loads(_merged(config_directory(), choices_alone, primary))
            for item in values:
                OmegaConf.update(config, item.key_or_group, item.value(), force_add=item.is_force_add())
            return config
    return _composed(config_directory(), overrides, primary)


@functools.lru_cache(maxsize=1024)
def _merged(directory: Path, overrides: tuple[str, ...], primary: str) -> bytes:
    """A pickled `DictConfig`, which loads ten times faster than it is copied."""
    return pickle.dumps(_composed(directory, overrides, primary))


def _composed(directory: Path, overrides: Sequence[str], primary: str) -> DictConfig:
    """Compose in Hydra's application with what that has loaded, else by itself; one thread at a time, since Hydra is global."""
    with _LOCK:
        if GlobalHydra.instance().is_initialized():
            return hydra_compose("config", [*overrides, *searchpath()])
        with initialize_config_dir(str(directory / "hydra"), job_name="harness", **VERSION_BASE):
            return hydra_compose(primary, [*overrides, *searchpath(f"once://{directory}")])


def sets_a_value(item: Override) -> bool:
    """Say if an override gives a key a value, rather than choosing files, adding, deleting or sweeping."""
    is_value = item.type in (OverrideType.CHANGE, OverrideType.FORCE_ADD) and item.package is None
    return is_value and not (_is_choice(item) or item.is_hydra_override() or item.is_sweep_override())


def _is_choice(item: Override) -> bool:
    """Say if an override chooses members of a group, rather than giving a key a value."""
    return _is_group(item.key_or_group) and not isinstance(item.value(), dict)


def _is_group(key: str) -> bool:
    return "/" in key or (config_directory() / key).is_dir()


def choices(overrides: Sequence[str]) -> list[tuple[str, Override]]:
    """The overrides that choose members, each with its group (and the place of the members, `benchmark@evaluation.benchmarks.aime24`)."""
    return [(item.get_key_element().lstrip("+~"), item) for item in parse_overrides(overrides) if _is_choice(item)]


def refuse_second_choice(overrides: Sequence[str]) -> None:
    """Raise `ConfigError` for a group that one list chooses twice, of which Hydra takes the last, and for a member chosen twice."""
    first_lines: dict[str, str] = {}
    for group, item in choices(overrides):
        members = item.value() if isinstance(item.value(), list) else []
        if doubled := next((member for member in members if members.count(member) > 1), None):
            raise ConfigError(f"{item.input_line}: {doubled} stands twice; keep one of them")
        if first := first_lines.get(group):
            names = [line.partition("=")[2].strip("[]") for line in (first, item.input_line)]
            both = f"{first} {item.input_line}: the second would take the place of the first; keep one of them"
            raise ConfigError(f"{both}, or give {group}=[{','.join(names)}] where a run takes several")
        first_lines[group] = str(item.input_line)


def parse_overrides(overrides: Sequence[str]) -> list[Override]:
    """Read overrides by Hydra's grammar. Raises `ConfigError` for one that it cannot read."""
    try:
        items: list[Override] = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise ConfigError(explanation(error, overrides)) from error
    for item in items:
        # Hydra 1.3 turns 1, 3, 5 of range(1,6,2) into 4, 2, 0.
        if isinstance(item.value(), RangeSweep) and re.search(r"sort\s*\(", str(item.input_line)):
            raise ConfigError(f"{item.input_line}: Hydra sorts a range into other numbers; write its values")
    return items


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """The jobs of a grid: one list of overrides a combination, in the order of Hydra's multirun. Raises `ConfigError`."""
    jobs: dict[str, list[str]] = {}
    # A glob may mean members in the user's folders, too.
    members: Any = SimpleNamespace(get_group_options=lambda group_name, **_: options(group_name))
    try:
        for item in OverridesParser.create(config_loader=members).parse_overrides(list(overrides)):
            if item.is_sweep_override() and not item.is_discrete_sweep():
                raise ConfigError(f"{item.input_line}: an interval is for experiment.search.space; give range()")
            sweeps, key = item.is_sweep_override(), item.get_key_element()
            values = item.sweep_string_iterator() if sweeps else [item.get_value_element_as_str()]
            jobs[key] = [f"{key}={value}" for value in values]
    except HydraException as error:
        raise ConfigError(explanation(error, overrides)) from error
    return [list(job) for job in itertools.product(*jobs.values())]


# ---- what is wrong with overrides that do not compose -----------------------------------------------------------------------


def explanation(error: BaseException, overrides: Sequence[str]) -> str:
    """What Hydra or OmegaConf says in one line, with the nearest valid key, option or group where one was mistyped."""
    message, cause = " ".join(str(error).split()), error.__cause__
    if isinstance(cause, ConfigError):
        return str(cause)
    if isinstance(error, yaml.MarkedYAMLError):
        return f"a configuration file is no YAML: {message}"
    if isinstance(error, OverrideParseException):
        return _unread(error.override)
    if "Error merging override" in message:
        return f"{message}: {str(cause).strip().partition(chr(10))[0]}"
    option = re.search(r"Could not (?:find|load) '([^']+)/([^'/]+)'", message)
    if option and not option[1].startswith("hydra/"):
        return no_option(option[1], option[2])
    key = re.search(r"Could not override '([^']+)'", message)
    return f"unknown key {key[1]!r}{_nearest_key(key[1], overrides)}" if key and not of_hydra(key[1]) else message


def _unread(override: str) -> str:
    """Say how to write an override that Hydra's grammar cannot read."""
    key, equals, value = override.partition("=")
    if not equals:
        members = {name: group for group in (*reversed(_groups()), "experiment") for name in options(group)}
        matches = get_close_matches(key, members, n=1, cutoff=0.8)
        hint = (
            f"did you mean {members[matches[0]]}={matches[0]}?"
            if matches
            else "give KEY=VALUE, for example experiment=NAME"
        )
        return f"{key!r} is no key=value; {hint}"
    text = os.path.expanduser(value.strip("'\""))
    form = '["a=1","b=2"]' if value.startswith(("[", "{")) else f'"{text}"'
    return f"{override} cannot be read; quote the texts in it, as in '{key}={form}'"


def refuse_below_a_list(error: ValueError, overrides: Sequence[str]) -> None:
    """Raise `ConfigError` where OmegaConf took a part of an override's key for a place in a list."""
    if word := re.fullmatch(r"invalid literal for int\(\) with base 10: '(\w+)'", str(error)):
        names = " ".join(item for item in overrides if f".{word[1]}" in item)
        raise ConfigError(f"{names}: what .{word[1]} stands in is a list; give it whole, KEY=[...]") from error


def _groups() -> list[str]:
    """The groups that an argument chooses from; files inherit those of `declared`."""
    folder = config_directory()
    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir())
    return sorted(name for name in names if name not in ("declared", "hydra"))


def _nearest_key(key: str, overrides: Sequence[str]) -> str:
    """The nearest key of the chosen members; of a single word also the nearest group."""
    if key in _keys([]):
        return f": it is of another choice of {key.partition('.')[0]}=, or the YAML of a member of your own does not list it"
    chosen = [str(item.input_line) for _, item in choices(overrides) if not item.is_sweep_override()]
    keys = _keys(chosen) if chosen != list(overrides) else set[str]()  # choices that do not compose alone have no keys
    section, _, leaf = key.rpartition(".")
    leaves = [name.rpartition(".")[2] for name in keys if name.rpartition(".")[0] == section]
    leaves += [] if section else [*_groups(), *_SHORT_KEYS]
    namesakes = [name for name in sorted(keys) if name.endswith(f".{leaf}")]
    if namesakes and not get_close_matches(leaf, leaves):
        return f"; did you mean {' or '.join(map(repr, namesakes))}?"
    return nearest(leaf, leaves) if leaves else "; `harness keys` lists them"


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


@contextlib.contextmanager
def config_dir(*names: str) -> Iterator[None]:
    """Look for files and members in these folders, too, as long as the context lasts (`--config-dir`). Raises `ConfigError`."""
    token = _own_folders.set((*_own_folders.get(), *map(_folder, names)))
    try:
        yield
    finally:
        _own_folders.reset(token)


def _folder(name: str) -> Path:
    folder = Path(name).expanduser().resolve()
    if not folder.is_dir():
        raise ConfigError(f"--config-dir {name}: there is no folder {folder}")
    files = sorted(folder.glob("*/**/*.yaml"))
    if not files:
        raise ConfigError(f"--config-dir {name}: no YAML file in a group below it, such as experiment/NAME.yaml")
    duplicate = next((file for file in files if (config_directory() / file.relative_to(folder)).exists()), None)
    if duplicate is not None:
        raise ConfigError(f"{duplicate} has the name of a shipped file; rename it")
    return folder


def folders() -> list[Path]:
    """The folders of `--config-dir`."""
    return list(_own_folders.get())


def folder_flags() -> list[str]:
    """The folders of `--config-dir` as one types them here, below this folder by their relative path."""
    cwd = Path.cwd()
    paths = (path.relative_to(cwd) if path.is_relative_to(cwd) else path for path in _own_folders.get())
    return [word for path in paths for word in ("--config-dir", str(path))]


def options(group: str) -> list[str]:
    """The members of a configuration group, for example `rung` or `algorithm/kl`, sorted; shipped and one's own."""
    places = [config_directory(), *folders()]
    return sorted(path.stem for folder in places for path in (folder / group).glob("*.yaml"))


def values_named(group: str) -> set[str]:
    """Every text that the files of a group give a key: what of a place named elsewhere is known on this machine."""
    texts: set[str] = set()
    for name in options(group):
        values = yaml.safe_load(file_of(group, name).read_text(encoding="utf-8"))
        texts |= {value for value in flatten(values or {}).values() if isinstance(value, str)}
    return texts


def file_of(group: str, name: str) -> Path:
    """The file of a group's member, shipped or one's own."""
    places = [folder / group / f"{name}.yaml" for folder in (config_directory(), *folders())]
    return next((path for path in places if path.exists()), places[0])


def no_option(group: str, name: str) -> str:
    """Say that a group has no such option, and what is near it."""
    return f"{group} has no option {name!r}{nearest(name, options(group))}"


def searchpath(*shipped: str) -> list[str]:
    """The folders of one's own as overrides: Hydra's search path after `shipped`, and for workers those that hold members in Python."""
    places = [*shipped, *(f"file://{folder}" for folder in folders())]
    member_folders = own_members(folders()) if folders() else []
    overrides = [f"runtime.config_dir={_quote(member_folders)}"] if member_folders else []
    return [f"hydra.searchpath={_quote(places)}", *overrides] if places else []


def _quote(places: Sequence[Path | str]) -> str:
    return f"[{','.join(quoted(str(place)) for place in places)}]"


def quoted(text: str) -> str:
    """A text as Hydra's grammar takes it, whatever its letters."""
    return QuotedString(text, Quote.single).with_quotes()
