"""The scripts beside the experiments, and the synthetic store of the analysis's tests, can be imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path += [
    str(ROOT / "tests" / "analysis"),
    str(ROOT / "experiments"),
    *map(str, sorted((ROOT / "experiments").iterdir())),
]


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the ladder of the synthetic store, four arms by four seeds."""
    from synthetic_store import build_store

    place = tmp_path_factory.mktemp("scripts")
    build_store(place, seeds=(0, 1, 2, 3), caps=(32,))
    return place
