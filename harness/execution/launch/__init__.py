"""Launchers: where a plan's runs are sent. A member defines `Config` and `launch(config, work, progress) -> Summary`.

Whatever the launcher, a run is executed by `harness.execution.supervisor.supervise` against the shared store, so claims, resuming
and status are the same everywhere: a job that runs twice, on two machines, does the work once. Importing a member imports
neither submitit nor Ray.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol


class Member(Protocol):
    @abstractmethod
    def launch(self, config: Any, work: Any, progress: Any) -> Any: ...
