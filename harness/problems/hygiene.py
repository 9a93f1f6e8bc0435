"""Faults of problems, said before a run: golds that do not verify against themselves, repeats, train / test overlap.

The rule of overlap is Tülu 3's (arXiv:2411.15124, section 3.2): a test problem overlaps when more than half of its words lie in 8-grams
that also occur in one training problem.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.configuration.error import ConfigError
from harness.problems.problem import (
    Benchmark,
    DuplicateReport,
    Problem,
    Record,
    deduplicate,
    load_benchmark,
    normalised,
)
from harness.verify import MathVerifier
from harness.verify.probes import OWN_TEXT

_SHOWN = 5
NGRAM = 8
COVERED = 0.5
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class DataFault:
    """One fault of the data: in which set, by which check, in words."""

    name: str
    check: str
    text: str

    def __str__(self) -> str:
        return f"[{self.check}] {self.name}: {self.text}"


def report(benchmarks: Mapping[str, Any], task: Any = None) -> list[DataFault]:
    """Return the faults of benchmarks, the training task, and the two together; an empty list: nothing to say.

    Args:
        benchmarks: name → configuration of a member of `harness.problems.benchmarks` (`RunConfig.evaluation.benchmarks`).
        task: configuration of the training problems (`RunConfig.task`), if there is training.

    Raises:
        ConfigError: data is missing or malformed.
    """
    sets = dict(benchmarks) | ({"task": task} if task is not None else {})
    faults: list[DataFault] = []
    loaded: dict[str, Benchmark] = {}
    with MathVerifier() as verifier:
        for name, config in sets.items():
            try:
                loaded[name], repeats = statements(config)
            except ConfigError as error:
                key = name if config is task else f"evaluation.benchmarks.{name}"
                raise ConfigError(f"{key}: {error}") from error
            faults += [DataFault(name, "duplicates", line) for line in repeats.lines()]
            faults += check_golds(name, loaded[name], verifier)
    if task is not None:
        train = loaded.pop("task")
        for name, benchmark in loaded.items():
            faults += check_overlap(name, train, benchmark)
    return faults


def statements(config: Any) -> tuple[Benchmark, DuplicateReport]:
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
    """Return golds that no answer, their own text alone or a wrong neighbour can meet, and those that are not evaluated."""
    verdicts = {gold: verifier.check_gold(gold) for gold in {p.gold for p in benchmark.problems}}
    left = {gold: verifier.open_operations(gold) for gold, verdict in verdicts.items() if verdict.correct}
    faults = []
    if bad := [problem for problem in benchmark.problems if not verdicts[problem.gold].correct]:
        shown = ", ".join(f"{p.id} {p.gold[:40]!r} ({verdicts[p.gold].verdict})" for p in bad[:_SHOWN])
        text = f"{len(bad)} of {len(benchmark.problems)} golds do not verify against themselves: {shown}"
        faults.append(DataFault(name, "gold", text))
    probed = verifier.probe_golds(verdicts)
    by_text = [p for p in benchmark.problems if verdicts[p.gold].correct and probed.get(p.gold) == [OWN_TEXT]]
    if by_text:
        text = (
            f"{len(by_text)} of {len(benchmark.problems)} golds can be met by their own text only: {_golds(by_text)}; give the value "
            "alone, or leave them out"
        )
        faults.append(DataFault(name, "gold", text))
    if misread := [p for p in benchmark.problems if probed.get(p.gold) and probed[p.gold] != [OWN_TEXT]]:
        shown = ", ".join(f"{p.id} {p.gold[:40]!r} {' and '.join(probed[p.gold])}" for p in misread[:_SHOWN])
        faults.append(
            DataFault(name, "gold", f"{len(misread)} of {len(benchmark.problems)} golds are not what they say: {shown}")
        )
    if unfinished := [problem for problem in benchmark.problems if left.get(problem.gold)]:
        shown = ", ".join(f"{p.id} {p.gold[:40]!r} ({' and '.join(left[p.gold])})" for p in unfinished[:_SHOWN])
        text = (
            f"{len(unfinished)} of {len(benchmark.problems)} golds leave something to work out: {shown}; an answer counts when it is "
            "evaluated, and when it uses the same kinds of operations"
        )
        faults.append(DataFault(name, "gold", text))
    return faults


def _golds(problems: Sequence[Problem]) -> str:
    return ", ".join(f"{problem.id} {problem.gold[:40]!r}" for problem in problems[:_SHOWN])


def check_overlap(name: str, train: Benchmark, test: Benchmark) -> list[DataFault]:
    """Return test problems that also stand, whole or mostly, in the training problems."""
    there = {normalised(problem.prompt) for problem in train.problems}
    equal = [problem.id for problem in test.problems if normalised(problem.prompt) in there]
    faults = []
    if equal:
        text = f"{len(equal)} of {len(test.problems)} problems stand in the training set: {_some(equal)}"
        faults.append(DataFault(name, "overlap", text))
    overlaps = find_overlaps([p.prompt for p in train.problems], [p.prompt for p in test.problems])
    near = [test.problems[o.test].id for o in overlaps if test.problems[o.test].id not in set(equal)]
    if near:
        text = (
            f"{len(near)} of {len(test.problems)} problems share more than {COVERED:.0%} of their words with one training problem "
            f"({NGRAM}-grams): {_some(near)}"
        )
        faults.append(DataFault(name, "overlap", text))
    return faults


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:_SHOWN]) + (", …" if len(ids) > _SHOWN else "")


@dataclass(frozen=True)
class Overlap:
    """One test problem (by its place) and the training problem that covers the largest share of its words."""

    test: int
    train: int
    covered: float


def find_overlaps(train: Sequence[str], test: Sequence[str]) -> list[Overlap]:
    """Return test problems that one training problem covers by more than `COVERED`, in order, by n-grams of `NGRAM` words.

    Time is linear in the words of both; memory in the words of `test` only. A text shorter than an n-gram never overlaps:
    for those compare whole texts.
    """
    where: defaultdict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    words_of = [_words(text) for text in test]
    for index, words in enumerate(words_of):
        for start, gram in _grams(words):
            where[gram].append((index, start))
    best: dict[int, Overlap] = {}
    for place, text in enumerate(train):
        hits: defaultdict[int, set[int]] = defaultdict(set)
        for _, gram in _grams(_words(text)):
            for index, start in where.get(gram, ()):
                hits[index].add(start)
        for index, starts in hits.items():
            share = _share(starts, len(words_of[index]))
            if share > COVERED and (index not in best or share > best[index].covered):
                best[index] = Overlap(index, place, share)
    return [best[index] for index in sorted(best)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _grams(words: list[str]) -> list[tuple[int, tuple[str, ...]]]:
    return [(start, tuple(words[start : start + NGRAM])) for start in range(len(words) - NGRAM + 1)]


def _share(starts: set[int], words: int) -> float:
    mask = np.zeros(words, dtype=bool)
    for start in starts:
        mask[start : start + NGRAM] = True
    return float(mask.mean())
