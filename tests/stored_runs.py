"""Runs in a store that nobody trained: what their manifests say, and samples in the columns of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from harness.store import RunDir

RUN_ID = "00000000000000aa"


def about(spec: Any = None, status: str = "finished", **more: Any) -> dict[str, Any]:
    """The manifest of a run without attempts: of this `RunSpec`, or of seed 0 of an arm called a."""
    names = {"arm_id": "a", "seed": 0, "labels": {}}
    if spec is not None:
        names = {"arm_id": spec.arm_id, "seed": spec.seed, "labels": dict(spec.labels)}
    return {**names, "status": status, "attempts": [], **more}


def created(run: RunDir, config_yaml: str, manifest: dict[str, Any]) -> None:
    """Write a run's `config.yaml`, then its manifest, where there is none."""
    if not run.exists():
        run.write_config(config_yaml)
        run.write_manifest(manifest)


def graded(correct: Sequence[bool]) -> pd.DataFrame:
    """One sample a problem at a cap of 32 tokens."""
    return pd.DataFrame(
        {
            "problem_id": [f"p{index:03d}" for index in range(len(correct))],
            "sample_index": 0,
            "sampling_seed": 1,
            "max_response_tokens": 32,
            "response_tokens": 5,
            "finish_reason": "stop",
            "answer": "1",
            "correct": correct,
            "verdict": np.where(correct, "right", "wrong"),
            "method": "integer",
            "entropy_sum_nats": 1.5,
            "log_prob_sum": -2.5,
            "response": "r",
        }
    )
