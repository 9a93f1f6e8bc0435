"""`config_dir=FOLDER`: configuration files of the user's own beside the shipped ones, in the same groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.configuration.error import ConfigError

KEY = "config_dir"


def folders_of(overrides: Sequence[str]) -> list[Path]:
    """The folders that overrides name, absolute.

    Raises:
        ConfigError: a folder that is not there, or that has no groups.
    """
    found = []
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


def searched(overrides: Sequence[str], shipped: Path) -> list[str]:
    """The overrides with the folders that they name as Hydra's search path, behind the shipped files.

    Raises:
        ConfigError: as `folders_of`, or a file that has the name of a shipped one, which would win without a word.
    """
    folders = folders_of(overrides)
    if not folders:
        return list(overrides)
    for folder in folders:
        names = (path.relative_to(folder) for path in sorted(folder.glob("*/**/*.yaml")))
        taken = next((name for name in names if (shipped / name).exists()), None)
        if taken is not None:
            raise ConfigError(f"{folder / taken} has the name of a shipped file; rename it")
    quoted = ",".join("'file://{}'".format(str(folder).replace("'", r"\'")) for folder in folders)
    rest = [item for item in overrides if item.partition("=")[0].lstrip("+") != KEY]
    return [f"hydra.searchpath=[{quoted}]", *rest]
