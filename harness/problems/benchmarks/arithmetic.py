r"""Chained arithmetic modulo 100: the testbed's task, small enough for a policy of 154 thousand parameters on one core.

A prompt is a chain such as `7+8*9-2:`, worked left to right with every value modulo `modulus`, padded on the right with an ordinary
character to a fixed width. The answer is `\boxed{33}`. Difficulty is the number of operations (1 to 6). Problems are split into
train and held-out by a hash of the chain, so no chain is in both. `harness.testbed.demonstrator` writes the solutions a policy is warmed
up on.
"""

import random
from dataclasses import dataclass

from harness.configuration.error import Checked, ConfigError, choice, ranged, require_range
from harness.problems.problem import Benchmark, Problem, is_held_out

DIGITS = 10
OPERATORS = "+-*"
PAD = "_"
VERSION = 1


@dataclass(frozen=True)
class Chain:
    """A start digit and its operations, each (operator, operand 2..9)."""

    start: int
    operations: tuple[tuple[str, int], ...]
    modulus: int = 100

    @property
    def text(self) -> str:
        """The chain as written, without padding: `7+8*3:`."""
        return f"{self.start}{''.join(f'{op}{operand}' for op, operand in self.operations)}:"

    @property
    def answer(self) -> int:
        """The last value, left to right."""
        value = self.start
        for operator, operand in self.operations:
            value = apply(value, operator, operand, self.modulus)
        return value


@dataclass
class Config(Checked):
    """The task family and one split of it.

    Attributes:
        split: train or heldout.
        problems: how many distinct problems.
        min_operations: shortest chain.
        max_operations: longest chain; also fixes the prompt width.
        seed: which problems are drawn (a property of the task, not of a run).
        modulus: of every value. A blind answer is right with one over it.
    """

    kind: str = "arithmetic"
    split: str = choice("train", of=("train", "heldout"))
    problems: int = ranged(2000, low=1)
    min_operations: int = 1
    max_operations: int = 6
    seed: int = 4242
    modulus: int = ranged(100, low=DIGITS)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("min_operations", self.min_operations, 1, self.max_operations)

    @property
    def prompt_tokens(self) -> int:
        return prompt_width(self.max_operations)


def apply(value: int, operator: str, operand: int, modulus: int) -> int:
    result = {"+": value + operand, "-": value - operand, "*": value * operand}[operator]
    return result % modulus


def prompt_width(max_operations: int) -> int:
    """Return the characters of a padded prompt: start, two characters an operation, the colon."""
    return 2 + 2 * max_operations


def prompt_text(chain: Chain, max_operations: int) -> str:
    """Return the padded prompt; every prompt of a task has the same width, so all responses start at the same position."""
    return chain.text.ljust(prompt_width(max_operations), PAD)


def draw(rng: random.Random, operations: int, modulus: int) -> Chain:
    chain = []
    for _ in range(operations):
        operator = "*" if rng.random() < 1 / 3 else rng.choice("+-")
        chain.append((operator, rng.randint(2, 9)))
    return Chain(rng.randrange(DIGITS), tuple(chain), modulus)


def draw_of_split(rng: random.Random, task: Config, held_out: bool) -> Chain:
    operations = rng.randint(task.min_operations, task.max_operations)
    while True:
        chain = draw(rng, operations, task.modulus)
        if is_held_out(chain.text) == held_out:
            return chain


def load(config: Config) -> Benchmark:
    """Return distinct problems of one split, ids `<split>/<index>`. Raises `ConfigError`: the split holds fewer."""
    rng = random.Random(f"{config.seed}/{config.split}")
    held_out = config.split == "heldout"
    chains: dict[Chain, None] = {}
    misses = 0
    while len(chains) < config.problems:
        chain = draw_of_split(rng, config, held_out)
        misses = misses + 1 if chain in chains else 0
        if misses > 100_000:
            raise ConfigError(f"{config.split} has {len(chains)} distinct chains; lower problems={config.problems}")
        chains.setdefault(chain)
    return Benchmark(
        name=f"arithmetic_{config.split}",
        version=VERSION,
        problems=[
            Problem(
                f"{config.split}/{i}", prompt_text(chain, config.max_operations), str(chain.answer), 1 / config.modulus
            )
            for i, chain in enumerate(chains)
        ],
    )
