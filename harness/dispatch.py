"""Send a plan's runs to the launcher that the configuration names."""

from __future__ import annotations

from harness.launch._work import Work
from harness.plan import Plan
from harness.progress import Progress
from harness.provenance import provenance
from harness.registry import implementation
from harness.store import ResultStore
from harness.supervise import Runnable, Summary


def dispatch(
    plan: Plan, store: ResultStore, progress: Progress, specs: list[Runnable] | None = None
) -> Summary:
    """Run what is not finished of `specs` (all of the plan's by default); see `harness.supervise.run_all`.

    Raises:
        ConfigError: the launcher needs something that is absent.
        StoreError: nothing can be recorded.
    """
    runtime = plan.arms[0].config.runtime
    work = Work(
        root=store.root.resolve(),
        specs=list(plan.specs) if specs is None else specs,
        runtime=runtime,
        provenance=provenance(plan.command),
        experiment=plan.experiment.name,
    )
    return implementation("harness.launch", runtime.launcher).launch(runtime.launcher, work, progress)
