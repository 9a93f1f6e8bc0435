"""What one patch changes on a configuration: known from its file where it only sets values, composed where it chooses another member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.configuration.compose import compose_run, patch_values
from harness.configuration.identity import difference, flatten
from harness.configuration.own_folder import folders_of
from harness.configuration.schema import RunConfig, dump

Changes = Mapping[str, tuple[Any, Any]]


def patch_changes(patch: str, overrides: Sequence[str], config: RunConfig | None = None) -> Changes:
    """Dotted key → (before, after) of a patch on the configuration that `overrides` describe.

    Args:
        patch: its name under `conf/patch`.
        overrides: those of the configuration, `patch=[…]` among them or not; the patch is applied after those it names.
        config: the composed configuration of `overrides`, where the caller has it.

    Raises:
        ConfigError: an unknown patch, or one that cannot stand on this configuration.
    """
    before = compose_run(overrides) if config is None else config
    values, present = patch_values(patch, folders_of(overrides)), flatten(dump(before))
    if values is None or not values.keys() <= present.keys():
        return difference(before, compose_run(with_patch(overrides, patch)))
    return {
        key: (present.get(key), value) for key, value in sorted(values.items()) if present.get(key) != value
    }


def patches_of(overrides: Sequence[str]) -> list[str]:
    """The patches that overrides name, in order."""
    lists = [item.partition("=")[2] for item in overrides if item.startswith(("patch=", "+patch="))]
    return [name for text in lists for name in text.strip("[]").replace(" ", "").split(",") if name]


def with_patch(overrides: Sequence[str], patch: str) -> list[str]:
    """The overrides with one patch more, after those that they name."""
    rest = [item for item in overrides if not item.startswith(("patch=", "+patch="))]
    return [*rest, f"patch=[{','.join([*patches_of(overrides), patch])}]"]
