"""Problems to train and evaluate on. A member defines `Config` (with `kind`) and

`load(config) -> Benchmark`: deterministic, the same problems in the same order for the same configuration, on every machine.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from harness.problems.problem import Benchmark


class Member(Protocol):
    """The functions that the module of a member defines."""

    @abstractmethod
    def load(self, config: Any) -> Benchmark: ...
