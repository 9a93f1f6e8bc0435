"""The problems behind stored samples: what was asked and what counts as right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    of_hub = values.get("source") and not values.get("path")
    try:
        rows = _of_the_hub(values) if of_hub else _rows(values)
    except (ConfigError, ValueError):
        return {}
    return {identifier: ProblemText(prompt, gold) for identifier, prompt, gold in rows}


def _rows(values: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    problems = load_benchmark(benchmark_config(values, "benchmark")).problems
    return [(problem.id, problem.prompt, problem.gold) for problem in problems]


def _of_the_hub(values: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Read a dataset of the Hub in a process of its own, since the Hub's libraries read the switch once, when they are imported.

    Raises:
        ConfigError: it is not in the cache.
    """
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(values),
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ConfigError(f"{values['source']} is not in the cache of this machine")
    return [(identifier, prompt, gold) for identifier, prompt, gold in json.loads(done.stdout)]


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(_rows(json.load(sys.stdin))))
    except ConfigError as error:
        sys.exit(str(error))
