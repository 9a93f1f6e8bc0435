"""The word of runs in the store on a plan: what its runs will cost, which to start first, and on what device they were made."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.configuration.numbers import format_count
from harness.configuration.schema import RunConfig
from harness.configuration.sections import RuntimeConfig
from harness.experiment.plan import Plan, RunSpec
from harness.experiment.planning import cost_class
from harness.store import ResultStore
from harness.store.reader import devices_of

_RECENT = 20  # runs that an estimate is taken from at most
_Usage = tuple[int, float, float, float]  # steps, seconds, generated tokens, GPUs of a finished run


@dataclass(frozen=True)
class Cost:
    """Expected cost of one run, as finished runs like it took."""

    seconds: float
    generated_tokens: float
    gpu_hours: float
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

    def _usage(self, row: dict[str, Any]) -> _Usage | None:
        last = self._store.run(row["run_id"]).last_step()
        spans = [attempt for attempt in row["attempts"] if attempt.get("ended_at")]
        seconds = sum((_time(span["ended_at"]) - _time(span["started_at"])).total_seconds() for span in spans)
        if last is None or not seconds > 0:  # a clock may have been set back
            return None
        tokens = float(last.get("generated_tokens_total") or 0)
        gpus = float(max(attempt.get("gpus") or 0 for attempt in row["attempts"]))
        return int(last["step"]), seconds, tokens, gpus


_time = datetime.fromisoformat


def _scale_cost(usages: Sequence[_Usage], config: RunConfig, source: str) -> Cost:
    """The mean per step times the steps, cut where a budget of tokens ends the run earlier."""
    steps, seconds, tokens = (sum(column) for column in list(zip(*usages, strict=True))[:3])
    scale = config.training.steps / steps
    if config.training.generated_tokens is not None and tokens:
        scale = min(scale, config.training.generated_tokens / tokens)
    share = max(gpus for *_, gpus in usages) / config.runtime.runs_per_gpu
    return Cost(seconds * scale, tokens * scale, seconds * scale * share / 3600, source)


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


def mixed_devices_note(store: ResultStore, run_ids: Iterable[str], runtime: RuntimeConfig) -> str:
    """One sentence with the way to a comparison of its own; empty where all finished runs are of the device that is asked for."""
    device = "a GPU" if runtime.device == "cuda" else "cpu"
    others: Counter[str] = Counter()
    for run_id in run_ids:
        run = store.run(run_id)
        devices = devices_of(run.manifest()) if run.status == "finished" else ()
        if any((name == "cpu") != (device == "cpu") for name in devices):
            others[" and ".join(devices)] += 1
    if not others:
        return ""
    counts = ", ".join(f"{count} on {name}" for name, count in sorted(others.items()))
    name = "gpu" if runtime.device == "cuda" else "cpu"
    place = f"for a comparison on {device} alone add runtime.results={store.root}-{name}"
    return f"runs that count as finished here were not made on {device}: {counts}; {place}"
