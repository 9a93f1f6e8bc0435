"""Trackers: other places that receive every metrics row.

A member defines `Config`, `open_sink(config, about)` and `destination(config) -> str`, which says where the rows go
(`online` or `offline`, then the place): a run's rows are sent once to each destination. A sink is one run in one
tracker: `log(step, metrics)` takes in one step, `close(finished)` ends it. Both may raise: the run goes on without it.

Optional: `MODULES`, the packages that it needs; `EXTRA`, the extra of this package that installs them; `send_results(config, results,
experiment, files)`, which takes an experiment's tables and figures.

The store's `metrics.jsonl` is the only thing a run writes. A thread of the supervisor reads these files and feeds the trackers
(`_feed`), so that a tracker which fails or hangs cannot disturb a run. What did not arrive is sent when the same command is run again.
Importing a member imports neither wandb nor TensorBoard.

May import: configuration, store.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol


class Member(Protocol):
    @abstractmethod
    def open_sink(self, config: Any, about: Any) -> Any: ...

    @abstractmethod
    def destination(self, config: Any) -> str: ...
