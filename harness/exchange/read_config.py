"""The configuration that a trainer resolved, from the file in which it left it, as dotted keys and values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.configuration.error import ConfigError
from harness.configuration.identity import flatten

LoadYaml = Callable[[str, str], Any]
_ASSIGNMENT = re.compile(r"[+~]{0,2}[\w./@-]+=.*", re.DOTALL)


def read_config(path: Path, load: LoadYaml) -> dict[str, Any]:
    """Return the settings of one file as dotted keys; `load` reads a YAML text, whose name is its second argument. Raises `ConfigError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    try:
        content = json.loads(text)  # tabs are no YAML
    except ValueError:
        lines = [
            line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")
        ]
        content = lines if lines and all(map(_ASSIGNMENT.fullmatch, lines)) else load(text, str(path))
    if (
        isinstance(content, list)
        and content
        and all(isinstance(item, str) and ("=" in item or item.startswith("~")) for item in content)
    ):
        return read_assignments(content, load)
    if isinstance(content, dict) and ("_wandb" in content or "wandb_version" in content):
        rows = {key: row for key, row in content.items() if key not in ("_wandb", "wandb_version")}
        content = {key: row.get("value") if isinstance(row, dict) else row for key, row in rows.items()}
    if not isinstance(content, dict) or not content:
        raise ConfigError(
            f"{path} holds neither settings nor key=value lines; give the configuration that the trainer resolved: verl's "
            ".hydra/config.yaml, wandb's config.yaml, or TRL's training arguments as JSON"
        )
    return _resolved(content)


def read_assignments(items: Sequence[str], load: LoadYaml) -> dict[str, Any]:
    """Return `key=value` items as settings; Hydra's `+` adds, `~` takes away. Raises `ConfigError` for a value that is not YAML."""
    values: dict[str, Any] = {}
    for item in items:
        key, _, text = item.partition("=")
        if key.startswith("~"):
            values.pop(key.lstrip("~"), None)
        else:
            values |= flatten({key.lstrip("+"): load(text, item)})
    return values


def _resolved(content: Mapping[Any, Any]) -> dict[str, Any]:
    """Return dotted keys; Hydra writes `${KEY}` as it stands, so it is followed here. What cannot be followed stays a text."""
    values = flatten({str(key): value for key, value in content.items()})
    if not any(isinstance(value, str) and "${" in value for value in values.values()):
        return values
    config = OmegaConf.create(dict(content))
    for key, value in list(values.items()):
        if isinstance(value, str) and "${" in value:
            try:
                target = OmegaConf.select(config, key)
            except (OmegaConfBaseException, ValueError, TypeError):
                continue
            if OmegaConf.is_config(target):
                del values[key]
                target = OmegaConf.to_container(target)
            values |= flatten({key: target})
    return values
