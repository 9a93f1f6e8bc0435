"""The trainable policy: token log-probabilities of whole sequences, weights under `transformers` names, checkpoints."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.nn.functional as functional

from harness.configuration.sections import OptimizerConfig
from harness.model.checkpoint import load_decoder, save_decoder
from harness.model.decoder import Decoder
from harness.model.layout import Layout, Share
from harness.model.scoring import token_scores

if TYPE_CHECKING:
    from harness.model.transformers_policy import TransformersPolicy

# Below this vocabulary the logits are small and the plain operators faster.
FUSED_SCORES_ABOVE = 4096


class NativePolicy:
    """A policy whose forward is the fused decoder; `TransformersPolicy` keeps the same contract with the training loop.

    `folder`: the checkpoint it came from (config and tokenizer). `shares_prompts`: a micro-batch costs its responses and each distinct
    prompt once, instead of its rows times the longest.
    """

    def __init__(self, decoder: Decoder, folder: Path, shares_prompts: bool = False) -> None:
        self.decoder, self.folder, self.shares_prompts = decoder, folder, shares_prompts

    @classmethod
    def load(
        cls,
        folder: Path,
        linear_kernel: str,
        device: str = "cpu",
        shares_prompts: bool = False,
        head_kernel: str = "auto",
    ) -> NativePolicy:
        """Read a checkpoint folder onto a device.

        `shares_prompts` is for a model whose prompts are dear: micro-batches are cut by groups, and on a CPU what prompts begin with in
        common is computed once. `head_kernel`: of the product with the vocabulary, where `linear_kernel` rounds.
        """
        decoder = load_decoder(folder, linear_kernel, head_kernel=head_kernel)
        return cls(decoder.to(device), folder, shares_prompts)

    @property
    def device(self) -> torch.device:
        """The device of the weights. Tokens come in and scores go out on the CPU, whatever it is."""
        return self.decoder.embed.device

    @property
    def compute_dtype(self) -> torch.dtype:
        """The precision of forward products, which an engine should sample in."""
        return torch.bfloat16 if self.decoder.linear.rounds else self.decoder.embed.dtype

    def constant_weights(self) -> AbstractContextManager[None]:
        """Inside, nobody changes a weight: what is computed from weights alone may be computed once."""
        return self.decoder.linear.constant_weights()

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        return self.decoder.parameters()

    def frozen_copy(self) -> NativePolicy:
        decoder = copy.deepcopy(self.decoder).requires_grad_(False)
        return NativePolicy(decoder, self.folder, self.shares_prompts)

    def token_log_probs(
        self,
        prompts: Sequence[Sequence[int]],
        tokens_N: torch.Tensor,
        lengths_R: torch.Tensor,
        temperature: float = 1.0,
        with_entropy: bool = False,
        targets_NK: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Log-probability (nats, of the tempered distribution) of every response token given its prompt and prefix.

        `prompts` has one for each of the R responses, whose tokens lie end to end. `targets_NK`: score these tokens (long) in each response
        token's place, instead of that one. Returns `log_probs_N` (of targets [N, K]) and, `with_entropy`, the entropy in nats [N], both on
        the CPU with gradient into the weights, wherever they are.
        """
        hidden_NE = self.response_hidden(prompts, tokens_N, lengths_R)
        targets_N = (tokens_N if targets_NK is None else targets_NK).to(self.device)
        if targets_NK is not None or self.decoder.shape.vocab > FUSED_SCORES_ABOVE:
            scores, entropy_N = token_scores(
                hidden_NE, self.decoder.head, targets_N, temperature, with_entropy, self.decoder.head_linear
            )
            return scores.cpu(), None if entropy_N is None else entropy_N.cpu()
        logits = self.decoder.logits(hidden_NE).float()
        if temperature != 1.0:
            logits = logits / temperature
        if not with_entropy:
            return -functional.cross_entropy(logits, targets_N, reduction="none").cpu(), None
        log_probs = logits.log_softmax(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        return log_probs.gather(-1, targets_N[:, None])[:, 0].cpu(), entropy.cpu()

    def response_hidden(
        self, prompts: Sequence[Sequence[int]], tokens_N: torch.Tensor, lengths_R: torch.Tensor
    ) -> torch.Tensor:
        """Final hidden states [N, E] at the positions that predict each response token; arguments as in `token_log_probs`."""
        # A GPU would add the gradients of a shared prompt up in an order of its own.
        share: Share = "nothing" if self.device.type != "cpu" else "beginnings" if self.shares_prompts else "prompts"
        layout = Layout.from_tokens(prompts, tokens_N, lengths_R, share).to(self.device)
        return self.decoder.hidden_of(layout)[layout.predictors_M]

    def named_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor whole, under `transformers` names, adapters merged."""
        yield from self.decoder.named_tensors().items()

    engine_weights = named_weights

    def state(self) -> dict[str, Any]:
        return self.decoder.state_dict()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.decoder.load_state_dict(state)

    def save(self, folder: Path) -> None:
        save_decoder(self.decoder, self.folder, folder)


Policy: TypeAlias = "NativePolicy | TransformersPolicy"


def adamw(parameters: Iterable[torch.nn.Parameter], config: OptimizerConfig, rate: float) -> torch.optim.AdamW:
    """AdamW (arXiv:1711.05101) with a run's settings and this learning rate."""
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(
        parameters, lr=rate, betas=betas, eps=config.epsilon, weight_decay=config.weight_decay, fused=True
    )


def fill_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Give every parameter that has no gradient one of zeros."""
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
