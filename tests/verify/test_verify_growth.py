"""Reading a response takes time linear in its length: a policy that collapses writes one thing over and over."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable

import pytest

from harness.verify import MathVerifier
from harness.verify.cross_check import last_numeral_is
from harness.verify.extract import extract
from harness.verify.read.answers import read_answer, read_text
from harness.verify.read.tokens import tokenize

SENTENCES = ["It is 5. ", "the answer is ", "The answer is 5. ", "so so so ", "not ", "wait ", "I hope "]
MARKS = ["$x$ ", "\\boxed{", "\\boxed{5}, ", "{", "}", "Answer: 5\n", "####", "<think>", "**", "\\(x\\) ", "\\[x\\]\n"]
NUMBERS = ["5 ", "1,000 ", "1/", "3/4 ", "\\frac{1}{2} ", "1.", "²", "₂", "½", "10^{5} ", "5\\% ", "12:30 "]
SPACES = ["\\quad ", "\\, ", "~", " ", "\n", "\\text{ and } ", "\\left( ", "\\over "]
PARTS = ["\\", "$~", "\\text{", "\\frac{1}{", "a\\cup", "1\\in", "(", "1,", "^{", "x=", "or", "1<", "1 is "]
UNITS = [*SENTENCES, *MARKS, "<|a|>", *NUMBERS, *SPACES]


def read_or_refuse(text: str) -> None:
    tokenize.cache_clear()
    read_answer.cache_clear()
    with contextlib.suppress(RecursionError):
        read_text(text)


READERS: dict[str, tuple[int, Callable[[str], object]]] = {
    "extract": (20_000, lambda text: extract(text, "any")),
    "answer": (1_000, read_or_refuse),
    "second grader": (20_000, lambda text: last_numeral_is(text, "5")),
}


@pytest.mark.parametrize("unit", SENTENCES + MARKS + NUMBERS)
def test_a_box_of_112_000_characters_takes_less_than_a_second(impatient: MathVerifier, unit: str) -> None:
    text = f"\\boxed{{{(unit * 112_000)[:112_000]}}}"
    assert any(cpu_seconds(lambda: impatient.verify(text, "5"), 1) < 1.0 for _ in range(3))


@pytest.mark.parametrize("unit", UNITS + PARTS)
def test_the_structure_of_a_long_answer_takes_less_than_half_a_second(unit: str) -> None:
    began = time.process_time()
    read_or_refuse((unit * 4096)[:4096])
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("reader", READERS)
def test_four_times_the_length_takes_at_most_eight_times_as_long(reader: str) -> None:
    length, read = READERS[reader]
    draw = random.Random(reader)
    repeated = UNITS + ["".join(draw.choices(UNITS, k=draw.randint(2, 4))) for _ in range(40)]
    for unit in repeated:
        once, four_times = (unit * (length * times // len(unit)) + "x" for times in (1, 4))
        # A reader that is quadratic takes sixteen times as long, every time; a busy machine may disturb one of five.
        assert any(_ratio(read, once, four_times) <= 8 for _ in range(5)), repr(unit)


def _ratio(read: Callable[[str], object], short: str, long: str) -> float:
    """CPU time of the long text over that of the short one, ten milliseconds less, which are noise."""
    return (cpu_seconds(lambda: read(long), 1) - 0.01) / cpu_seconds(lambda: read(short), 3)


def cpu_seconds(call: Callable[[], object], repeats: int) -> float:
    """The least of so many."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return min(times)
