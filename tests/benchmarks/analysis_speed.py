"""Speed of metrics and the whole answer on one core.

Run: ``OMP_NUM_THREADS=1 taskset -c 0 python tests/benchmarks/analysis_speed.py``. CPU seconds of the process
are printed beside wall seconds: on an idle core they agree. Targets: one million samples through every metric
in 5 s, a report of six arms x five seeds in 20 s.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / part) for part in ("analysis", "evaluation"))]

from synthetic_store import build_store  # noqa: E402

from analysis.report import write_answer  # noqa: E402
from harness.evaluation.metrics.summary import samples_from_columns  # noqa: E402
from harness.evaluation.result import result_of  # noqa: E402


def timed(name: str, target_seconds: float, work: Callable[[], Any]) -> Any:
    """Run once, print CPU and wall seconds against the target."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:<62} cpu {cpu:6.2f} s   wall {wall:6.2f} s   target {target_seconds:.0f} s")
    return result


def million_samples(problems: int = 10_000, n: int = 100) -> dict[str, Any]:
    """Beta difficulties, wrong answers with a heavy tail over 60 classes, 3 % without an answer."""
    rng = np.random.default_rng(0)
    right = rng.random((problems, n)) < rng.beta(0.4, 0.6, problems)[:, None]
    wrong = np.minimum(rng.zipf(1.5, (problems, n)), 60)
    none = (rng.random((problems, n)) < 0.03) & ~right
    answer = np.where(none, None, np.where(right, 0, wrong).astype(str).astype(object))
    return {
        "problem_id": np.repeat([f"p{i}" for i in range(problems)], n),
        "correct": right.ravel(),
        "answer": answer.ravel(),
        "response_tokens": rng.integers(1, 20_480, problems * n),
        "finish_reason": np.where(none.ravel(), "length", "stop"),
        "verdict": np.where(right.ravel(), "right", np.where(none.ravel(), "no_answer", "wrong")),
    }


def metrics() -> None:
    """One million samples through every metric."""
    columns = million_samples()
    ks = [1, 2, 4, 8, 16, 32, 64, 100]
    timed(
        "every metric, 10,000 problems x 100 samples, 8 values of k",
        5,
        lambda: result_of(samples_from_columns(**columns), ks, "response_tokens"),
    )


def report(arms: int, seeds: int) -> None:
    """Tables and figures in three formats from a store."""
    rungs = [(f"arm_{i}", f"arm {i}", 0.4 + 0.05 * i, 30.0) for i in range(arms)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        build_store(
            root,
            rungs=rungs,
            seeds=range(seeds),
            problems=256,
            n=32,
            steps=100,
            evaluate=(0, 25, 50, 75, 100),
        )
        timed(
            f"answer of {arms} arms x {seeds} seeds x 256 x 32 x 2 caps x 5 evaluations",
            20,
            lambda: write_answer(root, "ladder", root / "out"),
        )


def main() -> None:
    """All of it, or the parts named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["metrics", "report"], default=["metrics", "report"])
    for part in parser.parse_args().parts:
        if part == "report":
            for arms, seeds in ((2, 3), (6, 3), (6, 5)):
                report(arms, seeds)
        else:
            metrics()


if __name__ == "__main__":
    main()
