"""The folder of configuration files, and the members of its groups."""

from __future__ import annotations

import functools
from pathlib import Path

from harness.configuration.error import ConfigError


@functools.cache
def config_directory() -> Path:
    """The folder of YAML files: `conf/` beside the package in a checkout, `_conf` inside it in an installed wheel."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parent / "conf", package / "_conf"):
        if (folder / "config.yaml").exists():
            return folder
    raise ConfigError(f"no configuration files beside {package}; reinstall rlvr-harness")


def options(group: str) -> list[str]:
    """The members of a configuration group, for example `rung` or `algorithm/kl`, sorted."""
    return sorted(path.stem for path in (config_directory() / group).glob("*.yaml"))
