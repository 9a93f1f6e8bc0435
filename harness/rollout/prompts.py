"""Prompts as token ids, and the tokens that end a response."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.problems.problem import Benchmark

# Some chat templates write the current day into the prompt; a run that goes on tomorrow, or is repeated, would ask something else. This is
# the day that Llama 3.2's own template falls back to; templates that know no `date_string` ask the function.
_DAY = date(2024, 7, 26)
_SAME_DAY = {"date_string": _DAY.strftime("%d %b %Y"), "strftime_now": _DAY.strftime}
_SPECIAL = re.compile(r"<\|[^<|>\s]{1,40}\|>")


def prompt_tokens(tokenizer: Any, benchmark: Benchmark) -> list[list[int]]:
    """The token ids of every prompt: as it stands, or as the user turn of the tokenizer's chat template.

    Raises:
        ConfigError: the benchmark wants a chat template and the tokenizer has none, or it has no token for one of the template's marks.
    """
    if not benchmark.chat:
        _require_marks(tokenizer, benchmark, [problem.prompt for problem in benchmark.problems[:1]])
        return [list(tokenizer(problem.prompt)["input_ids"]) for problem in benchmark.problems]
    if not getattr(tokenizer, "chat_template", None):
        raise ConfigError(
            f"benchmark {benchmark.name} asks in chat turns, but this tokenizer has no chat template; "
            "choose a template for base models: plain, boxed_completion, qwen_math or r1"
        )
    texts = [chat_text(tokenizer, problem.prompt, benchmark.system) for problem in benchmark.problems]
    _require_marks(tokenizer, benchmark, texts[:1])
    return [list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]


def chat_text(tokenizer: Any, prompt: str, system: str = "") -> str:
    """A prompt as the user turn of the tokenizer's chat template, behind a system turn if there is one; the same text on every day."""
    turns = [{"role": "system", "content": system}] if system else []
    turns.append({"role": "user", "content": prompt})
    return str(tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False, **_SAME_DAY))


def _require_marks(tokenizer: Any, benchmark: Benchmark, texts: Sequence[str]) -> None:
    """A mark such as `<|im_start|>` that the tokenizer spells in pieces is not the turn the model was trained on."""
    for mark in sorted({mark for text in texts for mark in _SPECIAL.findall(text)}):
        pieces = tokenizer(mark, add_special_tokens=False)["input_ids"]
        if len(pieces) != 1 or pieces[0] == getattr(tokenizer, "unk_token_id", None):
            raise ConfigError(
                f"benchmark {benchmark.name}: its template uses {mark}, which this tokenizer has no token for; choose a template that "
                "fits the model (plain, boxed_completion, qwen_math, r1, or chat for a tokenizer with a chat template)"
            )


def stop_tokens(tokenizer: Any, folder: Path) -> tuple[int, ...]:
    """The tokenizer's end token and the checkpoint's own (chat models end turns with another).

    The checkpoint's are those of its `generation_config.json`, or where it has none those of its `config.json`, as in `transformers`.

    Raises:
        ConfigError: there is none.
    """
    ends_response = {int(tokenizer.eos_token_id)} if tokenizer.eos_token_id is not None else set()
    about = (folder / name for name in ("generation_config.json", "config.json"))
    path = next((file for file in about if file.exists()), None)
    if path is not None:
        values = json.loads(path.read_text())
        ends = values.get("eos_token_id", values.get("text_config", {}).get("eos_token_id"))
        ends_response |= set(ends if isinstance(ends, list) else [] if ends is None else [ends])
    if not ends_response:
        raise ConfigError(f"{folder} names no end token; set eos_token_id in its generation_config.json")
    return tuple(sorted(ends_response))
