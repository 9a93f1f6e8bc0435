"""`harness run -m` on the command line with runs of seconds, for the tests of Hydra's launchers."""

from __future__ import annotations

from pathlib import Path

import small_runs
import verbs

from harness.store import ResultStore

FEW_STEPS = [*small_runs.FEW, "runtime.checkpoint_every=1", "training.steps=3", "training.evaluate_every=3"]


def harness(results: Path, *arguments: str, code: int = 0) -> str:
    """What the command said, brought to its end."""
    return verbs.harness(results, "run", *arguments, f"runtime.results={results}", code=code)


def attempts(results: Path) -> dict[str, tuple[str | None, int]]:
    """Of each run its status, and how often it was begun."""
    store = ResultStore(results)
    manifests = {run_id: store.run(run_id).manifest() or {} for run_id in store.run_ids()}
    return {run_id: (found.get("status"), len(found.get("attempts", []))) for run_id, found in manifests.items()}


def one_arm_fails(folder: Path) -> list[str]:
    """A multirun of two arms, of which one ends with an error when its reward function is loaded."""
    broken = folder / "broken.py"
    broken.write_text("def score(response):\n    return True\n\n\nthreshold = 1 / 0\n")
    return ["-m", f"algorithm.reward.function='','{broken}:score'", *FEW_STEPS, "training.steps=1"]
