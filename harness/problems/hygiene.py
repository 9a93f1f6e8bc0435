"""Faults of problems, said before a run: golds that cannot be read, repeats, train / test overlap.

The rule of overlap is Tülu 3's (arXiv:2411.15124, section 3.2): a test problem overlaps when more than half of its words lie in 8-grams
that also occur in one training problem.
"""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.configuration.error import ConfigError
from harness.problems.problem import (
    Benchmark,
    DuplicateReport,
    Problem,
    commonest_gold,
    deduplicate,
    load_benchmark,
    normalise,
)
from harness.verify import OWN_TEXT, MathVerifier, VerifierConfig, is_no_answer, restore_escapes

_EXAMPLES = 5
NGRAM = 8
COVERAGE = 0.5
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class DataFault:
    """One fault of the data: in which set, by which check, in words."""

    name: str
    check: str
    text: str

    def __str__(self) -> str:
        return f"[{self.check}] {self.name}: {self.text}"


def report(
    benchmarks: Mapping[str, Any], task: Any = None, rules: Any = None, *, skip_unread: bool = False
) -> list[DataFault]:
    """Return the faults of benchmarks (`RunConfig.evaluation.benchmarks`), of the training task, and of the two together.

    `rules`: the verifier's. `skip_unread`: what cannot be read here has no faults; else `ConfigError` is raised.
    """
    faults: list[DataFault] = []
    loaded_sets: dict[str, Benchmark] = {}
    with MathVerifier(None if rules is None else VerifierConfig(**dataclasses.asdict(rules))) as verifier:
        for key, config in named_sets(benchmarks, task).items():
            try:
                loaded_set, repeats = statements(config)
            except ConfigError as error:
                if skip_unread:
                    continue
                raise ConfigError(f"{key}: {error}") from error
            name = key.removeprefix("evaluation.benchmarks.")
            loaded_sets[key] = loaded_set
            faults += [DataFault(name, "duplicates", line) for line in repeats.lines()]
            faults += check_escapes(name, loaded_set)
            faults += check_golds(name, loaded_set, verifier)
    if train := loaded_sets.pop("task", None):
        for key, benchmark in loaded_sets.items():
            faults += check_overlap(key.removeprefix("evaluation.benchmarks."), train, benchmark)
    return faults


def named_sets(benchmarks: Mapping[str, Any], task: Any) -> dict[str, Any]:
    """The sets by the keys that choose them: benchmarks, then the task where there is one."""
    sets = {f"evaluation.benchmarks.{name}": config for name, config in benchmarks.items()}
    return sets if task is None else {**sets, "task": task}


def statements(config: Any) -> tuple[Benchmark, DuplicateReport]:
    """The statements of a set, without prompt template, and what is repeated in its source."""
    if config.kind == "dataset":
        from harness.problems.benchmarks.dataset import load_records

        problems, repeats = load_records(config)
        return Benchmark(config.name, config.version, problems), repeats
    if hasattr(config, "template"):
        config = dataclasses.replace(config, template="plain")
    benchmark = load_benchmark(config)
    return benchmark, deduplicate(benchmark.problems)[1]


def check_escapes(name: str, benchmark: Benchmark) -> list[DataFault]:
    r"""Return problems and golds that have lost backslashes: in JSON ``\\frac`` is a form feed and ``rac``."""
    damaged = [
        p for p in benchmark.problems if restore_escapes(p.gold) != p.gold or restore_escapes(p.prompt) != p.prompt
    ]
    if not damaged:
        return []
    text = f"{len(damaged)} of {len(benchmark.problems)} problems have lost backslashes: {_golds(damaged)}; JSON wants two of them"
    return [DataFault(name, "escapes", text)]


def check_golds(name: str, benchmark: Benchmark, verifier: MathVerifier) -> list[DataFault]:
    """Return golds that no answer, their own text alone or a wrong neighbour can meet, and those that are not evaluated."""
    golds = {problem.gold for problem in benchmark.problems}
    refused_golds = {gold for gold in golds if verifier.refuses_gold(gold)}
    texts = []
    no_answers = [p for p in benchmark.problems if is_no_answer(p.gold)]
    if faulty := [p for p in benchmark.problems if p.gold in refused_golds and not is_no_answer(p.gold)]:
        texts.append(f"{len(faulty)} of {len(benchmark.problems)} golds cannot be read: {_golds(faulty)}")
    if no_answers:
        texts.append(f"{len(no_answers)} of {len(benchmark.problems)} golds are no answers: {_golds(no_answers)}")
    probes = verifier.probe_golds(golds)
    text_only = [p for p in benchmark.problems if p.gold not in refused_golds and probes.get(p.gold) == [OWN_TEXT]]
    gold, share = commonest_gold(benchmark.problems)
    if share is not None and any(problem.chance is None for problem in benchmark.problems):
        texts.append(f"{100 * share:.0f} % of the golds are {gold[:40]!r}, which guessing earns; give its `chance`")
    if text_only:
        texts.append(
            f"{len(text_only)} of {len(benchmark.problems)} golds can be met by their own text only: {_golds(text_only)}; give the value"
        )
    if misreads := [p for p in benchmark.problems if probes.get(p.gold) and probes[p.gold] != [OWN_TEXT]]:
        examples = _golds(misreads, lambda p: f" {' and '.join(probes[p.gold])}")
        texts.append(f"{len(misreads)} of {len(benchmark.problems)} golds are not what they say: {examples}")
    if open_golds := [p for p in benchmark.problems if p.gold not in refused_golds and verifier.leaves_open(p.gold)]:
        texts.append(f"{len(open_golds)} of {len(benchmark.problems)} golds leave something open: {_golds(open_golds)}")
    return [DataFault(name, "gold", text) for text in texts]


def _golds(problems: Sequence[Problem], remark: Callable[[Problem], str] = lambda _: "") -> str:
    return ", ".join(f"{p.id} {p.gold[:40]!r}{remark(p)}" for p in problems[:_EXAMPLES])


def check_overlap(name: str, train: Benchmark, test: Benchmark) -> list[DataFault]:
    """Return test problems that also stand, whole or mostly, in the training problems."""
    train_prompts = {normalise(problem.prompt) for problem in train.problems}
    copies = [problem.id for problem in test.problems if normalise(problem.prompt) in train_prompts]
    texts = []
    if copies:
        texts.append(f"{len(copies)} of {len(test.problems)} problems stand in the training set: {_preview(copies)}")
    overlaps = find_overlaps([p.prompt for p in train.problems], [p.prompt for p in test.problems])
    near_copies = [test.problems[place].id for place in overlaps if test.problems[place].id not in set(copies)]
    if near_copies:
        texts.append(
            f"{len(near_copies)} of {len(test.problems)} problems share over {100 * COVERAGE:.0f} % of their words with a training problem "
            f"({NGRAM}-grams): {_preview(near_copies)}"
        )
    return [DataFault(name, "overlap", text) for text in texts]


def _preview(ids: list[str]) -> str:
    return ", ".join(ids[:_EXAMPLES]) + (", …" if len(ids) > _EXAMPLES else "")


def find_overlaps(train: Sequence[str], test: Sequence[str]) -> list[int]:
    """Return the places of test problems that one training problem covers by more than `COVERAGE`, by n-grams of `NGRAM` words.

    Time is linear in the words of both; memory in the words of `test` only. A text shorter than an n-gram never overlaps:
    for those compare whole texts.
    """
    occurrences: defaultdict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    words_of = [_words(text) for text in test]
    for index, words in enumerate(words_of):
        for start, gram in _grams(words):
            occurrences[gram].append((index, start))
    covered: set[int] = set()
    for text in train:
        hits: defaultdict[int, set[int]] = defaultdict(set)
        for _, gram in _grams(_words(text)):
            for index, start in occurrences.get(gram, ()):
                hits[index].add(start)
        for index, starts in hits.items():
            places = {start + offset for start in starts for offset in range(NGRAM)}
            if len(places) > COVERAGE * len(words_of[index]):
                covered.add(index)
    return sorted(covered)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _grams(words: list[str]) -> list[tuple[int, tuple[str, ...]]]:
    return [(start, tuple(words[start : start + NGRAM])) for start in range(len(words) - NGRAM + 1)]
