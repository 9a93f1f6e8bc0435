"""The scripts beside the experiments, and the synthetic store of the analysis's tests, can be imported."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "tests" / "analysis"), *map(str, sorted((ROOT / "experiments").iterdir()))]
