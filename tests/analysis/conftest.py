"""Fixtures shared by the analysis tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_store import build_store, loaded


@pytest.fixture(scope="session")
def ladder_root(tmp_path_factory) -> Path:
    """Four rungs and three seeds, one run failed, one never started."""
    root = tmp_path_factory.mktemp("ladder")
    build_store(root, missing=[((3, 2), "failed"), ((2, 1), "not started")])
    return root


@pytest.fixture(scope="session")
def results(ladder_root):
    """The results of these four rungs, unless a file has others."""
    return loaded(ladder_root)
