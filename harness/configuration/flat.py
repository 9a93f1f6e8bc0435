"""Nested mappings as dotted keys."""

from __future__ import annotations

from typing import Any


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mapping → dotted keys; lists are leaves."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
