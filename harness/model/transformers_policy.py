"""Any causal language model of `transformers` as a policy: packed forward, bfloat16 products over float32 masters, LoRA, FSDP2.

The model is sharded over all ranks with `fully_shard` (over one rank, too: one code path), layer by layer. `param_dtype` is the product's
precision; parameters, gradient sums and optimiser state stay float32 (arXiv:1710.03740).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)

from harness.configuration.sections import RuntimeConfig
from harness.model import adapters
from harness.model.layout import Layout
from harness.model.loading import build_sharded, export_checkpoint, load_weights
from harness.model.packed_attention import rehearse
from harness.model.ranks import open_group
from harness.model.scoring import ScoringModel


class TransformersPolicy:
    """A sharded policy. Methods that touch whole tensors are collective: every rank calls them."""

    sharded, shares_prompts = True, True

    def __init__(self, scoring: ScoringModel, folder: Path, settings: Any, runtime: RuntimeConfig) -> None:
        self.scoring: Any = scoring  # `fully_shard` has given it methods that its class does not have
        self.folder, self.settings, self.runtime = folder, settings, runtime

    @classmethod
    def load(
        cls, folder: Path, settings: Any, runtime: RuntimeConfig, trainable: bool = True
    ) -> TransformersPolicy:
        """Read a checkpoint folder.

        Args:
            folder: an ordinary `transformers` checkpoint.
            settings: `precision` and `lora` of the model's configuration.
            runtime: device and gradient checkpointing.
            trainable: False for a frozen policy, held in the product's precision.

        Raises:
            ConfigError: the architecture cannot be trained here, or adapters are asked for without peft.
        """
        open_group()
        scoring = build_sharded(folder, settings, runtime, trainable)
        load_weights(scoring, folder)
        policy = cls(scoring, folder, settings, runtime)
        if trainable:
            policy._rehearse()
        return policy

    @torch.no_grad()
    def _rehearse(self) -> None:
        """Raise ConfigError where the architecture's code cannot score packed sequences."""
        model = self.scoring.model
        request = [[0, 1], [1]], torch.tensor([1, 0, 1, 0]), torch.tensor([1, 3])
        layers = int(getattr(model.config.get_text_config(), "num_hidden_layers", 1))
        rehearse(model.config.model_type, layers, lambda: self.token_log_probs(*request))

    @property
    def device(self) -> torch.device:
        """The device of the forward; tokens come in and scores go out on the CPU."""
        return next(iter(self.scoring.parameters())).device

    @property
    def compute_dtype(self) -> torch.dtype:
        """See `Policy`."""
        dtype: torch.dtype = getattr(torch, self.settings.precision)
        return dtype

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """The trainable tensors (this rank's shards)."""
        return [parameter for parameter in self.scoring.parameters() if parameter.requires_grad]

    def frozen_copy(self) -> TransformersPolicy:
        """The policy of the folder, never trained: the reference policy."""
        return TransformersPolicy.load(self.folder, self.settings, self.runtime, trainable=False)

    def token_log_probs(
        self,
        prompts: Sequence[Sequence[int]],
        tokens_N: torch.Tensor,
        lengths_R: torch.Tensor,
        temperature: float = 1.0,
        with_entropy: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See `NativePolicy.token_log_probs`: the same contract. Equal prompts are computed once, padding never."""
        # A GPU adds the gradients of a shared prompt up in an order of its own.
        share = self.device.type == "cpu" or not self.runtime.deterministic
        layout = Layout.of(prompts, tokens_N, lengths_R, share).to(self.device)
        scores, entropy = self.scoring(
            layout, tokens_N.to(self.device), temperature, with_entropy, self.runtime.gradient_checkpointing
        )
        if not torch.is_grad_enabled():
            # Without a backward the root would keep its gathered copy, which the next update does not reach.
            self.scoring.reshard()
        return scores.cpu(), None if entropy is None else entropy.cpu()

    def named_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """See `Policy`: one whole tensor at a time, adapters merged; collective."""
        return adapters.merged_weights(self.scoring.model)

    def state(self) -> dict[str, Any]:
        """The trainable tensors' shards (DTensors), as `torch.distributed.checkpoint` takes them."""
        options = StateDictOptions(ignore_frozen_params=True)
        return get_model_state_dict(self.scoring, options=options)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what `state` returned."""
        set_model_state_dict(self.scoring, dict(state), options=StateDictOptions(strict=False))

    def save(self, folder: Path) -> None:
        """Write an ordinary `transformers` checkpoint (rank 0 writes, all ranks call), in the precision of the one it came from."""
        export_checkpoint(self.scoring.model, self.named_weights(), self.folder, folder)
