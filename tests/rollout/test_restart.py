"""An engine that dies: one rebuild from the newest weights, the same request again, then the end."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from engine_support import scores, seeds_for, shift

from harness.model.checkpoint import load_decoder
from harness.model.policy import NativePolicy
from harness.rollout.engine import native
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.errors import EngineDied
from harness.rollout.restart import RestartingEngine
from harness.rollout.types import Completions, RolloutEngine, SamplingParams

PROMPTS = [[5, 6, 7], [8, 9]]
PARAMS = SamplingParams(6)


class Mortal:
    """A native engine with weights of its own that dies at the calls that `deaths` names, counted over all engines built."""

    def __init__(self, folder: Path, deaths: Iterable[int]) -> None:
        self.folder, self.deaths = folder, set(deaths)
        self.calls, self.built, self.closed = 0, 0, 0

    def build(self) -> NativeEngine:
        outer = self

        class Engine(NativeEngine):
            def generate(self, *request: object) -> Completions:  # type: ignore[override]
                outer.calls += 1
                if outer.calls in outer.deaths:
                    raise EngineDied("killed")
                return super().generate(*request)  # type: ignore[arg-type]

            def close(self) -> None:
                outer.closed += 1

        self.built += 1
        opened = native.open_folder(native.Config(), self.folder, _Runtime, "cpu", torch.float32, "torch")
        return Engine(opened.decoder, shares_weights=False)


class _Runtime:
    rollout_rows = 64


@pytest.fixture
def policy(base_policy: Path) -> NativePolicy:
    """A test's own, whose weights it changes."""
    return NativePolicy.load(base_policy, "torch")


def mortal_engine(policy: NativePolicy, deaths: list[int]) -> tuple[Mortal, RestartingEngine]:
    mortal = Mortal(policy.folder, deaths)
    return mortal, RestartingEngine(mortal.build, policy)


def test_a_death_costs_one_rebuild_with_the_newest_weights(
    policy: NativePolicy, capsys: pytest.CaptureFixture[str]
) -> None:
    mortal, engine = mortal_engine(policy, [2])
    shift(policy, 0)
    engine.load_weights(policy.named_weights())
    first = engine.generate(PROMPTS, seeds_for(PROMPTS, 2), PARAMS)
    second = engine.generate(PROMPTS, seeds_for(PROMPTS, 2), PARAMS)
    assert (mortal.built, mortal.closed, engine.restarts) == (2, 1, 1)
    assert second.token_lists() == first.token_lists()
    torch.testing.assert_close(second.log_probs_N, scores(policy, PROMPTS, second), rtol=0, atol=1e-4)
    assert "the rollout engine died (killed)" in capsys.readouterr().err


def test_a_second_death_of_one_request_is_final(policy: NativePolicy) -> None:
    mortal, engine = mortal_engine(policy, [1, 2])
    with pytest.raises(EngineDied, match="killed"):
        engine.generate(PROMPTS, seeds_for(PROMPTS, 2), PARAMS)
    assert mortal.built == 2


def test_other_errors_are_no_death(policy: NativePolicy) -> None:
    mortal, engine = mortal_engine(policy, [])
    with pytest.raises(ValueError, match="no tokens"):
        engine.generate([[]], seeds_for([[1]], 1), PARAMS)
    assert mortal.built == 1


def test_a_death_while_weights_are_loaded_ends_with_the_newest_weights(policy: NativePolicy) -> None:
    _, engine = mortal_engine(policy, [])
    shift(policy, 0)

    def dying(weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        next(iter(weights))
        raise EngineDied("killed while loading")

    engine.engine.load_weights = dying  # type: ignore[method-assign]
    engine.load_weights(policy.named_weights())
    made = engine.generate(PROMPTS, seeds_for(PROMPTS, 2), PARAMS)
    assert engine.restarts == 1
    torch.testing.assert_close(made.log_probs_N, scores(policy, PROMPTS, made), rtol=0, atol=1e-4)


def ask(engine: RestartingEngine) -> None:
    engine.generate(PROMPTS, seeds_for(PROMPTS, 2), PARAMS)


def wake(engine: RestartingEngine) -> None:
    engine.wake()


def load(engine: RestartingEngine) -> None:
    engine.load_weights(engine._policy.named_weights())


@pytest.mark.parametrize("request_", [ask, wake, load])
def test_the_dead_engine_is_collected_before_the_new_one_is_built(
    base_policy: Path, request_: Callable[[RestartingEngine], None]
) -> None:
    """On a GPU there is no room for two: no traceback or frame may hold the first one's weights."""
    first: list[weakref.ref[torch.nn.Module]] = []

    class Dies(NativeEngine):
        def die(self, *request: object) -> None:
            weights = self.decoder  # as a frame of a real engine would
            try:
                raise RuntimeError(f"out of memory beside {len(list(weights.parameters()))} tensors")
            except RuntimeError as error:
                raise EngineDied(str(error)) from error

        generate = wake = load_weights = die  # type: ignore[assignment]

    def build() -> RolloutEngine:
        decoder = load_decoder(base_policy)
        if not first:
            first.append(weakref.ref(decoder))
            return Dies(decoder, shares_weights=False)
        assert first[0]() is None
        return NativeEngine(decoder, shares_weights=False)

    engine = RestartingEngine(build, NativePolicy.load(base_policy, "torch"))
    request_(engine)
    assert engine.restarts == 1


def test_an_engine_that_cannot_be_built_again_says_both_reasons(base_policy: Path) -> None:
    policy, mortal = NativePolicy.load(base_policy, "torch"), Mortal(base_policy, [1])

    def build() -> NativeEngine:
        if mortal.built:
            raise AssertionError("memory changed while it was measured")
        return mortal.build()

    engine = RestartingEngine(build, policy)
    message = r"died \(killed\), and building it again failed: AssertionError: memory changed"
    with pytest.raises(EngineDied, match=message):
        engine.generate(PROMPTS, seeds_for(PROMPTS, 2), PARAMS)
    for ask_again in (ask, load):
        with pytest.raises(EngineDied, match="died"):
            ask_again(engine)
    engine.close()
