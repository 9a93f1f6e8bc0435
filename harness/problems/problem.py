"""Problems and benchmarks, as the rest of the harness sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.configuration.identity import content_hash
from harness.configuration.registry import BENCHMARK, implementation, member
from harness.configuration.schema import load_dataclass


@dataclass(frozen=True)
class Problem:
    """One problem: a stable id, the prompt text as the policy sees it, the gold answer as the verifier reads it."""

    id: str
    prompt: str
    gold: str


@dataclass(frozen=True)
class Benchmark:
    """Named problems; `version` changes whenever prompts or golds do. `chat`: prompts are user turns of a chat template.

    `system`: the system turn before them, if any.
    """

    name: str
    version: int
    problems: Sequence[Problem]
    chat: bool = False
    system: str = ""

    @property
    def content(self) -> str:
        """A hash of every problem's id, prompt and gold answer: a file may change at its place."""
        return content_hash([[problem.id, problem.prompt, problem.gold] for problem in self.problems])


def load_benchmark(config: Any) -> Benchmark:
    """Load the benchmark of a member's configuration.

    Raises:
        ConfigError: its data is missing or malformed; the message names the file and the fix.
    """
    return implementation(BENCHMARK, config).load(config)


def benchmark_config(values: Mapping[str, Any], where: str) -> Any:
    """Return the typed configuration of a benchmark from its mapping; errors begin with `where`."""
    return load_dataclass(member(BENCHMARK, values["kind"]).Config, values, where)
