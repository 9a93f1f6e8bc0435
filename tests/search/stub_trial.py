"""A worker whose accuracy is a known function of the configuration; the fork server imports this module by PYTHONPATH."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pandas as pd
import yaml

from harness.store import RunDir

PROBLEMS = 50
BEST_RATE, BEST_CLIP = 3e-4, 0.3


def accuracy(rate: float, clip: float) -> float:
    return max(0.0, 0.9 - 0.4 * math.log10(rate / BEST_RATE) ** 2 - 4 * (clip - BEST_CLIP) ** 2)


def run(path: Path) -> int:
    store_run = RunDir(path)
    config = yaml.safe_load(store_run.config())
    clip = config["algorithm"]["surrogate"]["clip_high"]
    target = accuracy(config["optimizer"]["learning_rate"], clip)
    steps = config["training"]["steps"]
    for step in range(steps + 1):
        right = round(PROBLEMS * target * (0.5 + 0.5 * step / steps))
        store_run.write_samples("arithmetic_heldout", 1, step, samples(right, config["sampling"]))
        if step:
            store_run.append_step(
                {"step": step, "accuracy_mean": target, "generated_tokens_total": int(step * 1000 * clip)}
            )
        time.sleep(0.02 if target > 0.5 else 0.3)
    return 0


def samples(right: int, sampling: dict[str, int]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "problem_id": [f"p{index}" for index in range(PROBLEMS)],
            "sample_index": 0,
            "sampling_seed": list(range(PROBLEMS)),
            "max_response_tokens": sampling["max_response_tokens"],
            "response_tokens": 5,
            "finish_reason": "stop",
            "answer": "1",
            "correct": [index < right for index in range(PROBLEMS)],
            "verdict": "right",
            "method": "integer",
            "entropy_sum_nats": 1.5,
            "log_prob_sum": -2.5,
            "response": "r",
        }
    )
