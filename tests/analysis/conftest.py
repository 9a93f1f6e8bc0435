"""Fixtures shared by the analysis tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_store import build_store, loaded

from analysis.figures.curves import FIGURES


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


@pytest.fixture
def two_training_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report draws two of the figures of training, for tests of which files it writes; `test_figures.py` draws them all."""
    shown = dict(list(FIGURES.items())[:2])
    monkeypatch.setattr("analysis.report.FIGURES", shown)
    monkeypatch.setattr("analysis.figures.curves.FIGURES", shown)
