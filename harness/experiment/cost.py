"""The cost of runs in seconds, generated tokens and GPU-hours: from runs in the store, else by arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.configuration.identity import content_hash
from harness.configuration.schema import RunConfig, dump
from harness.experiment.estimate.words import Estimate
from harness.store import ResultStore

_RECENT = 20  # runs that an estimate is taken from at most


@dataclass(frozen=True)
class Cost:
    """Expected cost of one run; `source` says what it is taken from. `gpus` is 0 on a CPU. `measured`: from runs, not from arithmetic."""

    seconds: float
    generated_tokens: float
    gpus: float
    source: str
    measured: bool = True

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of the run."""
        return self.seconds * self.gpus / 3600


@dataclass(frozen=True)
class PastRun:
    """The cost of one finished run."""

    arm_id: str
    cost_class: str
    steps: int
    seconds: float
    generated_tokens: float
    gpus: float


def cost_class(config: RunConfig) -> str:
    """Runs of one class cost about the same a step: same model, engine, lengths, batch and evaluation."""
    algorithm = config.algorithm
    sizes = [algorithm.prompts_per_step, algorithm.responses_per_prompt, algorithm.dead_groups.policy]
    parts = [dump(part) for part in (config.model, config.engine, config.sampling, config.evaluation)]
    return content_hash(sizes, algorithm.updates_per_step, algorithm.epochs_per_step, *parts)


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
        for key, source in ((arm, "this arm"), (cost_class(config), "similar runs")):
            past = [run for row in self._by_key.get(key, [])[-_RECENT:] if (run := self._past(row))]
            if past:
                return _scaled(past, config, f"{source} ({len(past)})")
        return None

    def finished(self, arm: str) -> list[str]:
        """Ids of the newest finished runs of an arm."""
        return [str(row["run_id"]) for row in self._by_key.get(arm, [])[-_RECENT:]]

    def _past(self, row: dict[str, Any]) -> PastRun | None:
        last = self._store.run(row["run_id"]).last_step()
        seconds = _wall_seconds(row["attempts"])
        if last is None or not seconds:
            return None
        return PastRun(
            row["arm_id"],
            str(row["labels"].get("cost_class", "")),
            int(last["step"]),
            seconds,
            float(last.get("generated_tokens_total") or 0),
            float(max(attempt.get("gpus") or 0 for attempt in row["attempts"])),
        )


def computed(estimate: Estimate) -> Cost:
    """The cost that an estimate gives."""
    work = estimate.work
    return Cost(work.seconds, work.generated_tokens, estimate.gpus, "an estimate", measured=False)


def _scaled(past: Sequence[PastRun], config: RunConfig, source: str) -> Cost:
    """The mean per step times the steps, cut where a budget of tokens or seconds ends the run earlier."""
    steps = sum(run.steps for run in past)
    seconds, tokens = sum(run.seconds for run in past), sum(run.generated_tokens for run in past)
    scale = config.training.steps / steps
    if config.training.generated_tokens is not None and tokens:
        scale = min(scale, config.training.generated_tokens / tokens)
    if config.training.seconds is not None:
        scale = min(scale, config.training.seconds / seconds)
    share = max(run.gpus for run in past) / config.runtime.runs_per_gpu
    return Cost(seconds * scale, tokens * scale, share, source)


def _wall_seconds(attempts: Sequence[dict[str, Any]]) -> float:
    """Wall time of the attempts whose end is known."""
    return sum(
        (
            datetime.fromisoformat(item["ended_at"]) - datetime.fromisoformat(item["started_at"])
        ).total_seconds()
        for item in attempts
        if item.get("ended_at")
    )
