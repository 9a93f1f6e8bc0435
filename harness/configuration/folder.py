"""The folder of configuration files, and the members of its groups."""

from __future__ import annotations

import functools
from pathlib import Path

from harness.configuration.error import ConfigError
from harness.configuration.registry import nearest


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


RENAMED = {
    "algorithm/cisco": "cispo",
    "algorithm/cisco_seed": "cispo_kl_response_mean",
    "algorithm/dapo_seed": "dapo_kl_multiplicative_penalty",
    "algorithm/gdpo_seed": "best_worst_dpo",
    "algorithm/olmo3_seed": "olmo3_success_bands",
    "algorithm/olmo3_seed_retire": "olmo3_success_bands_retire",
    "algorithm/reinforce_pp_seed": "rloo_clip_kl",
}


def no_option(group: str, name: str) -> str:
    """Say that a group has no such option, and what is near it or what it is called now."""
    new = RENAMED.get(f"{group}/{name}")
    hint = f"; it is called {new!r} now" if new else nearest(name, options(group))
    return f"{group} has no option {name!r}{hint}"
