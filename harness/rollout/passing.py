"""An engine around another one: what it does not do itself, the inner one does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from harness.configuration.own import MemberError
from harness.model.policy import Policy
from harness.rollout.types import Completions, RolloutEngine, SamplingParams


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


class WatchedEngine(PassingEngine):
    """An engine of one's own, refused where a request changes a weight of the policy."""

    def __init__(self, engine: RolloutEngine, policy: Policy) -> None:
        super().__init__(engine)
        self._policy = policy

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams
    ) -> Completions:
        """See `RolloutEngine`. Raises MemberError naming the file and the line of the engine's function."""
        before = self._sums()
        found = self.engine.generate(prompts, seeds_PG, params)
        changed = [name for name, sums in self._sums().items() if sums != before.get(name)]
        if changed:
            code = type(self.engine).generate.__code__
            raise MemberError(
                f"{code.co_filename}, line {code.co_firstlineno}: generate changed the policy's {changed[0]}; rollout/engine asks for an "
                "engine that samples from weights and changes none"
            )
        return found

    def _sums(self) -> dict[str, tuple[float, float]]:
        return {
            name: (float(tensor.double().sum()), float(tensor.double().square().sum()))
            for name, tensor in self._policy.named_weights()
        }
