"""Advantage estimators. A member is a file with one dataclass `Config` that inherits `Advantage`.

Its fields are the settings, with `kind` naming the file; its methods are the formulas.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from harness.configuration.error import Checked
from harness.configuration.schema import RunConfig
from harness.engagement.measure import KeyedMeasures
from harness.objective.types import RolloutBatch, Tensor


class Advantage(Checked, ABC, key="algorithm.advantage"):
    """Base of all estimators.

    Attributes:
        dead_groups_vanish: a group whose counted returns are all equal has advantages of exactly zero. A member that sets this to False
            says why in its docstring.
        needs_values: the estimator has a critic: `Config` has a section `critic`, and `batch.values_N` holds its predictions.
        uses_components: it reads `batch.components_PGC`.
    """

    kind: str
    dead_groups_vanish: ClassVar[bool] = True
    needs_values: ClassVar[bool] = False
    uses_components: ClassVar[bool] = False

    @abstractmethod
    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Return float64 [N], one finite number a response token, constant over a response unless the estimator is token-level.

        Permuting the responses of a group permutes the result; responses that are not counted get zero.
        """

    def centring_fix(self) -> str:
        """Say what to set so that the advantages of a group of right and wrong responses sum to zero; empty: they do."""
        return "algorithm.advantage=group with baseline=group_mean"

    def refusals(self, run: RunConfig) -> Iterator[str]:
        """Yield what it cannot be combined with, each with its key and the fix."""
        yield from ()

    def value_targets(self, batch: RolloutBatch) -> Tensor:
        """Return what the critic is fitted to, [N]; only with `needs_values`."""
        raise NotImplementedError(f"{self.kind} has no critic")

    def engagement(self, old: Advantage) -> KeyedMeasures:
        """Yield (field, measure, whether runs of this configuration show it) for each measured difference from `old`, of the same kind."""
        yield from ()


def refuse_kl_in_reward(run: RunConfig) -> Iterator[str]:
    """The refusal of an estimator that does not read the returns."""
    if run.algorithm.kl_in_reward:
        yield f"algorithm.advantage={run.algorithm.advantage.kind} reads no rewards; set algorithm.kl.placement=loss"


Member = Advantage
