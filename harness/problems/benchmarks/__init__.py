"""Problems to train and evaluate on. A member defines `Config` (with `kind`) and

`load(config) -> Benchmark`: deterministic, the same problems in the same order for the same configuration, on every machine.

Optional: `demonstrate(config, count: int, draw: random.Random) -> list[Demonstration]`: distinct solved problems, none of them held out,
for a cold start (`model.cold_start`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from harness.problems.problem import Benchmark


class Member(Protocol):
    @abstractmethod
    def load(self, config: Any) -> Benchmark: ...
