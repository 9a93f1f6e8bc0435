"""A `transformers` causal language model as a module that scores given tokens: packed sequences in, log-probabilities out."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from harness.configuration.error import ConfigError
from harness.model.layout import Layout
from harness.model.token_scores import token_scores

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
        """Log-probabilities [M] of the tokens that a layout's places predict, and their entropies [M] or None.

        Args:
            layout: prompts and responses.
            tokens_M: the response tokens.
            temperature: divides the logits.
            with_entropy: also return entropies.
            recompute: keep no logits for backward.
        """
        expand, places, boundaries = layout.end_to_end()
        output = self.model.base_model(
            input_ids=layout.ids_N[None],
            position_ids=layout.place_N[None],
            use_cache=False,
            cu_seq_lens_q=boundaries,
            cu_seq_lens_k=boundaries,
            max_length_q=layout.length,
            max_length_k=layout.length,
            expand=expand,
            places=places,
        )
        hidden_ME = output.last_hidden_state[0][layout.predicts_M]
        head_VE = self.model.get_output_embeddings().weight
        return token_scores(hidden_ME, head_VE, tokens_M, temperature, with_entropy, recompute=recompute)


def check_logits(model: Any) -> None:
    """Refuse a model whose log-probabilities are not softmax(hidden headᵀ). Raises `ConfigError`."""
    head = model.get_output_embeddings()
    changed = [name for name in _LOGIT_CHANGES if getattr(model.config, name, None) not in (None, 1, 1.0)]
    if getattr(head, "bias", None) is not None:
        changed.append("an output bias")
    if changed:
        raise ConfigError(
            f"{model.config.model_type}: {', '.join(changed)} is not computed in training; choose a model without it"
        )
