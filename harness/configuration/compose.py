"""From overrides to run configurations, composed by Hydra; folders of one's own beside the shipped files, and errors that name the fix."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import os
import pickle
import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import Any

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

_HYDRA_WORDS = {  # what Hydra has a word of its own for
    "config_dir": "give --config-dir {}, as Hydra calls it",
    "launcher": "say where runs are sent as Hydra does: hydra/launcher=submitit_slurm, submitit_local, ray, joblib or processes",
}
_SHORT_KEYS = ("match", "checks")  # what stands for a key, beside groups
# Keys of a declaration whose mapping, given whole, takes the place of the file's.
REPLACED = ("experiment.seeds", "experiment.factors", "experiment.margin", "experiment.together")
_MAPPING = re.compile(r"[A-Za-z_][\w.]*=\{")
_own_folders: ContextVar[tuple[Path, ...]] = ContextVar("own_folders", default=())


def _run_directory(*, _root_: DictConfig) -> str:
    """Where Hydra writes `.hydra/` of a job: the directory of its run."""
    keys = [str(key) for key in _root_ if key not in ("hydra", "experiment", "claim")]
    values = OmegaConf.to_container(OmegaConf.masked_copy(_root_, keys), resolve=True)
    assert isinstance(values, dict)
    config = load({str(key): value for key, value in values.items()})
    return str(Path(config.runtime.results).resolve() / "runs" / run_id(config))


OmegaConf.register_new_resolver("twice", lambda number: 2 * number, replace=True)
OmegaConf.register_new_resolver("run_directory", _run_directory, replace=True)


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
        raise ConfigError(_place_hint(error.key, overrides) or f"{error}{_patch_hint(error.key, overrides)}") from error


def compose_values(overrides: Sequence[str]) -> dict[str, Any]:
    """Compose `config.yaml` with overrides into a plain mapping, interpolations resolved (`experiment` included). Raises `ConfigError`."""
    overrides = hydra_overrides(overrides)
    for item in overrides:
        if of_hydra(item):
            raise ConfigError(f"{item}: a setting of Hydra is for `harness run`; leave it out here")
    try:
        values = OmegaConf.to_container(_compose([*overrides, *searchpath()]), resolve=True)
    except (HydraException, OmegaConfBaseException, yaml.MarkedYAMLError) as error:
        raise ConfigError(explanation(error, overrides)) from error
    except ValueError as error:
        refuse_below_a_list(error, overrides)
        raise
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def of_hydra(override: str) -> bool:
    """Say if an override is a setting of Hydra, which only its application takes."""
    return re.match(r"[+~]*hydra[./@]", override) is not None


def hydra_overrides(overrides: Sequence[str]) -> list[str]:
    """The overrides as Hydra takes them. Raises `ConfigError` for what it would take and ignore.

    That is no member of a group, or an empty mapping; and words that Hydra has its own for.
    """
    # `checks=` is said so often that it may stand without its section.
    overrides = [f"runtime.{item}" if item.startswith("checks=") else item for item in overrides]
    # Hydra adds no key to a mapping that is given whole (`model.overrides={num_layers: 2}`); what is unknown is refused when it is loaded.
    overrides = [f"++{item}" if _MAPPING.match(item) else item for item in overrides]
    for item in overrides:
        key, _, value = item.lstrip("+").partition("=")
        if key in _HYDRA_WORDS:
            raise ConfigError(f"{item}: {_HYDRA_WORDS[key].format(value)}")
    for override in parse_overrides(overrides):
        group = override.key_or_group
        if override.is_sweep_override():
            continue
        if override.package is None and _is_group(group) and (override.is_delete() or override.value() is None):
            raise ConfigError(f"{override.input_line}: a run needs a member of {group}; choose {group}=NAME")
        if override.value() == {} and override.is_force_add() and group not in REPLACED:
            raise ConfigError(
                f"{str(override.input_line).lstrip('+')} changes nothing, since mappings are merged; take single entries out with "
                f"~{group}.NAME"
            )
    return overrides


def _compose(overrides: list[str]) -> DictConfig:
    """Compose by Hydra. It sets values when files are merged, so shipped files are merged once (0.1 s), values set on a copy (0.01 s)."""
    items = parse_overrides(overrides)
    values = [item for item in items if sets_a_value(item)]
    others = [item for item in items if not sets_a_value(item)]
    if not folders() and all(_is_choice(item) and not item.is_delete() for item in others):
        with contextlib.suppress(OmegaConfBaseException):  # Hydra says which override it was
            choices_alone = tuple(str(item.input_line) for item in others)
            config: DictConfig = pickle.loads(_merged(config_directory(), choices_alone))
            for item in values:
                OmegaConf.update(config, item.key_or_group, item.value(), force_add=item.is_force_add())
            return config
    return _composed(config_directory(), overrides)


@functools.lru_cache(maxsize=1024)
def _merged(directory: Path, overrides: tuple[str, ...]) -> bytes:
    """A pickled `DictConfig`, which loads ten times faster than it is copied."""
    return pickle.dumps(_composed(directory, overrides))


def _composed(directory: Path, overrides: Sequence[str]) -> DictConfig:
    """Compose in Hydra's application with what that has loaded, else by itself."""
    if GlobalHydra.instance().is_initialized():
        return hydra_compose("config", list(overrides))
    with initialize_config_dir(str(directory), version_base="1.3", job_name="harness"):
        return hydra_compose("config", list(overrides))


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
    """Raises `ConfigError` for a group that one list chooses twice, of which Hydra takes the last, and for a member that is chosen twice.

    A value may be given twice: the last one is meant.
    """
    first_lines: dict[str, str] = {}
    for group, item in choices(overrides):
        members = item.value() if isinstance(item.value(), list) else []
        if doubled := next((member for member in members if members.count(member) > 1), None):
            raise ConfigError(f"{item.input_line}: {doubled} stands twice; keep one of them")
        if first := first_lines.get(group):
            names = [line.partition("=")[2].strip("[]") for line in (first, item.input_line)]
            fix = f"give {group}=[{','.join(names)}]" if _takes_several(group) else "keep one of them"
            raise ConfigError(f"{first} {item.input_line}: the second would take the place of the first; {fix}")
        first_lines[group] = str(item.input_line)


def _takes_several(group: str) -> bool:
    """Say if several members of a group may be chosen together."""
    defaults = yaml.safe_load((config_directory() / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    return any(isinstance(entry, dict) and isinstance(entry.get(group), list) for entry in defaults)


def parse_overrides(overrides: Sequence[str]) -> list[Override]:
    """Read overrides by Hydra's grammar. Raises `ConfigError` for one that it cannot read."""
    try:
        items: list[Override] = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise ConfigError(explanation(error, overrides)) from error
    for item in items:
        _refuse_a_moved_range(item)
    return items


def _refuse_a_moved_range(item: Override) -> None:
    """Raise `ConfigError` where Hydra 1.3 sorts a range into other numbers: turned round, 1, 3, 5 of `range(1,6,2)` become 4, 2, 0."""
    sweep, line = item.value(), str(item.input_line)
    plain = re.search(r"range\([^()]*\)", line)
    if isinstance(sweep, RangeSweep) and "sort(" in line and plain:
        key = item.get_key_element()
        (given,) = OverridesParser.create().parse_overrides([f"{key}={plain[0]}"])
        wanted, found = (sorted(round(float(value), 12) for value in one.range()) for one in (given.value(), sweep))
        if wanted != found:
            values = ",".join(f"{value:g}" for value in (wanted if sweep.step > 0 else wanted[::-1]))
            raise ConfigError(f"{line}: Hydra sorts this range into other numbers; write {key}={values}")


class _Members:
    """What Hydra's parser asks for the members that a glob may mean; those in the user's folders are among them."""

    def get_group_options(self, group_name: str, **_: Any) -> list[str]:
        return options(group_name)


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """The jobs of a grid: one list of overrides a combination, in the order of Hydra's multirun. Raises `ConfigError`."""
    jobs: dict[str, list[str]] = {}
    try:
        for item in OverridesParser.create(config_loader=_Members()).parse_overrides(list(overrides)):
            if item.is_sweep_override() and not item.is_discrete_sweep():
                raise ConfigError(
                    f"{item.input_line}: an interval is for a search: add hydra/sweeper=search, or give range() or choice()"
                )
            sweeps, key = item.is_sweep_override(), item.get_key_element()
            values = item.sweep_string_iterator() if sweeps else [item.get_value_element_as_str()]
            jobs[key] = [f"{key}={value}" for value in values]
    except HydraException as error:
        raise ConfigError(explanation(error, overrides)) from error
    return [list(job) for job in itertools.product(*jobs.values())]


# ---- what is wrong with overrides that do not compose -----------------------------------------------------------------------


def _patch_hint(key: str, overrides: Sequence[str]) -> str:
    """Name the patch of the command line that wrote a key which its configuration does not have; empty without one."""
    for name, path in _chosen_files("patch", overrides):
        if OmegaConf.select(OmegaConf.load(path), key) is not None:
            return f" (patch={name} sets it; the members chosen here do not have it)"
    return ""


def _place_hint(key: str, overrides: Sequence[str]) -> str:
    """Name the file of a patch, rung or preset that says nothing of its place, so that its keys stand under its group; else empty."""
    if key not in ("patch", "rung", "preset"):
        return ""
    for name, path in _chosen_files(key, overrides):
        if not re.search(r"^# *@package +_global_", path.read_text(encoding="utf-8"), re.MULTILINE):
            return f"{key}={name} changes nothing: {path} must begin with the line `# @package _global_`"
    return ""


def _chosen_files(group: str, overrides: Sequence[str]) -> list[tuple[str, Path]]:
    """The members of a group that overrides choose, with their files."""
    values = [item.partition("=")[2].strip("[]") for item in overrides if item.startswith(f"{group}=")]
    names = [part.strip() for item in values for part in item.split(",")]
    return [(name, path) for name in names if (path := file_of(group, name)).exists()]


def explanation(error: BaseException, overrides: Sequence[str]) -> str:
    """The message of Hydra or OmegaConf, with the nearest valid key, option or group where one was mistyped, else with its cause."""
    message, cause = str(error), error.__cause__
    if isinstance(error, yaml.MarkedYAMLError):
        return f"a configuration file is no YAML: {' '.join(message.split())}"
    if isinstance(cause, ConfigError):
        return str(cause)
    first = message.strip().splitlines()[0] if message.strip() else "the configuration cannot be composed"
    if first.startswith("Error merging override") and cause is not None:
        first = f"{first}: {str(cause).strip().splitlines()[0]}"
    if first.endswith("composing config:"):
        first = " ".join([first, *message.strip().splitlines()[1:2]])
    if first.startswith("Ambiguous value"):
        return f"{first}; for a run of each value add -m"
    if "INTERVAL_SWEEP" in first:
        return "an interval is for a search: add hydra/sweeper=search, or give range() or choice()"
    word = re.match(r"Error parsing override '([\w./-]+)'$", first)
    if word:
        return f"{word[1]!r} is no key=value{_member_hint(word[1])}"
    if isinstance(error, OverrideParseException):
        return _unread(error.override) or first
    return _nearest_hint(message, overrides) or first


def _unread(override: str) -> str:
    """Say how to quote an override that Hydra's grammar cannot read; empty where it has no key."""
    key, equals, value = override.partition("=")
    if not equals or not re.fullmatch(r"[\w./@:+~-]+", key):
        return ""
    if value.startswith(("[", "{")):
        return f'{override} cannot be read: quote the texts inside the brackets, as in \'{key}=["a=1","b=2"]\''
    value = os.path.expanduser(value.strip("'\""))
    return f"{override} cannot be read; quote it: '{key}=\"{value}\"'"


def refuse_below_a_list(error: ValueError, overrides: Sequence[str]) -> None:
    """Raise `ConfigError` where OmegaConf took a part of an override's key for a place in a list."""
    word = re.fullmatch(r"invalid literal for int\(\) with base 10: '(\w+)'", str(error))
    for override in overrides if word else ():
        key, _, value = override.lstrip("+~").partition("=")
        section, found, _ = f"{key}.".partition(f".{word[1]}." if word else "")
        if found:
            whole = f"{{{key.removeprefix(f'{section}.')}: {value}}}" if section == "experiment.seeds" else "[...]"
            raise ConfigError(f"{key}={value}: {section} is a list; give it whole, '{section}={whole}'") from error


def _nearest_hint(message: str, overrides: Sequence[str]) -> str:
    """Say what is near a key, group or option that there is not; empty where the message is of something else."""
    key = re.search(r"Could not override '([^']+)'", message)
    if key and key[1].startswith("hydra."):
        return f"unknown key {key[1]!r}; the same command with `--cfg hydra -p {key[1].rpartition('.')[0]}`, without it and -m, lists them"
    if key and "No match in the defaults list" not in message:
        return f"unknown key {key[1]!r}{_nearest_key(key[1], overrides)}"
    if key:
        return f"unknown group {key[1]!r}{nearest(key[1], _groups())}"
    option = re.search(r"(?:Could not find|Could not load) '([^']+)/([^'/]+)'", message)
    if option is None:
        return ""
    if option[1].startswith("hydra/"):
        valid_options = re.findall(r"^\t(\S+)$", message, re.MULTILINE)
        return f"{option[1]} has no option {option[2]!r}{nearest(option[2], valid_options)}"
    return no_option(option[1], option[2])


def _groups() -> list[str]:
    """The groups that an argument chooses from; files inherit those of `declared`."""
    folder = config_directory()
    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir())
    return sorted(name for name in names if name != "declared")


def _member_hint(word: str) -> str:
    """The member of a group that a word without `=` may stand for."""
    members = {name: group for group in reversed(_groups()) for name in options(group)}
    members |= dict.fromkeys(options("experiment"), "experiment")
    matches = get_close_matches(word, members, n=1, cutoff=0.8)
    if matches:
        return f"; did you mean {members[matches[0]]}={matches[0]}?"
    return "; give KEY=VALUE, for example experiment=NAME"


def _nearest_key(key: str, overrides: Sequence[str]) -> str:
    """The nearest key of the chosen members; of a single word also the nearest group."""
    if key in _keys([]):
        return (
            f": it belongs to another choice of {key.partition('.')[0]}= than the one that is made, or the YAML of a member of your own "
            "does not list it"
        )
    keys = _keys([str(item.input_line) for _, item in choices(overrides) if not item.is_sweep_override()])
    if "." not in key:
        return nearest(key, sorted({*(name for name in keys if "." not in name), *_groups(), *_SHORT_KEYS}))
    section, _, leaf = key.rpartition(".")
    leaves = {name.removeprefix(f"{section}."): name for name in keys if name.rpartition(".")[0] == section}
    if matches := get_close_matches(leaf, leaves, n=1):
        return f"; did you mean {leaves[matches[0]]!r}?"
    if namesakes := [name for name in sorted(keys) if name.endswith(f".{leaf}")]:
        return f"; did you mean {' or '.join(map(repr, namesakes))}?"
    if leaves:
        return f"; {section} has {', '.join(sorted(leaves))}"
    matches = get_close_matches(key, keys, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else "; `harness keys` lists them"


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
        raise ConfigError(
            f"--config-dir {name}: no YAML file in a group below it; an experiment is {name}/experiment/NAME.yaml"
        )
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


def searchpath() -> list[str]:
    """The folders of one's own as overrides: Hydra's search path, and for workers those that hold members in Python."""
    if not folders():
        return []
    member_folders = own_members(folders())
    overrides = [f"runtime.config_dir={_quote(member_folders)}"] if member_folders else []
    return [f"hydra.searchpath={_quote(folders(), 'file://')}", *overrides]


def _quote(paths: Sequence[Path], scheme: str = "") -> str:
    return f"[{','.join(quoted(f'{scheme}{path}') for path in paths)}]"


def quoted(text: str) -> str:
    """A text as Hydra's grammar takes it, whatever its letters."""
    return QuotedString(text, Quote.single).with_quotes()
