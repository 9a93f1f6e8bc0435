"""A worker whose accuracy is a known function of the configuration; the fork server imports this module by PYTHONPATH."""

from __future__ import annotations

import math
import time
from pathlib import Path

import yaml
from stored_runs import graded

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
        samples = graded([index < right for index in range(PROBLEMS)])
        samples["max_response_tokens"] = config["sampling"]["max_response_tokens"]
        store_run.write_samples("arithmetic_heldout", 1, step, samples)
        if step:
            store_run.append_step(
                {"step": step, "accuracy_mean": target, "generated_tokens_total": int(step * 1000 * clip)}
            )
        time.sleep(0.02 if target > 0.5 else 0.3)
    return 0
