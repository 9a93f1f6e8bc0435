"""An engine around another one: what it does not do itself, the inner one does."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from harness.rollout.types import RolloutEngine


class PassingEngine(RolloutEngine):
    """Passes weights, sleep and close on to `engine`; a subclass defines `generate`."""

    def __init__(self, engine: RolloutEngine) -> None:
        self.engine, self.shares_weights = engine, engine.shares_weights

    @property
    def positions(self) -> int | None:
        return self.engine.positions

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.engine.load_weights(weights)

    def sleep(self) -> None:
        self.engine.sleep()

    def wake(self) -> None:
        self.engine.wake()

    def close(self) -> None:
        self.engine.close()
