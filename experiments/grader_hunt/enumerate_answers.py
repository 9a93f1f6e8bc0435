"""A hunt without a model: answers made from a grammar over a problem's own numbers, where the two graders part.

    python experiments/grader_hunt/enumerate_answers.py                 # every answer of one and two clauses, 20,000 of three

Each clause says itself what it claims, so an answer has a reading by the rules of docs/evaluation.md. A divergence of the graders is
explained where the first one follows that reading. Answers that it reads otherwise are printed, class by class, and make the exit status 1.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.verify import MathVerifier, VerifierConfig

_NUMERAL = re.compile(r"(?<![\d.])-?\d[\d.,/]*(?<=\d)%?")
EXTRACTIONS = ("boxed", "answer_line", "any")
VALUE, OTHER, FORMULA = "value", "other", "formula"


@dataclass(frozen=True)
class Problem:
    """A question as an expression, its gold answer, that as written in an answer, and another number of the question or near it."""

    expression: str
    gold: str
    value: str
    other: str


@dataclass(frozen=True)
class Form:
    """A clause with a slot for a number, and how it counts: a box, a line, a claim, a correction, a retraction, words, or several values.

    A claim that works something out (`works`) overrules an answer line that it does not mention.
    """

    text: str
    kind: str
    works: bool = False


@dataclass(frozen=True)
class Clause:
    """A form filled with the gold value, another number or the expression."""

    form: Form
    filling: str

    def written(self, problem: Problem) -> str:
        """Return the clause as it stands in an answer."""
        x = {VALUE: problem.value, OTHER: problem.other, FORMULA: problem.expression}[self.filling]
        return self.form.text.replace("<x>", x).replace("<e>", problem.expression)


PROBLEMS = (
    Problem("17 + 25", "42", "42", "41"),
    Problem("17 + 25", "42", "42", "17"),
    Problem("6 * 7", "42", "42", "6"),
    Problem("8 - 13", "-5", "-5", "13"),
    Problem("1/2 + 1/4", r"\frac{3}{4}", "3/4", "1/4"),
    Problem("3/8 + 3/8", "3/4", "0.75", "3/8"),
    Problem("20% + 30%", r"50\%", "50%", "30%"),
    Problem("1,000 + 234", "1234", "1,234", "1,000"),
    Problem("1.5 + 2.25", "3.75", "3.75", "2.25"),
)
FORMS = (
    Form(r"We get \boxed{<x>}.", "box"),
    Form(r"So $\boxed{<x>}$.", "box"),
    Form("The answer is <x>.", "line"),
    Form("Answer: <x>", "line"),
    Form("#### <x>", "line"),
    Form("The answer to <e> is <x>.", "line"),
    Form("Answer: <e> = <x>", "line"),
    Form("<x>", "claim"),
    Form("**<x>**", "claim"),
    Form("$<x>$", "claim"),
    Form("So it is <x>.", "claim"),
    Form("It comes to <x>.", "claim"),
    Form("There are <x> apples.", "claim"),
    Form("Therefore, $x = <x>$.", "claim"),
    Form("<e> is <x>.", "claim", works=True),
    Form("<e> = <x>", "claim", works=True),
    Form("$<e> = <x>$", "claim", works=True),
    Form("<x> = <e>", "claim", works=True),
    Form("<e> equals <x>.", "claim", works=True),
    Form("<e> makes <x>.", "claim", works=True),
    Form("Here <e>, which is <x>.", "claim", works=True),
    Form("The value of <e> is actually <x>.", "claim", works=True),
    Form("We get <e> = <x> in all.", "claim", works=True),
    Form("The result is <x>.", "claim", works=True),
    Form("<x> is <e>.", "claim", works=True),
    Form("<x> is the sum of both.", "claim", works=True),
    Form("No wait, it is <x>.", "correction"),
    Form("Actually, <x>.", "correction"),
    Form("I mean <x>.", "correction"),
    Form("Or rather <x>.", "correction"),
    Form("That is wrong.", "retraction"),
    Form("I hope this helps.", "words"),
    Form("What is <e>?", "question"),
    Form("It is <x> or 99.", "several"),
    Form("It is between <x> and 99.", "several"),
    Form("It is not <x>.", "several"),
    Form("<x> is the smallest number 99.", "several"),
    Form("<x> is the largest of 12 and 31.", "several"),
    Form("I used 2 steps.", "several"),
)
CLAUSES = [
    Clause(form, filling)
    for form in FORMS
    for filling in ((VALUE, OTHER, FORMULA) if "<x>" in form.text else (VALUE,))
    if not (
        filling == FORMULA
        and ("<e>" in form.text or form.text.startswith("<x> is") or form.kind == "several")
    )
]


def joined(clauses: Sequence[Clause], problem: Problem, joint: str) -> str:
    """Return the clauses as one text; what ends without a full stop has its own line."""
    texts = [clause.written(problem) for clause in clauses]
    ended = [text if text.endswith((".", "?")) else text + "\n" for text in texts]
    return "".join(text + (joint if text[-1] != "\n" else "") for text in ended).strip()


def reading(clauses: Sequence[Clause], extraction: str, problem: Problem) -> tuple[str | None, str]:
    """Return the filling that an answer claims, None where it claims none, and why, by the rules of docs/evaluation.md."""
    boxes = [clause for clause in clauses if clause.form.kind == "box"]
    if boxes:
        return boxes[-1].filling, "the last box counts"
    if extraction == "boxed":
        return None, "no box"
    lines = [i for i, clause in enumerate(clauses) if clause.form.kind == "line"]
    if lines:
        return _after_line(clauses[lines[-1]], clauses[lines[-1] + 1 :], problem)
    if extraction == "answer_line":
        return None, "no answer line"
    return _last_said(clauses)


def _after_line(line: Clause, later: Sequence[Clause], problem: Problem) -> tuple[str | None, str]:
    used = {VALUE: problem.value, OTHER: problem.other, FORMULA: ""}[line.filling]
    for clause in reversed(later):
        if clause.form.kind == "retraction":
            return None, "taken back"
        if clause.form.kind == "correction":
            return clause.filling, "a correction counts"
        if clause.form.works and clause.filling == line.filling != FORMULA:
            return line.filling, "a later calculation confirms the answer line"
        if clause.form.works and used not in _NUMERAL.findall(clause.written(problem)):
            return clause.filling, "a later calculation counts"
    return line.filling, "the answer line counts"


def _last_said(clauses: Sequence[Clause]) -> tuple[str | None, str]:
    if clauses[-1].form.kind == "retraction":
        return None, "taken back"
    said = [clause for clause in clauses if clause.form.kind in ("claim", "correction", "several")]
    if not said or said[-1].form.kind == "several":
        return None, "several values, or none"
    return said[-1].filling, "the last claim counts"


def answers(triples: int, seed: int) -> Iterator[tuple[tuple[Clause, ...], str]]:
    """Yield the clauses of answers with what joins them: all of one and two clauses, and some of three."""
    yield from ((one, " ") for one in itertools.product(CLAUSES, repeat=1))
    yield from itertools.product(itertools.product(CLAUSES, repeat=2), (" ", "\n"))
    chance = random.Random(seed)
    for _ in range(triples):
        yield tuple(chance.choices(CLAUSES, k=3)), chance.choice((" ", "\n"))


def hunt(
    made: Iterable[tuple[tuple[Clause, ...], str]], extraction: str
) -> tuple[Counter[str], dict[str, list[str]]]:
    """Return the divergences that are explained, counted, and examples of those that are not, by class."""
    explained, unexplained = Counter[str](), defaultdict[str, list[str]](list)
    made = list(made)
    with MathVerifier(VerifierConfig(extraction=extraction)) as verifier:
        for problem in PROBLEMS:
            pairs = [(joined(clauses, problem, joint), problem.gold) for clauses, joint in made]
            both = zip(verifier.verify_many(pairs), verifier.second_many(pairs), strict=True)
            for (clauses, _), (text, gold), (first, second) in zip(made, pairs, both, strict=True):
                said, why = reading(clauses, extraction, problem)
                explained["answers"] += 1
                if first.correct == (said == VALUE):
                    side = "only the first" if first.correct else "only the second"
                    explained[f"{side}: {why}"] += first.correct != second
                    continue
                name = " | ".join(f"{c.form.text} ({c.filling})" for c in clauses)
                unexplained[name].append(
                    f"{text!r} for {gold}: {first.verdict} {first.answer}; second {second}"
                )
    return explained, unexplained


def main() -> int:
    """Print counts of explained divergences and the classes of the others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--triples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=40)
    wanted = parser.parse_args()
    found = 0
    for extraction in EXTRACTIONS:
        explained, unexplained = hunt(answers(wanted.triples, wanted.seed), extraction)
        print(
            extraction, *(f"  {count:8} {why}" for why, count in sorted(explained.items()) if count), sep="\n"
        )
        print(f"  {len(unexplained):8} classes unexplained")
        for name, examples in list(unexplained.items())[: wanted.show]:
            print(f"    {len(examples)} of {name}: {examples[0]}")
        found += len(unexplained)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
