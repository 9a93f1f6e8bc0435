"""The testbed's tokenizer without `transformers`, whose import costs a run two seconds: the same file, the same ids, the same texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CLASS = "TokenizersBackend"
_KNOWN = {
    "backend",
    "clean_up_tokenization_spaces",
    "eos_token",
    "model_max_length",
    "pad_token",
    "tokenizer_class",
}


class LightTokenizer:
    """The part that the harness uses of a `PreTrainedTokenizerFast` that has neither a chat template nor a normalisation of its own."""

    chat_template = None
    unk_token_id = None

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        from tokenizers import Tokenizer

        self._core = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.eos_token_id: int | None = self._core.token_to_id(settings["eos_token"])
        self.pad_token_id: int | None = self._core.token_to_id(settings["pad_token"])

    @classmethod
    def fitting(cls, folder: Path) -> LightTokenizer | None:
        """The tokenizer of a folder; None where its settings ask for more than this class does."""
        path = folder / "tokenizer_config.json"
        if not path.exists() or (folder / "chat_template.jinja").exists():
            return None
        settings = json.loads(path.read_text())
        plain = settings.get("tokenizer_class") == _CLASS and not settings.get("clean_up_tokenization_spaces")
        if not plain or set(settings) - _KNOWN or not {"eos_token", "pad_token"} <= set(settings):
            return None
        return cls(folder, settings)

    def __call__(self, text: str | Sequence[str], add_special_tokens: bool = True) -> dict[str, Any]:
        """`input_ids` of a text, or of each of several."""
        if isinstance(text, str):
            return {"input_ids": self._core.encode(text, add_special_tokens=add_special_tokens).ids}
        encoded = self._core.encode_batch(list(text), add_special_tokens=add_special_tokens)
        return {"input_ids": [item.ids for item in encoded]}

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of token ids."""
        return str(self._core.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def batch_decode(self, lists: Sequence[Sequence[int]], skip_special_tokens: bool = False) -> list[str]:
        """The texts of several."""
        return list(
            self._core.decode_batch([list(ids) for ids in lists], skip_special_tokens=skip_special_tokens)
        )
