"""Send runs to the launcher that the configuration names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.configuration.error import ConfigError
from harness.configuration.registry import implementation
from harness.configuration.runtime import RuntimeConfig
from harness.execution.launch._supervise import Work, supervise_here
from harness.execution.progress import Progress
from harness.execution.provenance import data_hashes, provenance
from harness.execution.supervise import Feed, Runnable, Summary
from harness.experiment.order import longest_first
from harness.experiment.planning import Plan
from harness.store import ResultStore, StoreError


def dispatch(plan: Plan, store: ResultStore, progress: Progress) -> Summary:
    """Run what is not finished of a plan, the longest runs first; see `harness.execution.supervise.run_all`.

    Raises:
        ConfigError: the launcher needs something that is absent, or a run has begun on other problems.
        StoreError: nothing can be recorded.
    """
    data = data_hashes([planned.config for planned in plan.arms])
    specs = longest_first(plan, store)
    _require_same_data(specs, store, data)
    return dispatch_runs(
        specs,
        store,
        plan.arms[0].config.runtime,
        progress,
        command=plan.command,
        experiment=plan.experiment.name,
        data=data,
    )


def _require_same_data(specs: Sequence[Runnable], store: ResultStore, data: Mapping[str, str]) -> None:
    """A run's id names its problem files by path: refuse to go on with one, or to count it as finished, whose file has changed since."""
    for spec in specs:
        try:
            known = (store.run(spec.run_id).manifest() or {}).get("provenance", {}).get("data", {})
        except StoreError:  # what is wrong with it is said when its turn comes
            continue
        changed = [
            name.partition(" ")[0] for name, content in data.items() if known.get(name, content) != content
        ]
        if changed:
            raise ConfigError(
                f"the problems of {', '.join(changed)} have changed since run {spec.run_id} began, which has the same configuration; "
                "restore the file, or give the new one another path or version"
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
    return implementation("harness.execution.launch", runtime.launcher).launch(
        runtime.launcher, work, progress
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
    work = Work(store.root.resolve(), [], runtime, provenance(command), experiment)
    return supervise_here(work, progress, feed=feed)
