"""Comparisons at an equal budget: every arm stops at the generated tokens, or the training time, that a reference arm spent."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.store import ResultStore

MATCHES = ("steps", "tokens", "seconds")
# The budget, not the number of steps, has to end an arm; one that spends less a step takes more of them.
STEP_LIMIT_FACTOR = 20


def with_budget(config: RunConfig, match: str, budget: float) -> RunConfig:
    """The configuration that stops after the step in which the budget (tokens or seconds) is spent."""
    limit = {"generated_tokens": round(budget)} if match == "tokens" else {"seconds": round(budget, 3)}
    steps = config.training.steps * STEP_LIMIT_FACTOR
    return dataclasses.replace(config, training=dataclasses.replace(config.training, steps=steps, **limit))


def spent(store: ResultStore, run_ids: Iterable[str], match: str) -> float | None:
    """Return what finished runs spent on average: generated tokens, or seconds of training steps without evaluation. None: one is missing.

    Raises:
        ConfigError: a run spent nothing, so that there is no budget to match.
    """
    totals = []
    for run_id in run_ids:
        run = store.run(run_id)
        if run.status != "finished":
            return None
        if match == "tokens":
            totals.append(float((run.last_step() or {}).get("generated_tokens_total") or 0.0))
        else:
            steps = run.steps()
            totals.append(float((steps["seconds_total"] - steps["seconds_evaluate"].fillna(0.0)).sum()))
        if not totals[-1] > 0:
            raise ConfigError(
                f"experiment.match={match}: the reference run {run_id} spent no {match}; it needs training.steps of 1 or more, or set "
                "experiment.match_budget"
            )
    return sum(totals) / len(totals) if totals else None
