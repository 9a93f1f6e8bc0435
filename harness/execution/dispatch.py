"""Send runs to the launcher that the configuration names."""

from __future__ import annotations

from collections.abc import Sequence

from harness.configuration.registry import implementation
from harness.configuration.runtime import RuntimeConfig
from harness.execution.progress import Progress, Warned
from harness.execution.provenance import provenance
from harness.execution.supervisor import RunBatch, Summary
from harness.experiment.contents import content_hashes, require_same_content
from harness.experiment.history import longest_first
from harness.experiment.plan import Plan, RunSpec
from harness.store import ResultStore


def dispatch(plan: Plan, store: ResultStore, progress: Progress) -> Summary:
    """Run what is not finished of a plan, the longest runs first; see `harness.execution.supervisor.supervise`.

    Raises:
        ConfigError: the launcher needs something that is absent, or a run has begun on other problems or another checkpoint.
        StoreError: nothing can be recorded.
    """
    data = content_hashes([planned.config for planned in plan.arms])
    require_same_content(plan, store, data)
    specs, runtime = longest_first(plan, store), plan.arms[0].config.runtime
    return dispatch_runs(specs, store, runtime, progress, plan.command, plan.name, data)


def dispatch_runs(
    specs: Sequence[RunSpec],
    store: ResultStore,
    runtime: RuntimeConfig,
    progress: Progress,
    command: str,
    experiment: str,
    data: dict[str, str] | None = None,
) -> Summary:
    """The same for runs without a plan. `data`: content hashes of what they read, for the record."""
    record = provenance(command) | ({"data": data} if data else {})
    work = RunBatch(store.root.resolve(), list(specs), runtime, record, experiment)
    launcher = implementation("harness.execution.launch", runtime.launcher)
    summary: Summary = launcher.launch(runtime.launcher, work, Warned(progress, store))
    return summary
