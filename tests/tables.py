"""Tables of what is given and what is expected, which lie as YAML beside their tests."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml


@functools.cache
def tables(test_file: str) -> dict[str, Any]:
    """Return what stands in the YAML file of this file's name."""
    return yaml.safe_load(Path(test_file).with_suffix(".yaml").read_text(encoding="utf-8"))


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file, one a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def table(test_file: str, name: str, columns: str) -> pytest.MarkDecorator:
    """Run a test for each row of this table in the YAML file of its own file's name."""
    return pytest.mark.parametrize(columns.replace(",", "").split(), tables(test_file)[name])
