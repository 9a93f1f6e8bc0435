"""An engine that dies is built again, once a request, from the policy's newest weights."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from harness.model.policy import Policy
from harness.rollout.errors import EngineDied
from harness.rollout.passing import PassingEngine
from harness.rollout.types import Completions, RolloutEngine, SamplingParams


class RestartingEngine(PassingEngine):
    """Answers through the engine that `build` makes; `EngineDied` costs one rebuild and the same request again, then it is final.

    Responses belong to their seeds, so a repeated request gives what the first would have given. Not for several ranks: taking the
    policy's weights is collective there, and the other ranks' engines are alive.

    Attributes:
        restarts: rebuilds so far.
    """

    def __init__(self, build: Callable[[], RolloutEngine], policy: Policy) -> None:
        super().__init__(build())
        self._build, self._policy, self.restarts = build, policy, 0

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
        if reason := _death_in(lambda: self.engine.load_weights(weights)):
            self._restart(reason)

    def sleep(self) -> None:
        """See `RolloutEngine`. One that dies of it is closed, for the trainer needs its memory; the next weights build it again."""
        if reason := _death_in(self.engine.sleep):
            self._drop(reason)

    def wake(self) -> None:
        if reason := _death_in(self.engine.wake):
            self._restart(reason)

    def _drop(self, reason: str) -> None:
        """Close the dead engine and free its memory: a new engine measures what is free. Every request says `reason` from now on."""
        self.engine.close()
        self.engine = gone = RolloutEngine()
        gone.dead = reason
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()

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
            self._drop(f"it died ({reason}) and could not be built again")
            self.engine = self._build()
        except Exception as error:
            why = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise EngineDied(
                f"the rollout engine died ({reason}), and building it again failed: {why}"
            ) from error
        if not self.engine.shares_weights:
            self.engine.load_weights(self._policy.named_weights())


def _death_in(call: Callable[[], None]) -> str:
    """The reason for the death of an engine in `call`; empty where it lives."""
    try:
        call()
    except EngineDied as death:
        return str(death)
    return ""
