"""Procedural problems from the optional package `reasoning_gym` (arXiv:2505.24760): any of its tasks with any of its settings.

Its answers are graded by our verifier, not by the package's scorers: choose tasks with one right answer (`harness evaluate check`
names golds that the verifier cannot read). Different seeds give the training and the held-out set.
"""

import importlib
from dataclasses import dataclass, field
from typing import Any

from harness.configuration.error import Checked, ConfigError, ranged
from harness.problems.problem import Benchmark, Problem, template

VERSION = 1


@dataclass
class Config(Checked, key="reasoning_gym"):
    """One task of the package.

    Attributes:
        dataset: the task's name, for example chain_sum.
        problems: how many.
        seed: which ones.
        settings: further keyword arguments of the task, for example {min_terms: 2, max_terms: 4}.
        template: as with kind=dataset.
    """

    kind: str = "reasoning_gym"
    dataset: str = "chain_sum"
    problems: int = ranged(500, low=1)
    seed: int = 42
    settings: dict[str, Any] = field(default_factory=dict)
    template: str = "boxed"

    def __post_init__(self) -> None:
        super().__post_init__()
        template(self.template)


def load(config: Config) -> Benchmark:
    """See the family's contract. Raises `ConfigError`: the package is not installed, or does not know the task or a setting."""
    try:
        gym = importlib.import_module("reasoning_gym")
    except ImportError as error:
        raise ConfigError("reasoning_gym needs its package: pip install reasoning-gym") from error
    try:
        rows = gym.create_dataset(config.dataset, size=config.problems, seed=config.seed, **config.settings)
    except (ValueError, TypeError, AssertionError) as error:
        raise ConfigError(f"reasoning_gym {config.dataset!r} with {config.settings}: {error}") from error
    make = template(config.template)
    return Benchmark(
        name=f"reasoning_gym_{config.dataset}",
        version=VERSION,
        problems=[
            Problem(f"{config.dataset}/{config.seed}/{i}", make(str(rows[i]["question"])), str(rows[i]["answer"]))
            for i in range(len(rows))
        ],
        chat=make.chat,
    )
