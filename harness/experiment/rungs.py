"""The rung below a rung: what a ladder's rung is compared with where a sweep lists rungs."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from harness.configuration.compose import config_directory, options


def one_rung_down(overrides: Sequence[str]) -> tuple[str, ...] | None:
    """The same overrides with `rung=` one lower, None where they name no rung or the lowest."""
    for index, item in enumerate(overrides):
        if item.startswith("rung="):
            below = _below(item.removeprefix("rung="))
            return None if below is None else (*overrides[:index], f"rung={below}", *overrides[index + 1 :])
    return None


def _below(rung: str) -> str | None:
    """The rung that this one's YAML builds on."""
    path = config_directory() / "rung" / f"{rung}.yaml"
    if not path.exists():
        return None
    entries = (yaml.safe_load(path.read_text()) or {}).get("defaults", [])
    return next((entry for entry in entries if isinstance(entry, str) and entry in options("rung")), None)
