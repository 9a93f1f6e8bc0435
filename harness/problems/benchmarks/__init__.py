"""Problems to train and evaluate on. A member defines `Config` (with `kind`) and

`load(config) -> Benchmark`: deterministic, the same problems in the same order for the same configuration, on every machine.

Optional: `demonstrate(config, count: int, draw: random.Random) -> list[Demonstration]`: distinct solved problems, none of them held out,
for a cold start (`model.cold_start`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from harness.problems.problem import Benchmark


class Member(Protocol):
    @abstractmethod
    def load(self, config: Any) -> Benchmark: ...


def benchmark_faults(member: Any) -> Iterator[str]:
    """The same problems twice, some, and each with an id of its own."""
    first, second = (member.load(member.Config()) for _ in range(2))
    if not first.problems:
        yield "there are no problems"
    if first.content != second.content:
        yield "loaded twice it has other problems: nothing but the configuration may decide them"
    if len({problem.id for problem in first.problems}) < len(first.problems):
        yield "two problems have one id"


CONTRACTS: Mapping[str, Callable[[Any], Iterator[str]]] = {"benchmarks": benchmark_faults}
