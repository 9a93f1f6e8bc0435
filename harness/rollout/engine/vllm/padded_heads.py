"""A Llama checkpoint with wider attention heads that computes the same function, for kernels that know only some head sizes.

A head of D is laid into one of r·D: values get zeros beside them, which the output projection does not read. Queries and keys are
rotated in pairs (j, j + D/2) with the frequency θ^(−2j/D) = θ^(−2(rj)/(rD)), so pair j goes to place r·j, where the wider head has that
frequency. The wider head divides scores by √(rD) instead of √D, so queries are multiplied by √r. What is left is rounding.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from harness.configuration.error import ConfigError
from harness.model.checkpoint import copy_side_files, read_state
from harness.model.decoder import is_rotary_table


class WiderHeads:
    """Maps a checkpoint's tensors to those of the wider model.

    Args:
        head: the checkpoint's head size D.
        factor: r.
    """

    def __init__(self, head: int, factor: int) -> None:
        self.head, self.factor = head, factor
        half = torch.arange(head // 2) * factor
        self._places = torch.cat([half, half + head * factor // 2])

    @classmethod
    def fitting(cls, folder: Path, sizes: Sequence[int]) -> WiderHeads | None:
        """The narrowest that gives a checkpoint one of these head sizes; None where it has one already.

        Raises:
            ConfigError: none can: another architecture, another kind of rotary embedding, or too large a head.
        """
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        heads = config.get("num_attention_heads")
        head = config.get("head_dim") or (config["hidden_size"] // heads if heads else None)
        if head is None or head in sizes:
            return None
        wider = [size for size in sorted(sizes) if size % head == 0]
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        plain = rope.get("rope_type", "default") == "default" and rope.get("partial_rotary_factor", 1) == 1
        if config.get("model_type") != "llama" or not plain or head % 2 or not wider:
            raise ConfigError(
                f"{folder} has attention heads of {head}; this engine's kernels know {', '.join(map(str, sorted(sizes)))}, and only "
                "Llama checkpoints with plain rotary embeddings can be fitted to them; use engine=native or engine=transformers"
            )
        return cls(head, wider[0] // head)

    def tensor(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """The wider model's tensor of this `transformers` name."""
        if ".self_attn." not in name:
            return tensor
        if name.endswith("o_proj.weight"):
            return self._widen(tensor.t()).t().contiguous()
        if name.endswith(("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias")):
            return self._widen(tensor)
        if name.endswith(("q_proj.weight", "q_proj.bias")):
            return self._widen(tensor) * self.factor**0.5
        return tensor

    def _widen(self, tensor: torch.Tensor) -> torch.Tensor:
        """[heads·D, ...] to [heads·r·D, ...], zeros where nothing belongs."""
        rest = tensor.shape[1:]
        split = tensor.reshape(-1, self.head, *rest)
        wide = tensor.new_zeros(len(split), self.head * self.factor, *rest)
        wide[:, self._places.to(tensor.device)] = split
        return wide.reshape(-1, *rest)

    def write(self, folder: Path, out: Path) -> Path:
        """Write the wider checkpoint of `folder` to `out`, which exists; returns `out`."""
        copy_side_files(folder, out)
        config = json.loads((folder / "config.json").read_text())
        config["head_dim"] = self.head * self.factor
        (out / "config.json").write_text(json.dumps(config, indent=2))
        # Rotary tables, which old checkpoints hold, are those of the narrower head.
        kept = {name: value for name, value in read_state(folder).items() if not is_rotary_table(name)}
        state = {name: self.tensor(name, value).contiguous() for name, value in kept.items()}
        save_file(state, out / "model.safetensors", metadata={"format": "pt"})
        return out
