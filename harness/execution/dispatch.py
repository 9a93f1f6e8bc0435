"""Send runs to the launcher that the configuration names."""

from __future__ import annotations

from collections.abc import Sequence

from harness.configuration.error import ConfigError
from harness.configuration.registry import implementation
from harness.configuration.runtime import RuntimeConfig
from harness.execution.contents import content_hashes, require_same_content
from harness.execution.launch._supervise import RunBatch, supervise_here
from harness.execution.progress import Progress, Warned
from harness.execution.provenance import provenance
from harness.execution.supervise import Feed, Runnable, Summary
from harness.experiment.history import longest_first
from harness.experiment.planning import Plan
from harness.store import ResultStore


def dispatch(plan: Plan, store: ResultStore, progress: Progress) -> Summary:
    """Run what is not finished of a plan, the longest runs first; see `harness.execution.supervise.run_all`.

    Raises:
        ConfigError: the launcher needs something that is absent, or a run has begun on other problems or another checkpoint.
        StoreError: nothing can be recorded.
    """
    data = content_hashes([planned.config for planned in plan.arms])
    require_same_content(plan, store, data)
    return dispatch_runs(
        longest_first(plan, store),
        store,
        plan.arms[0].config.runtime,
        progress,
        command=plan.command,
        experiment=plan.experiment.name,
        data=data,
    )


def dispatch_runs(
    specs: Sequence[Runnable],
    store: ResultStore,
    runtime: RuntimeConfig,
    progress: Progress,
    *,
    command: str,
    experiment: str,
    data: dict[str, str] | None = None,
) -> Summary:
    """The same for runs without a plan. `data`: content hashes of what they read, for the record."""
    work = RunBatch(
        root=store.root.resolve(),
        specs=list(specs),
        runtime=runtime,
        provenance=provenance(command) | ({"data": data} if data else {}),
        experiment=experiment,
    )
    return implementation("harness.execution.launch", runtime.launcher).launch(
        runtime.launcher, work, Warned(progress, store)
    )


def search_runs(
    feed: Feed,
    store: ResultStore,
    runtime: RuntimeConfig,
    progress: Progress,
    *,
    command: str,
    experiment: str,
) -> Summary:
    """Run what `feed` asks for, as places get free.

    Raises:
        ConfigError: the launcher is not local. (Start the search in several jobs instead: they share the study and the runs.)
    """
    if runtime.launcher.kind != "local":
        raise ConfigError(
            f"a search runs where it is started, not through launcher={runtime.launcher.kind}; start the same `harness sweep` in "
            "several jobs instead: they share the study and the store"
        )
    work = RunBatch(store.root.resolve(), [], runtime, provenance(command), experiment)
    return supervise_here(work, Warned(progress, store), feed=feed)
