"""A `transformers` causal language model as a module that scores given tokens: packed sequences in, log-probabilities out."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from harness.configuration.error import ConfigError
from harness.model.layout import Layout
from harness.model.shapes import SCORES_CHUNK

# Configuration keys by which an architecture changes its logits after the output projection.
_LOGIT_CHANGES = ("final_logit_softcapping", "logit_scale", "logits_scaling")


class ScoringModel(nn.Module):
    """Holds the model; its own forward is where sharded parameters are whole, hence where scores are computed."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        layout: Layout,
        tokens_M: torch.Tensor,
        temperature: float,
        with_entropy: bool,
        recompute: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Log-probabilities of tokens, [M] or several a place [M, K], where a layout predicts them, and the entropies [M] there or None.

        `recompute` keeps no logits for backward.
        """
        expand, places, boundaries = layout.end_to_end()
        output = self.model.base_model(
            input_ids=layout.ids_N[None],
            position_ids=layout.place_N[None],
            use_cache=False,
            cu_seq_lens_q=boundaries,
            max_length_q=layout.length,
            expand=expand,
            places=places,
        )
        hidden_ME = output.last_hidden_state[0][layout.predictors_M]
        head_VE = self.model.get_output_embeddings().weight
        return token_scores(hidden_ME, head_VE, tokens_M, temperature, with_entropy, recompute=recompute)


def check_logits(model: Any) -> None:
    """Refuse a model whose log-probabilities are not softmax(hidden headᵀ). Raises `ConfigError`."""
    head = model.get_output_embeddings()
    changes = [name for name in _LOGIT_CHANGES if getattr(model.config, name, None) not in (None, 1, 1.0)]
    if getattr(head, "bias", None) is not None:
        changes.append("an output bias")
    if changes:
        raise ConfigError(f"{model.config.model_type}: {', '.join(changes)} is not computed in training; take another")


LinearMap = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def token_scores(
    hidden_NE: torch.Tensor,
    head_VE: torch.Tensor,
    tokens_N: torch.Tensor,
    temperature: float = 1.0,
    with_entropy: bool = False,
    linear: LinearMap = torch.nn.functional.linear,
    recompute: bool = False,
    chunk_rows: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probability of each token under softmax(hidden headᵀ / temperature), shaped as these, and the entropy [N] in nats or None.

    Args:
        hidden_NE: hidden states at the positions that predict the tokens.
        head_VE: output projection.
        tokens_N: the tokens, long, one a place, or several [N, K].
        temperature: divides the logits.
        with_entropy: also return the entropy, with gradient.
        linear: the kernel of all products.
        recompute: keep no logits for backward.
        chunk_rows: tokens a chunk; by default as many as `SCORES_CHUNK` logits.
    """
    elements = SCORES_CHUNK["cpu" if hidden_NE.device.type == "cpu" else "cuda"]
    rows = chunk_rows or max(1, elements // head_VE.shape[0])
    # Without a backward nobody reads the logits again.
    recompute = recompute or not torch.is_grad_enabled()
    scores: tuple[torch.Tensor, torch.Tensor] = _TokenScores.apply(
        hidden_NE, head_VE, tokens_N, temperature, with_entropy, linear, recompute, rows
    )  # type: ignore[no-untyped-call]
    return scores[0], scores[1] if with_entropy else None


class _TokenScores(torch.autograd.Function):
    """See `token_scores`; backward may run once, since it consumes the logits."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_NE: torch.Tensor,
        head_VE: torch.Tensor,
        tokens_N: torch.Tensor,
        temperature: float,
        with_entropy: bool,
        linear: LinearMap,
        recompute: bool,
        rows: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        log_probs = torch.empty(tokens_N.shape, dtype=torch.float32, device=hidden_NE.device)
        normaliser, entropy = log_probs.new_empty(len(tokens_N)), log_probs.new_zeros(len(tokens_N))
        tokens_NK, log_probs_NK = map(_columns, (tokens_N, log_probs))
        needs_grad = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        whole = linear(hidden_NE, head_VE) if needs_grad and not recompute else None
        for part in _chunks(len(tokens_NK), rows):
            logits = linear(hidden_NE[part], head_VE) if whole is None else whole[part]
            z = _scale_logits(logits, temperature)
            normaliser[part] = z.logsumexp(-1)
            log_probs_NK[part] = z.gather(-1, tokens_NK[part]) - normaliser[part, None]
            if with_entropy:
                entropy[part] = normaliser[part] - torch.linalg.vecdot(z.softmax(-1), z)
        ctx.logits = whole
        ctx.save_for_backward(hidden_NE, head_VE, tokens_NK, normaliser, entropy)
        ctx.settings = (temperature, with_entropy, linear, recompute, rows)
        return log_probs, entropy

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden_NE, head_VE, tokens_NK, normaliser, entropy = ctx.saved_tensors
        temperature, with_entropy, linear, recompute, rows = ctx.settings
        whole, ctx.logits = ctx.logits, None
        grads_NK = _columns(grads[0])
        if whole is None and not recompute:
            raise RuntimeError("token_scores can be differentiated once: its backward uses the logits up")
        grad_hidden = torch.empty_like(hidden_NE) if recompute else None
        # Hundreds of chunks are added up: in float32, whatever the model's precision.
        adds_head = recompute and ctx.needs_input_grad[1]
        grad_head = torch.zeros_like(head_VE, dtype=torch.float32) if adds_head else None
        for part in _chunks(len(tokens_NK), rows):
            logits = linear(hidden_NE[part], head_VE) if whole is None else whole[part]
            slope = _slope(
                _scale_logits(logits, temperature),
                tokens_NK[part],
                normaliser[part, None],
                grads_NK[part],
                entropy[part, None],
                grads[1][part, None] if with_entropy else None,
            )
            if temperature != 1.0:
                slope /= temperature
            if slope.data_ptr() != logits.data_ptr():
                logits.copy_(slope)
            if grad_hidden is not None:
                grad_hidden[part] = linear(logits, head_VE.t())
            if grad_head is not None:
                grad_head += logits.t() @ hidden_NE[part]
        if grad_head is not None:
            grad_head = grad_head.to(head_VE.dtype)
        if whole is not None:
            grad_hidden = linear(whole, head_VE.t()) if ctx.needs_input_grad[0] else None
            grad_head = linear(whole.t(), hidden_NE.t()) if ctx.needs_input_grad[1] else None
        return grad_hidden, grad_head, None, None, None, None, None, None


def _chunks(number: int, rows: int) -> list[slice]:
    return [slice(start, start + rows) for start in range(0, number, rows)]


def _columns(values: torch.Tensor) -> torch.Tensor:
    """Return [N, K] of [N, K], and [N, 1] of [N]."""
    return values if values.dim() == 2 else values[:, None]


def _scale_logits(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Float32 logits over the temperature; the tensor itself where nothing changes."""
    z = logits.float()
    return z / temperature if temperature != 1.0 else z


def _slope(
    z: torch.Tensor,
    tokens: torch.Tensor,
    normaliser: torch.Tensor,
    grad_log_probs: torch.Tensor,
    entropy: torch.Tensor,
    grad_entropy: torch.Tensor | None,
) -> torch.Tensor:
    """The gradient with respect to z, written over z."""
    total = grad_log_probs.sum(-1, keepdim=True)
    if grad_entropy is None:
        slope = z.sub_(normaliser).exp_().mul_(-total)
    else:
        log_p = z.sub_(normaliser)
        p = log_p.exp()
        slope = log_p.add_(entropy).mul_(grad_entropy).add_(total).mul_(p).neg_()
    return slope.scatter_add_(-1, tokens, grad_log_probs.contiguous())
