"""Random kills of supervisors, fork servers and workers change nothing in the final table."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
from pathlib import Path

import pytest
from sweep_support import Supervisor, final_table, wait_until

from harness.store import ResultStore

STEPS, SECONDS = 40, 0.01
RUNS_PER_KILL = 1.2  # enough work that the sweep outlives the kills


def torture(root: Path, kills: int, seed: int) -> tuple[bytes, bytes]:
    """The final tables of a sweep that was killed so often and of an undisturbed one."""
    chance = random.Random(seed)
    runs = int(kills * RUNS_PER_KILL) + 2
    landed = 0
    for _ in range(kills):
        supervisor = Supervisor(root, runs, STEPS, SECONDS)
        wait_until(lambda s=supervisor: bool(s.others()) or s.process.poll() is not None, what="a worker")
        let_it_run(supervisor, root, chance.randint(0, STEPS))
        landed += supervisor.process.poll() is None
        match chance.choice(["supervisor", "supervisor", "any", "polite"]):
            case "supervisor":
                supervisor.kill()
            case "any":  # the fork server or a worker, then, in the middle of the recovery, the supervisor
                for pid in chance.sample(supervisor.others(), k=min(1, len(supervisor.others()))):
                    with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                        os.kill(pid, signal.SIGKILL)
                let_it_run(supervisor, root, chance.randint(0, STEPS // 5))
                supervisor.kill()
            case "polite":
                supervisor.kill(signal.SIGTERM)
        supervisor.output()
        wait_until(lambda s=supervisor: not s.others(), seconds=60, what="orphaned workers to end")
    assert landed >= kills * 0.7, "the sweep was over too early to be tortured"

    assert "failed=[]" in Supervisor(root, runs, STEPS, SECONDS).output()
    assert "failed=[]" in Supervisor(root, runs, STEPS, SECONDS).output()

    Supervisor(root.parent / "undisturbed", runs, STEPS, 0.0).output()
    store, undisturbed = ResultStore(root), ResultStore(root.parent / "undisturbed")
    assert store.problems() == []
    for run_id in store.run_ids():
        check_history(store, run_id)
    return final_table(store), final_table(undisturbed)


def let_it_run(supervisor: Supervisor, root: Path, steps: int) -> None:
    """Until the sweep has done so many more steps, or nothing of it moves any more."""
    wanted = steps_done(root) + steps

    def enough() -> bool:
        return steps_done(root) >= wanted or supervisor.process.poll() is not None

    wait_until(enough, seconds=60, what=f"{steps} more steps")


def steps_done(root: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (root / "runs").glob("*/metrics.jsonl"))


def check_history(store: ResultStore, run_id: str) -> None:
    run = store.run(run_id)
    outcomes = [attempt["outcome"] for attempt in run.manifest()["attempts"]]
    assert outcomes.count("finished") == 1, f"run exactly once to its end: {outcomes}"
    assert outcomes[-1] == "finished"
    attempts = [json.loads(line)["attempt"] for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert attempts == sorted(attempts), "an older attempt was still writing"


@pytest.mark.parametrize(
    ("kills", "seed"),
    [
        pytest.param(
            int(os.environ.get("HARNESS_TORTURE_KILLS", "5")),
            int(os.environ.get("HARNESS_TORTURE_SEED", "0")),
            marks=pytest.mark.thorough,
        ),
        pytest.param(100, 1, marks=pytest.mark.slow),
    ],
)
def test_random_kills_change_nothing_in_the_final_table(tmp_path, kills, seed):
    disturbed, undisturbed = torture(tmp_path / "results", kills, seed)
    assert disturbed == undisturbed
