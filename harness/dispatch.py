"""Send runs to the launcher that the configuration names."""

from __future__ import annotations

from collections.abc import Sequence

from harness.config import RuntimeConfig
from harness.config_error import ConfigError
from harness.launch._work import Work, supervise_here
from harness.plan import Plan
from harness.progress import Progress
from harness.provenance import data_hashes, provenance
from harness.registry import implementation
from harness.store import ResultStore
from harness.supervise import Feed, Runnable, Summary


def dispatch(plan: Plan, store: ResultStore, progress: Progress) -> Summary:
    """Run what is not finished of a plan; see `harness.supervise.run_all`.

    Raises:
        ConfigError: the launcher needs something that is absent.
        StoreError: nothing can be recorded.
    """
    return dispatch_runs(
        plan.specs,
        store,
        plan.arms[0].config.runtime,
        progress,
        command=plan.command,
        experiment=plan.experiment.name,
        data=data_hashes([planned.config for planned in plan.arms]),
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
    """The same for runs without a plan. `data`: content hashes of the problem sets, for the record."""
    work = Work(
        root=store.root.resolve(),
        specs=list(specs),
        runtime=runtime,
        provenance=provenance(command) | ({"data": data} if data else {}),
        experiment=experiment,
    )
    return implementation("harness.launch", runtime.launcher).launch(runtime.launcher, work, progress)


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
    work = Work(store.root.resolve(), [], runtime, provenance(command), experiment)
    return supervise_here(work, progress, feed=feed)
