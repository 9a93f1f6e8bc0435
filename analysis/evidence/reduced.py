"""The cells of a run out of its stored samples: what takes longest in loading an experiment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from analysis.evidence.cells import SAMPLE_COLUMNS, RunCells, run_cells, run_samples
from analysis.evidence.checkpoint_rule import last_evaluations
from harness.evaluation.metrics.summary import default_ks
from harness.evaluation.metrics.votes import Equivalence
from harness.experiment.plan import Plan
from harness.store import ResultStore

if TYPE_CHECKING:
    from harness.verify import MathVerifier


# With a sign that lacks its left side an integer equals no other: the verifier cannot read it.
_BARE = re.compile(r"([*?]?)[0-9]+")


@contextmanager
def answer_equality() -> Iterator[Equivalence]:
    """Give the verifier's equality of pairs of answers, for votes. The verifier is loaded at the first pair that needs it."""
    with ExitStack() as stack:

        @cache
        def verifier() -> MathVerifier:
            from harness.verify import MathVerifier

            return stack.enter_context(MathVerifier())

        def equal(pairs: Sequence[tuple[str, str]]) -> list[bool]:
            bare = {pair for pair in pairs if _bare(*pair)}
            others = [pair for pair in pairs if pair not in bare]
            verdicts = dict(zip(others, verifier().equivalent_many(others) if others else [], strict=True))
            return [verdicts.get(pair, pair[0] == pair[1]) for pair in pairs]

        yield equal


def _bare(answer_a: str, answer_b: str) -> bool:
    found = [_BARE.fullmatch(answer) for answer in (answer_a, answer_b)]
    return all(found) and any(one is not None and one[1] for one in found)


@dataclass(frozen=True)
class Question:
    """A question to samples: the plan's checkpoints, the k of Pass@k and Maj@k, and by whose equality votes are counted.

    ``curves``: every k that a figure draws, not n alone; ``ks``: those asked about beside them; ``by_second``: metrics by the second
    grader are asked about.
    """

    plan: Plan
    curves: bool
    ks: frozenset[Any]
    equality: Equivalence
    by_second: bool = False

    @property
    def text(self) -> str:
        """The same for questions that have the same cells as their answer."""
        averaged = last_evaluations(self.plan.checkpoint_rule)
        return repr((self.curves, sorted(map(str, self.ks)), averaged, False, self.by_second))


Reduce = Callable[[ResultStore, str, str, Question], RunCells]


def reduce_run(store: ResultStore, run_id: str, benchmark: str, question: Question) -> RunCells:
    """Reduce the samples of a run on one benchmark to cells.

    Raises:
        StoreError: samples that cannot be read.
    """
    run = store.run(run_id)
    evaluated = run.sample_steps(benchmark)
    tables = []
    for step in evaluated:
        table = run.sample_table(benchmark, step, SAMPLE_COLUMNS, coded=True)
        tables.append(table.append_column("step", pa.array([step] * len(table), pa.int64())))
    samples = run_samples(pa.concat_tables(tables).unify_dictionaries(), question.equality)
    largest = samples.largest
    averaged, asked, curves = last_evaluations(question.plan.checkpoint_rule), question.ks, question.curves
    wanted = {evaluated[0], *evaluated[-averaged:]}
    ks = sorted({*(default_ks(largest) if curves else [largest]), *asked})
    steps = evaluated if asked and curves else wanted  # a curve over training is drawn of what is asked
    ks_by_step: dict[int, Sequence[int]] = {
        step: ks if step in wanted else sorted({*asked, largest}) for step in steps
    }
    return run_cells(samples, ks_by_step, by_second=question.by_second)
