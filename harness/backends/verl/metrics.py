"""verl's metrics as rows of the run, while it trains."""

from __future__ import annotations

import json
from typing import Any

from harness.backends.verl.ledger import Ledger, NewLines, ledger_columns
from harness.backends.verl.place import Place
from harness.configuration.schema import RunConfig
from harness.exchange.importers._log import store_rows
from harness.exchange.importers.verl import METRICS, entry
from harness.store import RunDir

_ESTIMATED = ("generated_tokens", "generated_tokens_total")  # the ledger knows them
# With this aggregation verl's entropy and KL are sums over tokens divided by a constant, not means over tokens.
_NOT_PER_TOKEN = {"constant_sum": ("entropy_nats", "kl_to_reference")}


class MetricsImport:
    """Appends a row for every step that verl's file logger has gained."""

    def __init__(self, config: RunConfig, run: RunDir, place: Place, resumed_step: int) -> None:
        self._config, self._run, self._place = config, run, place
        self._ledger, self._new = Ledger(place.ledger), NewLines()
        self._tokens = _tokens_until(run, resumed_step)

    def update(self) -> None:
        """Take in what is there by now."""
        for line in self._new.of(self._place.metrics):
            self._append(json.loads(line))

    def _append(self, item: dict[str, Any]) -> None:
        logged = entry(item)
        if logged is None or logged.step < 1:
            return
        algorithm = self._config.algorithm
        (row,) = store_rows([logged], METRICS, ())
        for column in (*_ESTIMATED, *_NOT_PER_TOKEN.get(algorithm.aggregation.kind, ())):
            row.pop(column, None)
        row |= ledger_columns(self._ledger.step(logged.step), algorithm.prompts_per_step)
        self._ledger.forget(logged.step)
        self._tokens += int(row.get("generated_tokens") or 0)
        row["attempt"] = self._place.attempt
        row["updates"] = logged.step * algorithm.updates_per_step * algorithm.epochs_per_step
        row["generated_tokens_total"] = self._tokens
        self._run.append_step(row)


def _tokens_until(run: RunDir, step: int) -> int:
    """Tokens generated up to a step of an earlier attempt."""
    if step < 1:
        return 0
    rows = run.steps()
    known = rows[rows["step"] <= step]["generated_tokens_total"].dropna()
    return int(known.iloc[-1]) if len(known) else 0
