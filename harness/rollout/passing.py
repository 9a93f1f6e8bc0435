"""An engine around another one: what it does not do itself, the inner one does."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from harness.rollout.types import Engine, RolloutEngine, SamplingParams, Session


class PassingEngine(Engine):
    """Passes weights, sleep and close on to `engine`. It can be asked group by group where that one can.

    A subclass defines `generate` and `around`.
    """

    def __init__(self, engine: RolloutEngine) -> None:
        self.engine, self.shares_weights = engine, engine.shares_weights
        if hasattr(engine, "session"):
            self.session = self._session

    @property
    def positions(self) -> int | None:
        """See `RolloutEngine`."""
        return self.engine.positions

    def around(self, inner: Session, params: SamplingParams) -> Session:
        """A session of the inner engine, with what this engine adds."""
        raise NotImplementedError

    def _session(self, params: SamplingParams, longest_prompt: int) -> Session:
        """See `StreamingEngine`."""
        return self.around(self.engine.session(params, longest_prompt), params)  # type: ignore[attr-defined]

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See `RolloutEngine`."""
        self.engine.load_weights(weights)

    def sleep(self) -> None:
        """See `RolloutEngine`."""
        self.engine.sleep()

    def wake(self) -> None:
        """See `RolloutEngine`."""
        self.engine.wake()

    def close(self) -> None:
        """See `RolloutEngine`."""
        self.engine.close()
