"""Small questions in plain English whose answer is one number, for language models that two CPU cores can train.

No question states an expression, so that a response cannot be right by repeating it; with `wording=expressions` all of sums, differences
and products do, for hunts after what a grader accepts. The identifier of a problem, `SPLIT/KIND/NUMBER`, names its kind
(of `KINDS`), so that learning to answer can be told from learning to calculate. Problems are split by a hash of their text.
"""

import random
from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace

from harness.configuration.error import Checked, ConfigError, choice, ranged, require
from harness.problems.problem import Benchmark, Demonstration, Problem, is_held_out, template

VERSION = 1
_NAMES = ("Tom", "Ann", "Mia", "Ben", "Zoe", "Max")
_THINGS = ("coins", "stamps", "books", "apples", "shells", "cards")


@dataclass(frozen=True)
class _Question:
    """One question in words, the same as an expression (empty for kinds that have none), its answer, and forms of a short working."""

    words: str
    expression: str
    value: int
    workings: tuple[str, ...]


def _calculation(words: str, expression: str, name: str, value: int) -> _Question:
    """A question about two operands; `name` is the word for the operator."""
    first, _, second = expression.split()
    workings = (
        f"{expression} = {value}",
        f"I get {expression} = {value}.",
        f"{first} {name} {second} is {value}.",
        f"Working it out, {expression} = {value}.",
    )
    return _Question(words, expression, value, workings)


def _sum(draw: random.Random, most: int) -> _Question:
    a, b = draw.randint(1, most), draw.randint(1, most)
    name, things = draw.choice(_NAMES), draw.choice(_THINGS)
    wordings = (
        f"What do you get when you add {a} and {b}?",
        f"{name} has {a} {things} and finds {b} more. How many {things} is that?",
        f"A bus carries {a} people and {b} more get on. How many people does it carry now?",
    )
    return _calculation(draw.choice(wordings), f"{a} + {b}", "plus", a + b)


def _difference(draw: random.Random, most: int) -> _Question:
    b, a = sorted((draw.randint(1, most), draw.randint(1, most)))
    name, things = draw.choice(_NAMES), draw.choice(_THINGS)
    wordings = (
        f"What is left when you take {b} away from {a}?",
        f"There are {a} birds and {b} fly away. How many birds stay?",
        f"{name} has {a} {things} and gives {b} away. How many {things} are left?",
    )
    return _calculation(draw.choice(wordings), f"{a} - {b}", "minus", a - b)


def _product(draw: random.Random, most: int) -> _Question:
    largest = max(3, most // 2)  # products grow faster than sums
    a, b = draw.randint(2, largest), draw.randint(2, largest)
    wordings = (
        f"What is {a} times {b}?",
        f"There are {a} boxes with {b} pens each. How many pens are there?",
        f"{draw.choice(_NAMES)} buys {a} tickets at {b} euros each. How many euros is that?",
    )
    return _calculation(draw.choice(wordings), f"{a} x {b}", "times", a * b)


def _largest(draw: random.Random, most: int) -> _Question:
    numbers = draw.sample(range(10, 100), 4)
    text = f"{', '.join(map(str, numbers[:3]))} and {numbers[3]}"
    which, choose = draw.choice((("largest", max), ("smallest", min)))
    value = choose(numbers)
    workings = (f"The {which} is {value}.", f"{value} is the {which}.", f"Of the four, {value} is the {which}.")
    return _Question(f"Which is the {which} of the numbers {text}?", "", value, workings)


KINDS: dict[str, Callable[[random.Random, int], _Question]] = {
    "sum": _sum,
    "difference": _difference,
    "product": _product,
    "largest": _largest,
}


@dataclass
class Config(Checked):
    """One split of the questions.

    Attributes:
        split: train or heldout.
        wording: words, or expressions ("What is 3 + 27?").
        problems: how many distinct problems, as many of each kind as possible.
        kinds: some of sum, difference, product, largest.
        most: the difficulty: the largest operand of sums and differences; of products half of it.
        seed: which problems are drawn.
        template: as with kind=dataset.
    """

    kind: str = "plain_words"
    split: str = choice("train", of=("train", "heldout"))
    wording: str = choice("words", of=("words", "expressions"))
    problems: int = ranged(1500, low=1)
    kinds: list[str] = field(default_factory=lambda: ["sum", "difference", "product", "largest"])
    most: int = ranged(20, low=2)
    seed: int = 8
    template: str = "chat:{problem} Answer with a single number."

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kinds:
            raise ConfigError(f"kinds is empty: name some of {', '.join(KINDS)}")
        for kind in self.kinds:
            require("kinds", kind, tuple(KINDS))
        template(self.template)


def load(config: Config) -> Benchmark:
    """See the family's contract. Raises `ConfigError`: more problems of a kind were asked for than there are."""
    draw, make = random.Random(f"{config.seed}/{config.split}"), template(config.template)
    problems: dict[str, Problem] = {}
    for number in range(config.problems):
        kind = config.kinds[number % len(config.kinds)]
        text, question = _draw_question(draw, kind, config, problems)
        problems[text] = Problem(f"{config.split}/{kind}/{number}", make(text), str(question.value))
    return Benchmark(f"plain_words_{config.split}", VERSION, list(problems.values()), chat=make.chat)


def demonstrate(config: Config, count: int, draw: random.Random) -> list[Demonstration]:
    """See the family's contract: a short working in one of several forms, then the answer line. Raises `ConfigError`: as `load`."""
    config = replace(config, split="train", problems=count)
    demos: dict[str, Demonstration] = {}
    for number in range(count):
        kind = config.kinds[number % len(config.kinds)]
        text, question = _draw_question(draw, kind, config, demos)
        response = f"{draw.choice(question.workings)}\nAnswer: {question.value}"
        demos[text] = Demonstration(f"demonstration/{kind}/{number}", text, str(question.value), response)
    return list(demos.values())


def _draw_question(draw: random.Random, kind: str, config: Config, problems: Container[str]) -> tuple[str, _Question]:
    """Return a question of the split that is not among those found, its text in front."""
    for _ in range(10_000):
        question = KINDS[kind](draw, config.most)
        text = question.words
        if config.wording == "expressions" and question.expression:
            text = f"What is {question.expression}?"
        if is_held_out(text) == (config.split == "heldout") and text not in problems:
            return text, question
    raise ConfigError(f"plain_words has no {config.problems} distinct problems of kind {kind!r}: raise `most`")
