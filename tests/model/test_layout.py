"""Prompts share their beginnings, responses their prompt, and only the time changes: values and gradients are those of padded sequences."""

from __future__ import annotations

from typing import get_args
from unittest.mock import Mock

import pytest
import torch

import harness.model.decoder
import harness.model.layout
from harness.model.decoder import Decoder, LayerStack
from harness.model.layout import ROWS, Layout, Share, SharedAttention, to_device
from harness.model.linear import BY_HAND, TORCH, Linear
from tests.model.test_decoder import ARCHITECTURES, KERNELS, reference_model

SHORT, LONG = [5, 6, 7, 4], [5, 6, 7, 1, 2, 3]
PROMPTS = [LONG, LONG, SHORT, LONG, SHORT]
LENGTHS = torch.tensor([4, 1, 6, 2, 3])
TOKENS = torch.arange(int(LENGTHS.sum())) + 10


def test_each_prompt_is_laid_out_once_worked_by_hand() -> None:
    layout = Layout.from_tokens([[5, 6], [5, 6], [7]], torch.tensor([10, 11, 20, 30, 31, 32]), torch.tensor([2, 1, 3]))

    # Prompt 5 6, prompt 7, then the responses without their last tokens: 10 | (none) | 30 31.
    assert layout.ids_N[:6].tolist() == [5, 6, 7, 10, 30, 31]
    assert layout.place_N[:6].tolist() == [0, 1, 0, 2, 1, 2]
    assert layout.slot_tokens.view(3, 3).tolist() == [[0, 1, 3], [0, 1, 0], [2, 4, 5]]
    assert layout.token_slots.tolist() == [0, 1, 6, 2, 7, 8]
    # The first token of a response is predicted by the end of its prompt, whoever else shares it.
    assert layout.predictors_M.tolist() == [1, 3, 1, 2, 4, 5]
    assert len(layout.ids_N) == ROWS


def test_a_prompt_stands_once_beside_its_responses_worked_by_hand() -> None:
    layout = Layout.from_tokens([[5, 6], [7], [5, 6]], torch.tensor([10, 11, 30, 20, 21, 22]), torch.tensor([2, 1, 3]))
    grids = layout.by_prompt()
    assert grids.shape == (2, 2, 2, 2)
    assert grids.slot_tokens[:4].tolist() == [0, 1, 2, 0]  # prompts 5 6 and 7
    assert grids.slot_tokens[4:].tolist() == [3, 0, 4, 5, 0, 0, 0, 0]  # 10 | 20 21, and of 7 nothing
    assert grids.token_slots.tolist() == [0, 1, 2, 4, 6, 7]
    assert grids.hidden_UW.isneginf().tolist() == [[False, False], [False, True]]


def test_what_prompts_begin_with_is_laid_out_once_worked_by_hand() -> None:
    prompts, tokens, lengths = [[5, 6], [5, 7, 8], [5], [5, 6]], torch.tensor([10, 11, 20, 30, 31, 12]), [2, 1, 2, 1]
    layout = Layout.from_tokens(prompts, tokens, torch.tensor(lengths), "beginnings")

    # 5, 6 and 7 after it, 8 after 7; then the responses without their last tokens: 10 | (none) | 30 | (none).
    assert layout.ids_N[:6].tolist() == [5, 6, 7, 8, 10, 30]
    assert layout.place_N[:6].tolist() == [0, 1, 1, 2, 2, 1]
    assert layout.slot_tokens.view(4, 3).tolist() == [[0, 1, 4], [0, 2, 3], [0, 5, 0], [0, 1, 0]]
    assert layout.token_slots.tolist() == [0, 1, 4, 5, 2, 7]
    assert layout.predictors_M.tolist() == [1, 4, 3, 0, 5, 1]
    # Prompts by their last tokens: 5, then 5 6 with two responses, then 5 7 8.
    grids = layout.by_prompt()
    assert grids.shape == (3, 3, 2, 1)
    assert grids.slot_tokens.tolist() == [0, 0, 0, 0, 1, 0, 0, 2, 3, 5, 0, 4, 0, 0, 0]
    assert grids.token_slots.tolist() == [3, 4, 7, 8, 11, 9]
    # A prompt of its own, that is another's beginning, is computed with it.
    assert Layout.of_prompts(prompts).predictors_M.tolist() == [1, 3, 0, 1]


@pytest.mark.parametrize(
    ("longest_by_hand", "wide"), [(0, 256), (128, 256), (128, 0)], ids=["torch", "by hand", "by prompt"]
)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
@pytest.mark.parametrize("share", get_args(Share))
def test_values_and_gradients_are_those_of_padded_sequences(
    name: str, kernel: str, share: Share, longest_by_hand: int, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness.model.layout, "_LONGEST_BY_HAND", longest_by_hand)
    monkeypatch.setattr(harness.model.decoder, "_WIDE", wide)
    model = reference_model(name, tied=True)
    weights_MV = torch.randn(len(TOKENS), 40, generator=torch.Generator().manual_seed(3))

    def gradients(hidden_ME: torch.Tensor, decoder: Decoder) -> dict[str, torch.Tensor]:
        (decoder.logits(hidden_ME) * weights_MV).sum().backward()
        return {key: parameter.grad for key, parameter in decoder.named_parameters()}

    ours = Decoder.from_transformers(model.config, model.state_dict(), Linear(kernel))
    layout = Layout.from_tokens(PROMPTS, TOKENS, LENGTHS, share)
    assert (len(layout.by_prompt().slot_tokens) < len(layout.slot_tokens)) == (share != "nothing")
    shared_ME = ours.hidden_of(layout)[layout.predictors_M]
    plain = Decoder.from_transformers(model.config, model.state_dict(), Linear(kernel))
    padded_ME = _padded(plain)

    torch.testing.assert_close(shared_ME, padded_ME, atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(gradients(shared_ME, ours), gradients(padded_ME, plain), atol=2e-3, rtol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_a_stack_of_layers_has_the_bits_of_a_graph_of_its_operators(
    name: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = reference_model(name, tied=True)
    layout, gradients = Layout.from_tokens(PROMPTS, TOKENS, LENGTHS), []
    for is_graph in (True, False):
        decoder = Decoder.from_transformers(model.config, model.state_dict(), Linear(kernel))
        if is_graph:
            monkeypatch.setattr(LayerStack, "apply", _graph_of_operators)
        hidden_NE = decoder.hidden_of(layout)
        monkeypatch.undo()
        hidden_NE.square().sum().backward()
        gradients.append([hidden_NE.detach(), *(parameter.grad for parameter in decoder.parameters())])
    assert all(map(torch.equal, *gradients))


def _graph_of_operators(
    x_NE: torch.Tensor, decoder: Decoder, attention: SharedAttention, *_: torch.Tensor
) -> torch.Tensor:
    return decoder.final_norm(decoder.run_layers(x_NE, lambda _, qkv: attention(qkv), BY_HAND), BY_HAND)


def _padded(decoder: Decoder) -> torch.Tensor:
    """The hidden states that predict the tokens, by the plain forward over padded sequences."""
    parts = TOKENS.split(LENGTHS.tolist())
    rows = [[*prompt, *part.tolist()] for prompt, part in zip(PROMPTS, parts, strict=True)]
    longest = max(map(len, rows)) - 1
    ids = torch.tensor([(row[:-1] + [0] * longest)[:longest] for row in rows])
    hidden = decoder.hidden_states(ids).view(len(rows), longest, -1)
    return torch.cat(
        [hidden[r, len(p) - 1 : len(row) - 1] for r, (p, row) in enumerate(zip(PROMPTS, rows, strict=True))]
    )


def test_operators_by_hand_have_torchs_values_and_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 3, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: BY_HAND.norm(x, w, 1e-3), (x, weight))
    assert torch.equal(BY_HAND.norm(x, weight, 1e-3), TORCH.norm(x, weight, 1e-3))
    fused = torch.randn(5, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(BY_HAND.swiglu, (fused,))
    assert torch.equal(BY_HAND.swiglu(fused), TORCH.swiglu(fused))


def test_copies_to_a_gpu_leave_from_pinned_memory_and_nobody_waits() -> None:
    tensor = Mock()
    to_device(tensor, torch.device("cuda"))
    tensor.pin_memory().to.assert_called_once_with(torch.device("cuda"), non_blocking=True)
    tensor.reset_mock()
    to_device(tensor, torch.device("cpu"))
    tensor.pin_memory.assert_not_called()
