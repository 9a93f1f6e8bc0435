"""The transformers engine: any causal language model that `transformers` can load, for architectures the native decoder has not.

It decodes with the model's own forward and its `DynamicCache`, with the native engine's noise, one uniform number for each
(sample, position): a sample does not depend on the other samples beyond the rounding of batched kernels. Prompts of a batch are
padded on the left.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.model.checkpoint import load_model
from harness.model.packed_attention import MISFIT_ERRORS
from harness.rollout.types import Completions, RolloutEngine, SamplingParams, passes
from harness.rollout.wrappers import ResponseBuffers


class TransformersEngine(RolloutEngine):
    """Samples from a `transformers` model. `rows` bounds the responses decoded together."""

    def __init__(self, model: Any, rows: int = 64) -> None:
        self.model, self.rows = model.eval(), max(1, rows)

    @property
    def positions(self) -> int | None:
        positions: int | None = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return positions

    @classmethod
    def load(cls, folder: Any, rows: int, device: str, dtype: torch.dtype) -> Self:
        """Read a checkpoint folder. Raises `ConfigError`: it lacks tensors, or a cache that can be repeated for samples."""
        engine = cls(load_model(Path(folder), dtype).to(device), rows)
        try:
            engine.generate([[0, 0]], np.zeros((1, 2), dtype=np.uint64), SamplingParams(2))
        except (RuntimeError, *MISFIT_ERRORS) as error:
            raise ConfigError(
                f"engine=transformers cannot repeat what {engine.model.config.model_type} keeps of a prompt ({error}); use engine=vllm"
            ) from error
        return engine

    @torch.no_grad()
    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        slots = self.model.state_dict(keep_vars=True)
        missing = {name for name, _ in self.model.named_parameters()}  # a tied projection once
        for name, tensor in weights:
            if name not in slots:
                raise KeyError(f"this model has no tensor {name!r}")
            slots[name].copy_(tensor)
            missing.discard(name)
        if missing:
            raise KeyError(f"a weight update lacks the tensor {min(missing)!r}")

    @torch.no_grad()
    def sample(self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        size, parts, told = seeds_PG.shape[1], list[Completions](), 0
        for chunk, seeds in passes(prompts, seeds_PG, self.rows, params.watch):
            parts.append(self._pass(chunk, seeds, params))
            is_whole = seeds.shape[1] == size  # else its responses are in several passes
            for rows in torch.arange(seeds.size).split(size) if is_whole and self.on_group is not None else ():
                self.tell(told, parts[-1].select(rows))
                told += 1
        return Completions.concatenate(parts)

    def _pass(self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        """One batch: prefill each prompt once, repeat its cache for its samples, decode until every row has ended."""
        device, cap = self.model.device, params.max_response_tokens
        samples, width = seeds_PG.shape[1], max(map(len, prompts))
        # Prompts, padded on the left.
        pads = torch.tensor([width - len(prompt) for prompt in prompts], device=device)
        ids = torch.tensor([[0] * (width - len(p)) + list(p) for p in prompts], device=device)
        mask = (torch.arange(width, device=device)[None] >= pads[:, None]).long()
        place = (mask.cumsum(-1) - 1).clamp(min=0)
        output = self.model(input_ids=ids, attention_mask=mask, position_ids=place, use_cache=True, logits_to_keep=1)
        # One row a response.
        cache = output.past_key_values
        cache.batch_repeat_interleave(samples)
        logits = output.logits[:, -1].repeat_interleave(samples, 0)
        mask, place = mask.repeat_interleave(samples, 0), place[:, -1:].repeat_interleave(samples, 0)
        buffers = ResponseBuffers(seeds_PG.reshape(-1), params, device)
        rows = torch.arange(seeds_PG.size, device=device)
        for position in range(cap):
            tokens, stopped = buffers.choose(logits, position, rows)
            buffers.end(rows[stopped], position)
            running = (~stopped).nonzero()[:, 0]
            if not len(running) or position + 1 == cap:
                break
            if len(running) < len(rows):
                cache.batch_select_indices(running)
                rows, tokens, mask, place = rows[running], tokens[running], mask[running], place[running]
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=-1)
            place = place + 1
            output = self.model(
                input_ids=tokens[:, None],
                attention_mask=mask,
                position_ids=place,
                past_key_values=cache,
                use_cache=True,
            )
            cache, logits = output.past_key_values, output.logits[:, -1]
        return buffers.completions()
