"""`harness evaluate model=` with vLLM, where it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "rollout"))

from engine_support import cases
from evaluation_support import ANSWERS, first_cell, samples_of


def greedy(chains: Path) -> list[str]:
    """A protocol in which no noise separates the engines."""
    arguments = [f"data.path={chains}", "template=plain", "evaluation.caps=[16]", "evaluation.temperature=0.0"]
    return [*arguments, "evaluation.top_p=1.0", "evaluation.samples_per_problem=2"]


@pytest.mark.parametrize("name", cases("vllm"))
def test_vllm_evaluates_a_checkpoint_as_the_native_engine_does(
    name: str, base_policy: Path, chains: Path, tmp_path: Path
) -> None:
    native, other = (
        first_cell(tmp_path, f"model={base_policy}", f"engine={engine}", *greedy(chains)) for engine in ("native", name)
    )
    assert other["settings"]["engine"] == name
    pd.testing.assert_frame_equal(samples_of(tmp_path, other)[ANSWERS], samples_of(tmp_path, native)[ANSWERS])
