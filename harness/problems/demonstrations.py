"""Demonstrations of a cold start: drawn by the task itself, or read from a file; and what is wrong with them, said before any training.

`recipe` is the section `model.cold_start` of a pretrained policy (`harness.base_policy.pretrained`).
"""

import contextlib
import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.registry import BENCHMARK, implementation
from harness.configuration.sections import VerifierSection
from harness.problems.hygiene import statements
from harness.problems.problem import Benchmark, Demonstration, Problem, lines_of, normalise, template
from harness.verify import MathVerifier, VerifierConfig


def demonstrations(recipe: Any, task: Any, base: int) -> list[Demonstration]:
    """The demonstrations of base policy number `base`, the same at every call. Raises `ConfigError`: file or task has too few."""
    draw = random.Random(f"cold start/{recipe.seed}/{base}")
    if not recipe.path:
        demos: list[Demonstration] = implementation(BENCHMARK, task).demonstrate(task, recipe.demonstrations, draw)
        return demos
    demos = read_demonstrations(Path(recipe.path))
    if len(demos) < recipe.demonstrations:
        raise ConfigError(f"{recipe.path} has {len(demos)} lines; lower model.cold_start.demonstrations")
    return draw.sample(demos, recipe.demonstrations)


def read_demonstrations(path: Path) -> list[Demonstration]:
    """Lines `{"problem", "answer", "response"}`; without a response the answer is the response. Raises ConfigError as `lines_of`."""
    demos = []
    for where, row in lines_of(path, ("problem", "answer")):
        has_response = row.get("response") is not None
        response = row["response"] if has_response else row["answer"]
        if has_response and (isinstance(response, bool) or not isinstance(response, str | int | float)):
            raise ConfigError(f"{where}: response must be a text, not {json.dumps(response)[:40]}")
        demos.append(Demonstration(where, str(row["problem"]), str(row["answer"]), str(response)))
    return demos


def as_benchmark(demos: Sequence[Demonstration], task: Any) -> Benchmark:
    """The problems of demonstrations with the task's template, as training asks them."""
    make = template(getattr(task, "template", "plain"))
    problems = [Problem(each.id, make(each.problem), each.answer) for each in demos]
    return Benchmark("demonstrations", 1, problems, make.chat, getattr(task, "system", ""))


def check_demonstrations(demos: Sequence[Demonstration], rules: VerifierSection, sets: Mapping[str, Any]) -> None:
    """Refuse demonstrations that earn no reward, or tell answers of one of the `sets`, the run's benchmarks by name.

    A benchmark that cannot be loaded is left out; the run itself refuses it. Raises `ConfigError` that names the first demonstration.
    """
    with MathVerifier(VerifierConfig(**dataclasses.asdict(rules))) as verifier:
        pairs = [(each.response, each.answer) for each in demos]
        verdicts = verifier.verify_many(pairs, [each.problem for each in demos])
    for each, verdict in zip(demos, verdicts, strict=True):
        if not verdict.correct:
            raise ConfigError(
                f"model.cold_start: {each.id}: verifier={rules.extraction} calls the response {each.response[:80]!r} to "
                f"{each.problem[:60]!r} {verdict.verdict} (answer {each.answer[:40]!r}); mend it, or choose another verifier"
            )
    for name, config in sets.items():
        prompts: set[str] = set()
        with contextlib.suppress(ConfigError):
            prompts = {normalise(problem.prompt) for problem in statements(config)[0].problems}
        leak = next((each.id for each in demos if normalise(each.problem) in prompts), None)
        if leak is not None:
            raise ConfigError(f"model.cold_start: {leak} is a problem of the benchmark {name}; leave it out")
