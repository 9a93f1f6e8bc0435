"""Faults of problems, said before a run: golds that do not verify against themselves, repeats, train / test overlap."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.configuration.error import ConfigError
from harness.problems.duplicates import DuplicateReport, deduplicate, normalised
from harness.problems.overlap import COVERED, NGRAM, find_overlaps
from harness.problems.problem import Benchmark, Problem, load_benchmark
from harness.problems.records import Record
from harness.verify import MathVerifier

_SHOWN = 5


@dataclass(frozen=True)
class DataFault:
    """One fault of the data: in which set, by which check, in words."""

    name: str
    check: str
    text: str

    def __str__(self) -> str:
        return f"[{self.check}] {self.name}: {self.text}"


def report(
    benchmarks: Mapping[str, Any], task: Any = None, verifier: MathVerifier | None = None
) -> list[DataFault]:
    """Return the faults of benchmarks, the training task, and the two together; an empty list: nothing to say.

    Args:
        benchmarks: name → configuration of a member of `harness.problems.benchmarks` (`RunConfig.evaluation.benchmarks`).
        task: configuration of the training problems (`RunConfig.task`), if there is training.
        verifier: reused if given.

    Raises:
        ConfigError: data is missing or malformed.
    """
    sets = dict(benchmarks) | ({"task": task} if task is not None else {})
    grader = verifier or MathVerifier()
    faults: list[DataFault] = []
    loaded: dict[str, Benchmark] = {}
    try:
        for name, config in sets.items():
            try:
                loaded[name], repeats = _load(config)
            except ConfigError as error:
                key = name if config is task else f"evaluation.benchmarks.{name}"
                raise ConfigError(f"{key}: {error}") from error
            faults += [DataFault(name, "duplicates", line) for line in repeats.lines()]
            faults += check_golds(name, loaded[name], grader)
    finally:
        if verifier is None:
            grader.close()
    if task is not None:
        train = loaded.pop("task")
        for name, benchmark in loaded.items():
            faults += check_overlap(name, train, benchmark)
    return faults


def _load(config: Any) -> tuple[Benchmark, DuplicateReport]:
    """The statements of a set, without prompt template, and what is repeated in its source."""
    if config.kind == "dataset":
        from harness.problems.benchmarks.dataset import load_records

        records, repeats = load_records(config)
        problems = [Problem(record.id, record.problem, record.answer) for record in records]
        return Benchmark(config.name, config.version, problems), repeats
    if hasattr(config, "template"):
        config = dataclasses.replace(config, template="plain")
    benchmark = load_benchmark(config)
    rows = [Record(problem.id, problem.prompt, problem.gold) for problem in benchmark.problems]
    return benchmark, deduplicate(rows)[1]


def check_golds(name: str, benchmark: Benchmark, verifier: MathVerifier) -> list[DataFault]:
    """Return golds that the verifier does not call right as answers (no response could be, either), and those that are not evaluated."""
    verdicts = {gold: verifier.check_gold(gold) for gold in {p.gold for p in benchmark.problems}}
    left = {gold: verifier.left_open(gold) for gold, verdict in verdicts.items() if verdict.correct}
    faults = []
    if bad := [problem for problem in benchmark.problems if not verdicts[problem.gold].correct]:
        shown = ", ".join(f"{p.id} {p.gold[:40]!r} ({verdicts[p.gold].verdict})" for p in bad[:_SHOWN])
        text = f"{len(bad)} of {len(benchmark.problems)} golds do not verify against themselves: {shown}"
        faults.append(DataFault(name, "gold", text))
    if unfinished := [problem for problem in benchmark.problems if left.get(problem.gold)]:
        shown = ", ".join(
            f"{p.id} {p.gold[:40]!r} ({' and '.join(left[p.gold])})" for p in unfinished[:_SHOWN]
        )
        text = (
            f"{len(unfinished)} of {len(benchmark.problems)} golds leave something to work out: {shown}; an answer counts when it is "
            "evaluated, and when it uses the same kinds of operations"
        )
        faults.append(DataFault(name, "gold", text))
    return faults


def check_overlap(name: str, train: Benchmark, test: Benchmark) -> list[DataFault]:
    """Return test problems that also stand, whole or mostly, in the training problems."""
    there = {normalised(problem.prompt) for problem in train.problems}
    equal = [problem.id for problem in test.problems if normalised(problem.prompt) in there]
    faults = []
    if equal:
        text = f"{len(equal)} of {len(test.problems)} problems stand in the training set: {_some(equal)}"
        faults.append(DataFault(name, "overlap", text))
    found = find_overlaps([p.prompt for p in train.problems], [p.prompt for p in test.problems])
    near = [test.problems[o.test].id for o in found if test.problems[o.test].id not in set(equal)]
    if near:
        text = (
            f"{len(near)} of {len(test.problems)} problems share more than {COVERED:.0%} of their words with one training problem "
            f"({NGRAM}-grams): {_some(near)}"
        )
        faults.append(DataFault(name, "overlap", text))
    return faults


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:_SHOWN]) + (", …" if len(ids) > _SHOWN else "")
