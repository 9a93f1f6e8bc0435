"""The layout of responses' tokens when each prompt is computed once for all its responses.

The forward sees N tokens: every distinct prompt once, then the responses end to end, without the last token of each, which is predicted
and never read. For the attention product alone they are spread to B sequences padded to the longest, L. N is filled up to a multiple of
`ROWS`: matrix kernels are made anew for every number of rows, which takes longer than the product. Dimension letters: R responses, U
distinct prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

ROWS = 64


@dataclass(frozen=True)
class Layout:
    """N tokens and the B sequences of at most L that they form; the last of the N may be filling.

    Attributes:
        ids_N: tokens.
        place_N: position of each in its sequences.
        spread: for each slot of the [B, L] grid (flat) the token that lies there; 0 where nothing does.
        own: one slot of each token that is no filling; these come first among the N.
        predicts_M: for each response token, the token whose hidden state predicts it.
        whole_B: length of each sequence, prompt and response.
        batch, length: B and L.
    """

    ids_N: torch.Tensor
    place_N: torch.Tensor
    spread: torch.Tensor
    own: torch.Tensor
    predicts_M: torch.Tensor
    whole_B: torch.Tensor
    batch: int
    length: int

    @classmethod
    def of(
        cls,
        prompts: Sequence[Sequence[int]],
        tokens_M: torch.Tensor,
        lengths_R: torch.Tensor,
        share: bool = True,
    ) -> Layout:
        """Lay out R responses (`tokens_M` end to end, each at least one token) to their prompts; `share` computes equal prompts once."""
        lengths = lengths_R.numpy()
        first: dict[object, int] = {}  # each distinct prompt's first response
        owner = np.array([first.setdefault(tuple(p) if share else r, r) for r, p in enumerate(prompts)])
        distinct = np.fromiter(first.values(), dtype=np.int64)
        widths = np.array([len(prompt) for prompt in prompts])
        starts = np.zeros(len(prompts), dtype=np.int64)  # of each response's prompt among the N
        starts[distinct] = _offsets(widths[distinct])
        starts = starts[owner]
        prompt_tokens = int(widths[distinct].sum())
        read = lengths - 1
        reads = prompt_tokens + _offsets(read)  # where each response's tokens begin among the N
        length = int((widths + read).max())

        column = np.arange(length)[None]
        token = np.where(
            column < widths[:, None], starts[:, None] + column, (reads - widths)[:, None] + column
        )
        token[column >= (widths + read)[:, None]] = 0
        response_U, inside_U = distinct.repeat(widths[distinct]), _ranges(widths[distinct])
        response_R, inside_R = np.arange(len(prompts)).repeat(read), _ranges(read)
        place = np.concatenate([inside_U, widths[response_R] + inside_R])
        own = np.concatenate([response_U, response_R]) * length + place

        response_M, at_M = np.arange(len(prompts)).repeat(lengths), _ranges(lengths)
        predicts = np.where(at_M == 0, (starts + widths)[response_M], (reads[response_M] + at_M)) - 1
        last_M = np.zeros(len(tokens_M), dtype=bool)
        last_M[lengths.cumsum() - 1] = True
        prompt_ids = np.array([token for r in distinct for token in prompts[r]], dtype=np.int64)
        filling = np.zeros(-len(own) % ROWS, dtype=np.int64)
        ids = np.concatenate([prompt_ids, tokens_M.numpy()[~last_M], filling])
        place = np.concatenate([place, filling])
        return cls(
            ids_N=torch.from_numpy(ids),
            place_N=torch.from_numpy(place),
            spread=torch.from_numpy(token.reshape(-1)),
            own=torch.from_numpy(own),
            predicts_M=torch.from_numpy(predicts),
            whole_B=torch.from_numpy(widths + read),
            batch=len(prompts),
            length=length,
        )

    def to(self, device: torch.device) -> Layout:
        """Copy to another device."""
        names = ("ids_N", "place_N", "spread", "own", "predicts_M", "whole_B")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def end_to_end(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the sequences end to end, without padding, for kernels that take them so.

        Returns:
            The token at each of their places, the place of each token that is no filling (of a shared prompt, in its first sequence), and
            the boundaries of the B sequences (int32 [B + 1]).
        """
        ends = self.whole_B.cumsum(0)
        real = torch.arange(self.length, device=ends.device) < self.whole_B[:, None]
        starts = ends - self.whole_B
        own = starts[self.own // self.length] + self.own % self.length
        return self.spread[real.reshape(-1)], own, torch.cat([ends.new_zeros(1), ends]).int()


def _offsets(counts: np.ndarray) -> np.ndarray:
    return counts.cumsum() - counts


def _ranges(counts: np.ndarray) -> np.ndarray:
    """0 … count - 1 for every count, end to end."""
    return np.arange(counts.sum()) - _offsets(counts).repeat(counts)
