"""The problems behind stored samples: what was asked and what counts as right."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.configuration.error import ConfigError
from harness.problems.problem import benchmark_config, load_benchmark
from harness.store import RunDir

_SWITCH = "HF_HUB_OFFLINE"
_TRUE = {"1", "ON", "YES", "TRUE"}
_READ_IT = ("huggingface_hub.constants", "datasets.config")


@dataclass(frozen=True)
class ProblemText:
    """The prompt as the policy saw it, and the gold answer."""

    prompt: str
    gold: str


@contextmanager
def _offline() -> Iterator[None]:
    """As long as it lasts, the Hub's data come from its cache or not at all. Its libraries read the switch once, when they are imported."""
    said = os.environ.get(_SWITCH)
    before = {name: getattr(sys.modules[name], _SWITCH) for name in _READ_IT if name in sys.modules}
    os.environ[_SWITCH] = "1"
    for name in before:
        setattr(sys.modules[name], _SWITCH, True)
    try:
        yield
    finally:
        if said is None:
            del os.environ[_SWITCH]
        else:
            os.environ[_SWITCH] = said
        for name in _READ_IT:
            if name in sys.modules:
                setattr(
                    sys.modules[name], _SWITCH, before.get(name, said is not None and said.upper() in _TRUE)
                )


def problem_texts(run: RunDir, benchmark: str) -> dict[str, ProblemText]:
    """Return prompt and gold by problem id, nothing where this machine does not have the data. Never asks the network."""
    values = run.settings()
    for key in ("evaluation", "benchmarks", benchmark):
        values = values.get(key) if isinstance(values, dict) else None
    if not isinstance(values, dict) or "kind" not in values:
        return {}
    try:
        with _offline():
            problems = load_benchmark(benchmark_config(values, benchmark)).problems
    except (ConfigError, ValueError):
        return {}
    return {problem.id: ProblemText(problem.prompt, problem.gold) for problem in problems}
