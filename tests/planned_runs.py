"""Runs as a supervisor leaves them, and plans over them."""

from __future__ import annotations

from stored_runs import about, created, graded

from harness.experiment.plan import Plan, RunSpec
from harness.experiment.planning import plan_experiment
from harness.store import ResultStore

EXPERIMENT = "experiment=clip_lr_grid"
GRID = 12


def overrides(store: ResultStore, *more: str) -> list[str]:
    return [EXPERIMENT, "experiment.seeds=[0,1,2]", f"runtime.results={store.root}", *more]


def finish(
    store: ResultStore, spec: RunSpec, accuracy: float = 0.5, status: str = "finished", tokens: int = 1000
) -> None:
    """A run as a supervisor leaves it: 100 seconds, 100 steps."""
    run = store.run(spec.run_id)
    times = {"started_at": "2026-01-01T00:00:00+00:00", "ended_at": "2026-01-01T00:01:40+00:00"}
    attempt = {"index": 0, **times, "outcome": status, "exit_code": 0, "host": "h", "pid": 1, "gpus": 0}
    made = {"provenance": {"git_commit": "abc", "packages": {"torch": "2.13.0"}}}
    error = "exit code 1; boom" if status == "failed" else None
    created(run, spec.config_yaml, about(spec, status, attempts=[attempt], error=error, **made))
    run.append_step({"step": 100, "generated_tokens_total": tokens, "seconds_total": 90.0, "seconds_evaluate": 10.0})
    right = [index < round(100 * accuracy) for index in range(100)]
    run.write_samples("arithmetic_heldout", 1, 100, graded(right))
    run.publish_checkpoint(100, lambda folder: (folder / "state").write_text("x" * 1000) and None)


def plan(store: ResultStore, *more: str) -> Plan:
    return plan_experiment(overrides(store, *more))
