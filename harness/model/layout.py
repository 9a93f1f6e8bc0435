"""The layout of responses' tokens when each prompt is computed once for all its responses.

The forward sees N tokens: every distinct prompt once, then the responses end to end, without the last token of each, which is predicted
and never read. For the attention product alone they are spread to B sequences padded to the longest, L. N is padded to a multiple of
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
    """N tokens and the B sequences of at most L that they form; the last of the N may be padding.

    Attributes:
        ids_N: tokens.
        place_N: position of each in its sequences.
        slot_tokens: for each slot of the [B, L] grid (flat) the token that lies there; 0 where nothing does.
        token_slots: one slot of each token that is no padding; these come first among the N.
        predicts_M: for each response token, the token whose hidden state predicts it.
        lengths_B: length of each sequence, prompt and response.
        batch, length: B and L.
    """

    ids_N: torch.Tensor
    place_N: torch.Tensor
    slot_tokens: torch.Tensor
    token_slots: torch.Tensor
    predicts_M: torch.Tensor
    lengths_B: torch.Tensor
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
        # Which prompts are distinct, and where each response's prompt begins among the N.
        lengths, rows = lengths_R.numpy(), np.arange(len(prompts))
        first: dict[object, int] = {}  # each distinct prompt's first response
        owner = np.array([first.setdefault(tuple(p) if share else r, r) for r, p in enumerate(prompts)])
        distinct = np.fromiter(first.values(), dtype=np.int64)
        widths = np.array([len(prompt) for prompt in prompts])
        starts = np.zeros(len(prompts), dtype=np.int64)
        starts[distinct] = _offsets(widths[distinct])
        starts = starts[owner]
        # Where each response's tokens begin among the N: behind all prompts, each without its last token.
        read = lengths - 1
        reads = int(widths[distinct].sum()) + _offsets(read)
        length = int((widths + read).max())

        # The grid: for each slot its token.
        column = np.arange(length)[None]
        slot_tokens = np.where(
            column < widths[:, None], starts[:, None] + column, (reads - widths)[:, None] + column
        )
        slot_tokens[column >= (widths + read)[:, None]] = 0
        # The way back: for each token its position, and one slot; of a shared prompt, in its first sequence.
        prompt_row, prompt_place = distinct.repeat(widths[distinct]), _ranges(widths[distinct])
        response_row, response_place = rows.repeat(read), _ranges(read)
        place = np.concatenate([prompt_place, widths[response_row] + response_place])
        token_slots = np.concatenate([prompt_row, response_row]) * length + place

        # The token before each response token predicts it: the prompt's last, or the response's previous one.
        response_M, at_M = rows.repeat(lengths), _ranges(lengths)
        predicts = np.where(at_M == 0, (starts + widths)[response_M], (reads[response_M] + at_M)) - 1
        last_M = np.zeros(len(tokens_M), dtype=bool)
        last_M[lengths.cumsum() - 1] = True
        # Tokens and positions, padded to a multiple of ROWS.
        prompt_ids = np.array([token for r in distinct for token in prompts[r]], dtype=np.int64)
        padding = np.zeros(-len(token_slots) % ROWS, dtype=np.int64)
        ids = np.concatenate([prompt_ids, tokens_M.numpy()[~last_M], padding])
        return cls(
            ids_N=torch.from_numpy(ids),
            place_N=torch.from_numpy(np.concatenate([place, padding])),
            slot_tokens=torch.from_numpy(slot_tokens.reshape(-1)),
            token_slots=torch.from_numpy(token_slots),
            predicts_M=torch.from_numpy(predicts),
            lengths_B=torch.from_numpy(widths + read),
            batch=len(prompts),
            length=length,
        )

    def to(self, device: torch.device) -> Layout:
        """Copy to another device."""
        names = ("ids_N", "place_N", "slot_tokens", "token_slots", "predicts_M", "lengths_B")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def end_to_end(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the sequences end to end, without padding, for kernels that take them so.

        Returns:
            The token at each of their places, the place of each token that is no padding (of a shared prompt, in its first sequence), and
            the boundaries of the B sequences (int32 [B + 1]).
        """
        ends = self.lengths_B.cumsum(0)
        starts = ends - self.lengths_B
        real = torch.arange(self.length, device=ends.device) < self.lengths_B[:, None]
        places = starts[self.token_slots // self.length] + self.token_slots % self.length
        return self.slot_tokens[real.reshape(-1)], places, torch.cat([ends.new_zeros(1), ends]).int()


def _offsets(counts: np.ndarray) -> np.ndarray:
    return counts.cumsum() - counts


def _ranges(counts: np.ndarray) -> np.ndarray:
    """0 … count - 1 for every count, end to end."""
    return np.arange(counts.sum()) - _offsets(counts).repeat(counts)
