"""Where the wall time of a finished sweep went: warm-up, process start, rollout, verify, train, evaluate, rest, and idle workers.

    python tests/benchmarks/ladder_split.py results dapo_ladder

Reads the store alone: attempts and phases of every run, and the seconds of its steps. Percentages are of workers x wall time.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

from harness.store import ResultStore


def seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def main(root: str, experiment: str, workers: int = 2) -> None:
    store = ResultStore(root)
    run_ids = [run_id for arm in store.plan(experiment)["arms"] for run_id in arm["runs"].values()]
    parts = dict.fromkeys(("warm-up", "process start", "rollout", "verify", "train", "evaluate", "rest"), 0.0)
    begins, ends, generated = [], [], 0
    for run_id in run_ids:
        run = store.run(run_id)
        attempt = (run.manifest() or {})["attempts"][-1]
        begin, end = seconds(attempt["started_at"]), seconds(attempt["ended_at"])
        begins.append(begin)
        ends.append(end)
        phases = json.loads((run.path / "attempts" / f"{attempt['index']:03d}" / "phases.json").read_text())
        steps = run.steps()
        generated += int(steps["generated_tokens"].sum())
        inside = {
            name: float(steps[f"seconds_{name}"].sum()) for name in ("rollout", "verify", "train", "evaluate")
        }
        # The evaluation before RL is not in any step: it is what lies between the trainer's start and its steps.
        base = phases["end"] - phases["trainer_ready"] - float(steps["seconds_total"].sum())
        parts["warm-up"] += phases["initial_policy_ready"] - phases["begin"]
        parts["process start"] += (
            phases["begin"] - begin + phases["trainer_ready"] - phases["initial_policy_ready"]
        )
        for name, value in inside.items():
            parts[name] += value
        parts["evaluate"] += base
        parts["rest"] += (
            (end - begin)
            - (phases["end"] - begin)
            + float(steps["seconds_total"].sum())
            - sum(inside.values())
        )
    wall = max(ends) - min(begins)
    total = workers * wall
    parts["idle"] = total - sum(parts.values())
    print(
        f"{len(run_ids)} runs, {workers} workers, {wall:.0f} s wall, {generated / 1e6:.2f} M generated tokens in training"
    )
    for name, value in parts.items():
        print(f"| {name} | {value:.0f} s | {100 * value / total:.1f} % |")
    busy = total - parts["idle"]
    print(
        f"worker seconds busy: {busy:.0f} of {total:.0f}; process start is {100 * parts['process start'] / busy:.1f} % of a run"
    )


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {Path(sys.argv[0]).name} RESULTS EXPERIMENT [WORKERS]")
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:4]))
