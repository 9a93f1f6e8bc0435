"""An engine that dies is built again, once a request, from the policy's newest weights."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.model.policy import Policy
from harness.rollout.errors import EngineDied
from harness.rollout.types import Completions, Engine, RolloutEngine, SamplingParams, Session


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

    def session(self, params: SamplingParams, longest_prompt: int) -> Session:
        """See `StreamingEngine`; groups that were out when the engine died are asked for again, once.

        Raises:
            ConfigError: the engine cannot be asked group by group.
        """
        if not hasattr(self.engine, "session"):
            raise ConfigError(
                "sampling.streaming=true needs an engine that can be asked group by group: engine=native or engine=vllm"
            )
        return _RestartingSession(self, params, longest_prompt)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See `RolloutEngine`. `weights` must be the policy's: after a death they are read from it again."""
        try:
            self.engine.load_weights(weights)
            return
        except EngineDied as death:
            reason = str(death)
        self._restart(reason)

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
        try:
            self.engine.wake()
            return
        except EngineDied as death:
            reason = str(death)
        self._restart(reason)

    def close(self) -> None:
        """See `RolloutEngine`."""
        self.engine.close()

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

    def session(self, params: SamplingParams, longest_prompt: int) -> Session:
        """Raises EngineDied."""
        raise EngineDied(self.dead)


def _free_memory() -> None:
    """Collect what nothing names any more, and give its device memory back: a new engine measures what is free."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


class _RestartingSession:
    """A session that outlives one death of its engine."""

    def __init__(self, owner: RestartingEngine, params: SamplingParams, longest_prompt: int) -> None:
        self._owner, self._params, self._longest = owner, params, longest_prompt
        self._inner: Session | None = None
        self._out: dict[int, tuple[Sequence[int], np.ndarray]] = {}
        self._tickets: dict[int, int] = {}  # the inner session's, to ours
        self._count, self._died = 0, False
        try:
            self._inner = owner.engine.session(params, longest_prompt)  # type: ignore[attr-defined]
            return
        except EngineDied as death:
            reason = str(death)
        self._again(reason)

    def submit(self, prompt: Sequence[int], seeds_G: np.ndarray) -> int:
        """See `Session`. Raises EngineDied at the second death."""
        ticket, self._count = self._count, self._count + 1
        self._out[ticket] = (prompt, seeds_G)
        try:
            self._tickets[self._alive().submit(prompt, seeds_G)] = ticket
            return ticket
        except EngineDied as death:
            if self._died:
                raise
            reason = str(death)
        self._again(reason)
        return ticket

    def poll(self) -> list[tuple[int, Completions]]:
        """See `Session`. Raises EngineDied at the second death."""
        try:
            done = self._alive().poll()
        except EngineDied as death:
            if self._died:
                raise
            reason = str(death)
        else:
            return self._take(done)
        self._again(reason)
        return []

    def _again(self, reason: str) -> None:
        """Build the engine again and ask for all that is out. Called outside of the handler, as `RestartingEngine._restart`."""
        self._died, self._inner = True, None  # a session holds its engine
        self._owner._restart(reason)
        inner: Session = self._owner.engine.session(self._params, self._longest)  # type: ignore[attr-defined]
        self._inner = inner
        self._tickets = {inner.submit(*request): ours for ours, request in self._out.items()}

    def _alive(self) -> Session:
        if self._inner is None:
            raise EngineDied("this session's engine died and could not be built again")
        return self._inner

    def _take(self, done: list[tuple[int, Completions]]) -> list[tuple[int, Completions]]:
        """The inner session's answers under our tickets."""
        answered = [(self._tickets.pop(ticket), completions) for ticket, completions in done]
        for ticket, _ in answered:
            del self._out[ticket]
        return answered
