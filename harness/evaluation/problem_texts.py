"""The problems behind stored samples: what was asked and what counts as right."""

from __future__ import annotations

import os
from dataclasses import dataclass

from harness.configuration.error import ConfigError
from harness.problems.problem import benchmark_config, load_benchmark
from harness.store import RunDir


@dataclass(frozen=True)
class ProblemText:
    """The prompt as the policy saw it, and the gold answer."""

    prompt: str
    gold: str


def problem_texts(run: RunDir, benchmark: str) -> dict[str, ProblemText]:
    """Return prompt and gold by problem id, nothing where this machine does not have the data. Never asks the network."""
    values = run.settings()
    for key in ("evaluation", "benchmarks", benchmark):
        values = values.get(key) if isinstance(values, dict) else None
    if not isinstance(values, dict) or "kind" not in values:
        return {}
    for switch in (
        "HF_HUB_OFFLINE",
        "HF_DATASETS_OFFLINE",
    ):  # the Hub's data come from its cache or not at all
        os.environ.setdefault(switch, "1")
    try:
        problems = load_benchmark(benchmark_config(values, benchmark)).problems
    except (ConfigError, ValueError):
        return {}
    return {problem.id: ProblemText(problem.prompt, problem.gold) for problem in problems}
