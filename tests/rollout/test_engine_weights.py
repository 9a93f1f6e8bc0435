"""New weights reach every engine with a copy of its own: every tensor, and without taking memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from engine_support import COPIES, Opener, cases, scores, seeds_for, shift, tiny_checkpoint

from harness.configuration.error import ConfigError
from harness.model.policy import NativePolicy
from harness.rollout.types import Completions, RolloutEngine, SamplingParams

Opened = Callable[..., tuple[NativePolicy, RolloutEngine]]


@pytest.fixture
def opened(tmp_path: Path, opener: Opener) -> Opened:
    """Makes a random policy of an architecture, and opens an engine over it."""

    def opened(name: str, architecture: str, tied: bool, hidden: int = 128) -> tuple[NativePolicy, RolloutEngine]:
        folder = tiny_checkpoint(tmp_path / "model", architecture, tied, hidden)
        policy = NativePolicy.load(folder, "torch")
        return policy, opener(name, folder, policy)

    return opened


ARCHITECTURES = [(name, tied) for name in ("llama", "qwen2", "qwen3") for tied in (True, False)]
FOLLOWERS = cases(*COPIES)


@pytest.mark.parametrize("name", FOLLOWERS)
@pytest.mark.parametrize(("architecture", "tied"), ARCHITECTURES)
def test_every_tensor_of_an_update_arrives(name: str, architecture: str, tied: bool, opened: Opened) -> None:
    policy, engine = opened(name, architecture, tied)
    prompts = [list(range(2, 40)), list(range(3, 12))]
    seeds, params = seeds_for(prompts, 4), SamplingParams(12)
    made = engine.generate(prompts, seeds, params)
    torch.testing.assert_close(made.log_probs_N, scores(policy, prompts, made), rtol=0, atol=1e-4)
    tensors = [tensor for tensor, _ in policy.named_weights() if ".layers.1." not in tensor]
    initial = {tensor: value.clone() for tensor, value in policy.named_weights()}
    for number, tensor in enumerate([*tensors, None]):
        old = scores(policy, prompts, made)
        policy.decoder.load_named(initial.items())
        shift(policy, number, tensor, amount=0.3 if tensor else 0.05)
        engine.load_weights(policy.named_weights())
        stale = float((scores(policy, prompts, made) - old).abs().max())
        made = engine.generate(prompts, seeds, params)
        gap = float((made.log_probs_N - scores(policy, prompts, made)).abs().max())
        assert stale > 1e-2, f"{tensor}: too small a change to see"
        assert gap < 1e-4, f"{tensor} did not arrive"


@pytest.mark.parametrize("name", FOLLOWERS)
def test_a_tied_projection_may_come_along(name: str, opened: Opened) -> None:
    policy, engine = opened(name, "qwen2", tied=True)
    shift(policy, 1)
    tied = {**dict(policy.named_weights()), "lm_head.weight": policy.decoder.head.detach()}
    engine.load_weights(tied.items())
    prompts = [list(range(2, 9))]
    made = engine.generate(prompts, seeds_for(prompts, 4), SamplingParams(8))
    torch.testing.assert_close(made.log_probs_N, scores(policy, prompts, made), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", FOLLOWERS)
@pytest.mark.parametrize("fault", ["unknown", "missing"])
def test_an_update_of_other_tensors_is_refused(name: str, fault: str, opened: Opened) -> None:
    policy, engine = opened(name, "llama", tied=False)
    weights, tensor = dict(policy.named_weights()), "model.layers.1.mlp.down_proj.weight"
    if fault == "missing":
        del weights[tensor]
    else:
        weights["model.layers.7.mlp.down_proj.weight"] = weights[tensor]
    with pytest.raises((KeyError, ConfigError), match=r"layers\.1\.mlp" if fault == "missing" else r"layers\.7\.mlp"):
        engine.load_weights(weights.items())


def test_an_engine_that_shares_the_policys_weights_sees_an_update_at_once(
    base_policy: Path, prompts: list[list[int]], opener: Opener
) -> None:
    policy = NativePolicy.load(base_policy, "torch")
    engine = opener("shared", base_policy, policy)
    assert engine.shares_weights
    shift(policy, 0)
    made: Completions = engine.generate(prompts, seeds_for(prompts, 2), SamplingParams(24, stop_token_ids=(1,)))
    torch.testing.assert_close(made.log_probs_N, scores(policy, prompts, made), rtol=0, atol=1e-4)
