"""Log-probabilities and entropies from hidden states: the plain formula's values and gradients, for any chunking and precision."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.scoring import token_scores


def plain(
    hidden: torch.Tensor, head: torch.Tensor, tokens: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    log_probs = (functional.linear(hidden, head).float() / temperature).log_softmax(-1)
    scores = log_probs.gather(-1, tokens if tokens.dim() == 2 else tokens[:, None]).view(tokens.shape)
    return scores, -(log_probs.exp() * log_probs).sum(-1)


def inputs(number: int = 13, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(number, 8, generator=generator).requires_grad_()
    head = torch.randn(50, 8, generator=generator).requires_grad_()
    tokens = torch.randint(0, 50, (number,), generator=generator)
    return hidden, head, tokens, torch.randn(2, number, generator=generator)


@settings(max_examples=40, deadline=None)
@given(
    number=st.integers(0, 20),
    rows=st.integers(1, 25),
    temperature=st.sampled_from([1.0, 0.7, 2.0]),
    with_entropy=st.booleans(),
    recompute=st.booleans(),
    several=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_values_and_gradients_are_the_plain_formulas(
    number: int, rows: int, temperature: float, with_entropy: bool, recompute: bool, several: bool, seed: int
) -> None:
    hidden, head, tokens, upstream = inputs(number, seed)
    weights = upstream[0]
    if several:  # the sampled token is one of the likeliest, too
        tokens = torch.stack([tokens, tokens, (tokens + 7) % 50], -1)
        weights = weights[:, None] * torch.tensor([1.0, -0.5, 2.0])
    expected, expected_entropy = plain(hidden, head, tokens, temperature)
    goal = (expected * weights).sum() + (expected_entropy * upstream[1]).sum() * with_entropy
    slopes = torch.autograd.grad(goal, (hidden, head))
    scores, entropy = token_scores(
        hidden, head, tokens, temperature, with_entropy, recompute=recompute, chunk_rows=rows
    )
    torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-5)
    assert (entropy is not None) == with_entropy
    reached = (scores * weights).sum()
    if entropy is not None:
        torch.testing.assert_close(entropy, expected_entropy, rtol=1e-4, atol=1e-5)
        reached = reached + (entropy * upstream[1]).sum()
    torch.testing.assert_close(torch.autograd.grad(reached, (hidden, head)), slopes, rtol=1e-4, atol=1e-5)


def test_half_precision_logits_are_scored_in_float32() -> None:
    hidden, head, tokens, upstream = inputs()
    low = [x.detach().bfloat16().requires_grad_() for x in (hidden, head)]
    scores, _ = token_scores(low[0], low[1], tokens, chunk_rows=4)
    expected, _ = plain(low[0], low[1], tokens, 1.0)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, expected)
    slopes = torch.autograd.grad((scores * upstream[0]).sum(), low)
    others = torch.autograd.grad((expected * upstream[0]).sum(), low)
    for mine, other in zip(slopes, others, strict=True):
        assert mine.dtype == torch.bfloat16
        torch.testing.assert_close(mine.float(), other.float(), rtol=0.05, atol=0.05)


def test_a_second_backward_is_refused() -> None:
    hidden, head, tokens, _ = inputs()
    scores, _ = token_scores(hidden, head, tokens)
    scores.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="differentiated once"):
        scores.sum().backward()


def test_the_decoder_uses_it_for_large_vocabularies(monkeypatch: pytest.MonkeyPatch, base_policy: object) -> None:
    from harness.model import policy as module

    policy = module.NativePolicy.load(base_policy, "torch")  # type: ignore[arg-type]
    arguments = ([[5, 6, 7]] * 2, torch.tensor([3, 4, 5, 6, 7]), torch.tensor([2, 3]), 0.8, True)
    expected = policy.token_log_probs(*arguments)
    monkeypatch.setattr(module, "FUSED_SCORES_ABOVE", 4)
    torch.testing.assert_close(policy.token_log_probs(*arguments), expected, rtol=1e-5, atol=1e-6)


def test_scoring_without_a_gradient_never_makes_all_logits() -> None:
    rows: list[int] = []

    def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        rows.append(len(x))
        return torch.nn.functional.linear(x, weight)

    head = torch.randn(50, 8, requires_grad=True)
    hidden, tokens = torch.randn(20, 8), torch.arange(20)
    with torch.no_grad():
        frozen, _ = token_scores(hidden, head, tokens, linear=linear, chunk_rows=4)
    assert rows == [4] * 5
    trained, _ = token_scores(hidden, head, tokens, chunk_rows=4)
    torch.testing.assert_close(frozen, trained.detach())
