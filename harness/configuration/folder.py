"""The folder of configuration files, the members of its groups, and `config_dir=FOLDER`: files of the user's own in the same groups."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

from harness.configuration.error import ConfigError
from harness.configuration.families import own_members
from harness.configuration.registry import nearest

KEY = "config_dir"


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
    """The folders of installed packages and those that `config_dir=` overrides name, absolute.

    Raises:
        ConfigError: a folder that is not there, or that has no groups.
    """
    found = list(installed_folders())
    for item in overrides:
        key, _, value = item.partition("=")
        if key.lstrip("+") != KEY:
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
    """The overrides with the folders that they name as Hydra's search path, behind the shipped files.

    Raises:
        ConfigError: as `folders_of`, or a file that has the name of a shipped one, which would win without a word.
    """
    folders = folders_of(overrides)
    if not folders:
        return list(overrides)
    for folder in folders:
        names = (path.relative_to(folder) for path in sorted(folder.glob("*/**/*.yaml")))
        taken = next((name for name in names if (config_directory() / name).exists()), None)
        if taken is not None:
            raise ConfigError(f"{folder / taken} has the name of a shipped file; rename it")
    rest = [item for item in overrides if item.partition("=")[0].lstrip("+") != KEY]
    members = own_members(folders)
    recorded = [f"runtime.config_dir={_quoted(members)}"] if members else []
    return [f"hydra.searchpath={_quoted(folders, 'file://')}", *rest, *recorded]


def _quoted(folders: Sequence[Path], scheme: str = "") -> str:
    return "[{}]".format(",".join("'{}{}'".format(scheme, str(one).replace("'", r"\'")) for one in folders))
