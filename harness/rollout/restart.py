"""An engine that dies is built again, once a request, from the policy's newest weights."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from harness.model.policy import Policy
from harness.rollout.errors import EngineDied
from harness.rollout.types import Completions, Engine, RolloutEngine, SamplingParams


class RestartingEngine(Engine):
    """Answers through the engine that `build` makes; `EngineDied` costs one rebuild and the same request again, then it is final.

    Responses belong to their seeds, so a repeated request gives what the first would have given. Not for several ranks: taking the
    policy's weights is collective there, and the other ranks' engines are alive.

    Attributes:
        restarts: rebuilds so far.
    """

    def __init__(self, build: Callable[[], RolloutEngine], policy: Policy) -> None:
        self._build, self._policy = build, policy
        self.engine = build()
        self.shares_weights = self.engine.shares_weights
        self.restarts = 0

    @property
    def positions(self) -> int | None:
        """See `RolloutEngine`."""
        return self.engine.positions

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams
    ) -> Completions:
        """See `RolloutEngine`. Raises EngineDied where the rebuilt engine dies of the same request."""
        try:
            return self.engine.generate(prompts, seeds_PG, params)
        except EngineDied as death:
            reason = str(death)
        self._restart(reason)
        return self.engine.generate(prompts, seeds_PG, params)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See `RolloutEngine`. `weights` must be the policy's: after a death they are read from it again."""
        self._survive(lambda engine: engine.load_weights(weights))

    def sleep(self) -> None:
        """See `RolloutEngine`. One that dies of it is closed, for the trainer needs its memory; the next weights build it again."""
        try:
            self.engine.sleep()
            return
        except EngineDied as death:
            reason = str(death)
        self.engine.close()
        self.engine = _Gone(reason)
        _free_memory()

    def wake(self) -> None:
        """See `RolloutEngine`."""
        self._survive(lambda engine: engine.wake())

    def close(self) -> None:
        """See `RolloutEngine`."""
        self.engine.close()

    def _survive(self, call: Callable[[RolloutEngine], None]) -> None:
        try:
            call(self.engine)
            return
        except EngineDied as death:
            reason = str(death)
        self._restart(reason)

    def _restart(self, reason: str) -> None:
        """Build again. Called outside of the handler: a traceback holds the dead engine's memory, which the new one needs.

        Raises:
            EngineDied: it cannot be built.
        """
        print(
            f"the rollout engine died ({reason}); building it again from the policy's weights",
            file=sys.stderr,
        )
        self.restarts += 1
        try:
            self.engine.close()
            self.engine = _Gone(f"the rollout engine died ({reason}) and could not be built again")
            _free_memory()
            self.engine = self._build()
        except Exception as error:
            why = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise EngineDied(
                f"the rollout engine died ({reason}), and building it again failed: {why}"
            ) from error
        if not self.engine.shares_weights:
            self.engine.load_weights(self._policy.named_weights())


class _Gone(Engine):
    """Stands where there is no engine; every request says why."""

    def __init__(self, reason: str) -> None:
        self.dead = reason

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams
    ) -> Completions:
        """Raises EngineDied."""
        raise EngineDied(self.dead)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Raises EngineDied."""
        raise EngineDied(self.dead)


def _free_memory() -> None:
    """Collect what nothing names any more, and give its device memory back: a new engine measures what is free."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
