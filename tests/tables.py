"""Tables of what is given and what is expected, which lie as YAML beside their tests."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml


@functools.cache
def _read(path: Path) -> dict[str, list[Any]]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file, one a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def table(test_file: str, name: str, columns: str) -> pytest.MarkDecorator:
    """Run a test for each row of this table in the YAML file of its own file's name."""
    return pytest.mark.parametrize(columns.replace(",", "").split(), _read(Path(test_file).with_suffix(".yaml"))[name])
