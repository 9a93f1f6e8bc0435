"""The word of runs in the store on a plan: what its runs will cost, which to start first, how much its differences will touch."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.configuration.schema import RunConfig, dump
from harness.configuration.sections import RuntimeConfig
from harness.engagement.measure import HARDLY, Measure
from harness.experiment.plan import Plan, PlannedArm, RunSpec
from harness.experiment.planning import cost_class
from harness.store import ResultStore, StoreError
from harness.store.atomic import CPU, devices_of

_RECENT = 20  # runs that an estimate is taken from at most
_Usage = tuple[int, float, float, float]  # steps, seconds, generated tokens, GPUs of a finished run


@dataclass(frozen=True)
class Cost:
    """Expected cost of one run, as finished runs like it took; `price` is None without `runtime.assumed.price_per_gpu_hour`."""

    seconds: float
    generated_tokens: float
    gpu_hours: float
    price: float | None
    source: str


class History:
    """Finished runs of a store by arm and by class; each one's metrics are read only when asked for."""

    def __init__(self, store: ResultStore) -> None:
        self._store = store
        self._by_key: dict[str, list[dict[str, Any]]] = {}
        for row in store.readable():
            if row["status"] != "finished":
                continue
            for key in (str(row["arm_id"]), str(row["labels"].get("cost_class", ""))):
                self._by_key.setdefault(key, []).append(row)

    def expect(self, config: RunConfig, arm: str) -> Cost | None:
        """Cost of a run of this arm: as its other seeds, else per step (or token) as runs of its class. None: nothing to go by."""
        for key, source in ((arm, "{} of the same arm"), (cost_class(config), "{} of similar arms")):
            usages = [usage for row in self._by_key.get(key, [])[-_RECENT:] if (usage := self._usage(row))]
            if usages:
                return _scale_cost(usages, config, source.format(format_count(len(usages))))
        return None

    def finished_runs(self, arm: str) -> list[str]:
        """Ids of the newest finished runs of an arm."""
        return [str(row["run_id"]) for row in self._by_key.get(arm, [])[-_RECENT:]]

    def _usage(self, row: dict[str, Any]) -> _Usage | None:
        last = self._store.run(row["run_id"]).last_step()
        spans = [attempt for attempt in row["attempts"] if attempt.get("ended_at")]
        seconds = sum((_time(span["ended_at"]) - _time(span["started_at"])).total_seconds() for span in spans)
        if last is None or not seconds:
            return None
        tokens = float(last.get("generated_tokens_total") or 0)
        gpus = float(max(attempt.get("gpus") or 0 for attempt in row["attempts"]))
        return int(last["step"]), seconds, tokens, gpus


_time = datetime.fromisoformat


def _scale_cost(usages: Sequence[_Usage], config: RunConfig, source: str) -> Cost:
    """The mean per step times the steps, cut where a budget of tokens or seconds ends the run earlier."""
    steps, seconds, tokens = (sum(column) for column in list(zip(*usages, strict=True))[:3])
    scale = config.training.steps / steps
    if config.training.generated_tokens is not None and tokens:
        scale = min(scale, config.training.generated_tokens / tokens)
    if config.training.seconds is not None:
        scale = min(scale, config.training.seconds / seconds)
    share = max(gpus for *_, gpus in usages) / config.runtime.runs_per_gpu
    hours, price = seconds * scale * share / 3600, config.runtime.assumed.price_per_gpu_hour
    return Cost(seconds * scale, tokens * scale, hours, None if price is None else hours * price, source)


def longest_first(plan: Plan, store: ResultStore) -> list[RunSpec]:
    """The plan's runs, the longest first (longest processing time first: Graham 1969, SIAM J. Appl. Math. 17, 416).

    Expected times come from runs in the store and depend on the machine's load of the day. So runs that take more than half of the
    longest's time count as alike, as do those of more than a quarter, and so on; those alike keep their order, seed by seed, so that
    seeds of all arms complete together. Without any past run dynamic sampling is the longest, and the rest are alike.
    """
    history, seconds = History(store), dict[str, float]()
    for arm in plan.arms:
        cost = history.expect(arm.config, arm.arm_id) if arm.runs else None
        refills = arm.config.algorithm.dead_groups.policy == "refill"
        estimate = (cost.seconds if cost else 0.0) or (math.inf if refills else 0.0)
        seconds |= dict.fromkeys(arm.runs.values(), estimate)
    longest = max((value for value in seconds.values() if value < math.inf), default=0.0)

    def halvings(spec: RunSpec) -> float:
        """Halvings of the longest time until it is below this run's: 0 for more than half of it."""
        duration = seconds[spec.run_id]
        if duration in (0.0, math.inf):
            return math.inf if duration == 0.0 else -1.0
        return math.floor(math.log2(longest / duration))

    return sorted(plan.specs, key=halvings)


def past_engagement(plan: Plan, store: ResultStore, history: History) -> dict[str, str]:
    """Arm → `1.4 % of tokens (from 5 finished runs)`, for the arms of which the store knows something.

    Runs of the very arm whose runs show a measure come first; else those of stored experiments in which an arm changes the same keys
    to the same values (`similar runs`: their other settings may differ).
    """
    steps = functools.cache(lambda run_id: store.run(run_id).steps())
    # Every plan of the store is read once, and only if asked for.
    stored_arms = functools.cache(lambda: list(_stored_arms(store)))
    engagements: dict[str, str] = {}
    for arm in plan.arms:
        parts = []
        for measure in arm.engagement:
            if measure.fields:
                runs = history.finished_runs(plan.arm(measure.arm).arm_id)
                similar_runs = _similar_runs(arm, measure, store, stored_arms)
                parts.append(_note(measure, runs, steps, "finished") or _note(measure, similar_runs, steps, "similar"))
        if any(parts):
            engagements[arm.name] = "; ".join(filter(None, parts))
    return engagements


def _note(measure: Measure, run_ids: Iterable[str], steps: Callable[[str], Any], source: str) -> str:
    frames = [frame for frame in map(steps, run_ids) if not math.isnan(measure.value([frame]))]
    if not frames:
        return ""
    runs, value = format_count(len(frames), f"{source} run"), measure.value(frames)
    mark = f", {HARDLY}" if measure.hardly(value) else ""
    return f"{measure.text(value, mark=False)} (from {runs}){mark}"


def _similar_runs(
    arm: PlannedArm, measure: Measure, store: ResultStore, stored_arms: Callable[[], Sequence[Mapping[str, Any]]]
) -> Iterator[str]:
    """Finished runs of stored plans that show this measure for an arm with the same changes, of the same model: scales differ in it."""
    changes, run_ids = arm.record()["changes"], dict[str, None]()
    changes_json = json.dumps(changes, sort_keys=True)
    for other in stored_arms() if changes else ():
        if json.dumps(other.get("changes"), sort_keys=True) == changes_json:
            for candidate in map(Measure.of_record, other.get("engagement") or ()):
                if (candidate.fields, candidate.keys) == (measure.fields, measure.keys):
                    run_ids |= dict.fromkeys(other["runs_of"].get(candidate.arm, ()))
    model = _model_of(dump(arm.config))
    runs = (store.run(run_id) for run_id in run_ids if store.run(run_id).status == "finished")
    return (run.run_id for run in runs if _model_of(run.settings()) == model)


def _model_of(settings: Mapping[str, Any]) -> tuple[Any, Any]:
    model = settings.get("model") or {}
    return model.get("kind"), model.get("path")


def _stored_arms(store: ResultStore) -> Iterator[Mapping[str, Any]]:
    """The arms of all readable plans, each with its plan's runs by arm name under `runs_of`."""
    for name in store.plans():
        try:
            arms = store.plan(name)["arms"]
        except (StoreError, KeyError):
            continue  # `harness status` tells of unreadable plans
        runs_of = {arm["name"]: list(arm["runs"].values()) for arm in arms}
        yield from ({**arm, "runs_of": runs_of} for arm in arms)


def mixed_devices_note(store: ResultStore, run_ids: Iterable[str], runtime: RuntimeConfig) -> str:
    """One sentence with the way to a comparison of its own; empty where all finished runs are of the device that is asked for."""
    device = "a GPU" if runtime.device == "cuda" else CPU
    others: Counter[str] = Counter()
    for run_id in run_ids:
        run = store.run(run_id)
        devices = devices_of(run.manifest()) if run.status == "finished" else ()
        if any((name == CPU) != (device == CPU) for name in devices):
            others[" and ".join(devices)] += 1
    if not others:
        return ""
    counts = ", ".join(f"{count} on {name}" for name, count in sorted(others.items()))
    name = "gpu" if runtime.device == "cuda" else CPU
    return (
        f"runs that count as finished here were not made on {device}: {counts}. The device is no part of a run's identity; for a "
        f"comparison on {device} alone add runtime.results={store.root}-{name}"
    )


# ---- as people read it ----


def format_seconds(seconds: float | None) -> str:
    """`45 s`, `12 min`, `3.5 h`; empty for None."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def format_count(number: int, noun: str = "run") -> str:
    """`1 run`, `12 runs`."""
    return f"{number} {noun}{'s' * (number != 1)}"
