"""The packed transformers policy against the native one, against padding, and through its own checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from random_model import random_checkpoint

from harness.base_policy.pretrained import Lora
from harness.configuration.error import ConfigError
from harness.model import packed_attention, transformers_policy
from harness.model.checkpoint import load_model, read_state
from harness.model.layout import Layout
from harness.model.policy import NativePolicy
from harness.model.ranks import Ranks
from harness.model.shapes import SHAPES
from harness.model.transformers_policy import TransformersPolicy, load_weights, save_model
from tests.model.test_packable import load

TINY = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 64}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
PROMPTS = [[3, 4, 5, 6], [7, 8, 9], [3, 3, 3, 3, 3, 5, 6], [3, 4, 5, 6]]  # the first and the last share theirs
LENGTHS = torch.tensor([5, 1, 9, 3])
TOKENS = torch.arange(18) % 20 + 1


@pytest.fixture(scope="module", params=["qwen2.5-0.5b", "qwen3-0.6b", "llama-3.2-1b"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model of each supported shape."""
    shape = {**SHAPES[request.param], **TINY, **HEADS}
    if "head_dim" in shape:
        shape["head_dim"] = 16
    return random_checkpoint(shape, 0, tmp_path_factory.mktemp("cache"))


def backward(policy: NativePolicy | TransformersPolicy) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Scores, entropies and gradient norm of a fixed weighted sum of both."""
    log_probs, entropy = policy.token_log_probs(PROMPTS, TOKENS, LENGTHS, 0.9, with_entropy=True)
    assert entropy is not None
    ((log_probs - 0.1 * entropy) * torch.linspace(0.0, 1.0, len(TOKENS))).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(list(policy.parameters()), 1e9)
    full = getattr(norm, "full_tensor", lambda: norm)()
    return log_probs.detach(), entropy.detach(), float(full)


def test_scores_and_gradients_are_those_of_the_native_policy(checkpoint: Path) -> None:
    ours, theirs = backward(load(checkpoint)), backward(NativePolicy.load(checkpoint, "torch"))
    torch.testing.assert_close(ours[0], theirs[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours[1], theirs[1], atol=1e-5, rtol=1e-5)
    assert ours[2] == pytest.approx(theirs[2], rel=1e-5)


def test_tokens_that_were_not_sampled_are_scored_in_their_places(checkpoint: Path) -> None:
    native, targets_NK = NativePolicy.load(checkpoint, "torch"), torch.stack([TOKENS, TOKENS + 9, TOKENS], -1)
    logits = native.decoder.logits(native.response_hidden(PROMPTS, TOKENS, LENGTHS)).detach()
    whole = (logits / 0.9).log_softmax(-1)
    for policy in (native, load(checkpoint), load(checkpoint, gradient_checkpointing=True)):
        scores_NK, _ = policy.token_log_probs(PROMPTS, TOKENS, LENGTHS, 0.9, targets_NK=targets_NK)
        torch.testing.assert_close(scores_NK.detach(), whole.gather(-1, targets_NK), atol=1e-5, rtol=1e-5)


def test_bfloat16_products_keep_float32_masters(checkpoint: Path) -> None:
    policy = load(checkpoint, "bfloat16")
    exact, _ = load(checkpoint).token_log_probs(PROMPTS, TOKENS, LENGTHS)
    log_probs, _ = policy.token_log_probs(PROMPTS, TOKENS, LENGTHS)
    assert 1e-6 < float((log_probs - exact).detach().abs().max()) < 0.1
    log_probs.sum().backward()  # type: ignore[no-untyped-call]
    parameters = list(policy.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)
    before = [p.detach().full_tensor().clone() for p in parameters]
    optimizer.step()
    assert {p.dtype for p in parameters} == {torch.float32}
    assert {p.grad.dtype for p in parameters if p.grad is not None} == {torch.float32}
    # A step of 1e-5 is below bfloat16's resolution of most weights, and still arrives.
    moved = [float((p.detach().full_tensor() != b).float().mean()) for p, b in zip(parameters, before, strict=True)]
    assert min(moved) > 0.3


def test_the_exported_checkpoint_is_the_policy(checkpoint: Path, tmp_path: Path) -> None:
    policy = load(checkpoint)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(1.5)
    policy.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    expected = {name: tensor.bfloat16().float() for name, tensor in policy.named_weights()}
    torch.testing.assert_close(dict(again.named_weights()), expected)
    assert (tmp_path / "saved" / "tokenizer.json").exists()


def test_a_frozen_copy_keeps_the_initial_weights(checkpoint: Path) -> None:
    policy = load(checkpoint)
    before, _ = policy.token_log_probs(PROMPTS, TOKENS, LENGTHS)
    frozen = policy.frozen_copy()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(1.5)
    after, _ = frozen.token_log_probs(PROMPTS, TOKENS, LENGTHS)
    torch.testing.assert_close(after, before.detach())
    assert not list(frozen.parameters())


def test_weights_that_moved_without_a_backward_are_seen(checkpoint: Path) -> None:
    """A forward without gradient must leave no gathered copy behind: an update of zero gradient, or a resume, moves only the shards."""
    policy = load(checkpoint, "bfloat16")
    with torch.no_grad():
        before, _ = policy.token_log_probs(PROMPTS, TOKENS, LENGTHS)
        for parameter in policy.parameters():
            parameter.mul_(1.5)
        after, _ = policy.token_log_probs(PROMPTS, TOKENS, LENGTHS)
    assert float((after - before).abs().max()) > 0.1
    for name, tensor in policy.named_weights():
        assert tensor.dtype == torch.float32, name


def test_a_tensor_that_the_first_rank_lacks_ends_every_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that went on would wait in its next collective for a rank that is gone."""
    of_first = iter(["", ["model.norm.weight"]])  # nothing refused, one tensor missing
    monkeypatch.setattr(transformers_policy, "dist", Mock(get_rank=lambda: 1, get_world_size=lambda: 2))
    monkeypatch.setattr(transformers_policy, "set_model_state_dict", lambda *_, **__: Mock(missing_keys=[]))
    monkeypatch.setattr(Ranks, "from_first", lambda *_: next(of_first))
    with pytest.raises(ConfigError, match=r"lacks the model's tensor 'model\.norm\.weight'"):
        load_weights(Mock(), Path("folder"))


def test_sequences_end_to_end_by_hand() -> None:
    """Two responses share the prompt 1 2, a third has the prompt 3: tokens 1 2 3 | 5 (of 5 6) | - (of 7) | 8 (of 8 9)."""
    layout = Layout.from_tokens([[1, 2], [1, 2], [3]], torch.tensor([5, 6, 7, 8, 9]), torch.tensor([2, 1, 2]))
    expand, places, boundaries = layout.end_to_end()
    assert layout.ids_N[:5].tolist() == [1, 2, 3, 5, 8]
    assert layout.ids_N[expand].tolist() == [1, 2, 5, 1, 2, 3, 8]
    assert boundaries.tolist() == [0, 3, 5, 7]
    assert expand[places].tolist() == [0, 1, 2, 3, 4]
    assert layout.predictors_M.tolist() == [1, 3, 1, 2, 4]


@pytest.mark.parametrize("asks", [True, False])
def test_a_flash_kernel_is_told_of_grouped_heads_where_it_asks(asks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's kernel has `enable_gqa` since 2.12; the one of 2.11 knows grouped heads without it."""
    told: list[dict[str, Any]] = []

    def of_2_12(q: Any, *_: Any, scale: Any, window_size: Any, enable_gqa: bool = False) -> Any:
        told.append({"scale": scale, "window_size": window_size, "enable_gqa": enable_gqa})
        return q

    def of_2_11(q: Any, *_: Any, scale: Any, window_size: Any) -> Any:
        told.append({"scale": scale, "window_size": window_size})
        return q

    monkeypatch.setattr(packed_attention, "varlen_kernel", lambda: of_2_12 if asks else of_2_11)
    q, k = torch.zeros(5, 4, 8), torch.zeros(5, 2, 8)
    packed_attention._attend_varlen(q, k, k, torch.tensor([0, 2, 5]), 3, 0.5, None)
    assert told == [{"scale": 0.5, "window_size": (-1, 0)} | ({"enable_gqa": True} if asks else {})]
    assert [packed_attention.attention_name(device) for device in ("cuda", "cpu")] == ["varlen_attn", "padded"]
    monkeypatch.setattr(packed_attention, "varlen_kernel", lambda: None)
    assert packed_attention.attention_name("cuda") == "padded"


@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_a_policy_is_written_as_its_source_or_unrounded(
    checkpoint: Path, tmp_path: Path, dtype: torch.dtype | None
) -> None:
    """A loader that asks for the checkpoint's own number type gets that of its weights; end tokens stay the source's."""
    source, folder = shutil.copytree(checkpoint, tmp_path / "source"), tmp_path / "written"
    (source / "generation_config.json").write_text('{"eos_token_id": [1, 5]}')
    weights = {name: tensor.float() + 1e-6 for name, tensor in read_state(source).items()}
    save_model(weights.items(), source, folder, dtype=dtype)
    expected = {name: tensor.to(dtype or torch.bfloat16) for name, tensor in weights.items()}
    for written in (read_state(folder), load_model(folder, "auto").state_dict()):
        assert all(torch.equal(tensor, written[name]) for name, tensor in expected.items())
        assert {tensor.dtype for tensor in written.values()} == {dtype or torch.bfloat16}
    assert (folder / "generation_config.json").read_text() == '{"eos_token_id": [1, 5]}'


def test_adapters_start_at_the_model_and_merge_exactly(checkpoint: Path) -> None:
    policy = load(checkpoint, lora=Lora(rank=4))
    plain = load(checkpoint)
    start, _ = policy.token_log_probs(PROMPTS, TOKENS, LENGTHS)
    expected, _ = plain.token_log_probs(PROMPTS, TOKENS, LENGTHS)
    torch.testing.assert_close(start, expected, atol=1e-6, rtol=1e-6)
    optimizer = torch.optim.AdamW(list(policy.parameters()), lr=1e-1)
    for _ in range(2):
        optimizer.zero_grad()
        log_probs, _ = policy.token_log_probs(PROMPTS, TOKENS, LENGTHS)
        log_probs.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    adapted, _ = policy.token_log_probs(PROMPTS, TOKENS, LENGTHS)
    assert float((adapted - start).detach().abs().max()) > 0.1
    merged = NativePolicy.load(checkpoint, "torch")
    merged.decoder.load_named(policy.named_weights())
    whole, _ = merged.token_log_probs(PROMPTS, TOKENS, LENGTHS)
    torch.testing.assert_close(whole, adapted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("targets", ["q_projj", "norm"])
def test_targets_that_no_adapter_fits_are_refused(checkpoint: Path, targets: str) -> None:
    with pytest.raises(ConfigError, match=rf"model\.lora\.targets={targets}: Target module"):
        load(checkpoint, lora=Lora(rank=4, targets=targets))


def test_frozen_weights_under_adapters_are_held_in_the_products_precision(checkpoint: Path) -> None:
    policy = load(checkpoint, "bfloat16", Lora(rank=4))
    kinds = {(p.requires_grad, p.dtype) for p in policy.scoring.parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    log_probs, _ = policy.token_log_probs(PROMPTS, TOKENS, LENGTHS)
    log_probs.sum().backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in policy.parameters())
    assert {tensor.dtype for _, tensor in policy.named_weights()} <= {torch.float32, torch.bfloat16}


@pytest.mark.parametrize(
    ("device", "checkpointing", "kept"), [("cpu", False, True), ("cpu", True, False), ("cuda", False, False)]
)
def test_logits_are_kept_for_backward_on_a_cpu_without_checkpointing_alone(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, device: str, checkpointing: bool, kept: bool
) -> None:
    policy = load(checkpoint, gradient_checkpointing=checkpointing)
    monkeypatch.setattr(TransformersPolicy, "device", property(lambda _: torch.device(device)))
    assert policy.recomputes_logits != kept
