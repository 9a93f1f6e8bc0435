"""Prompts as token ids, and the tokens that end a response."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.benchmark import Benchmark
from harness.config_error import ConfigError


def prompt_tokens(tokenizer: Any, benchmark: Benchmark) -> list[list[int]]:
    """The token ids of every prompt: as it stands, or as the user turn of the tokenizer's chat template.

    Raises:
        ConfigError: the benchmark wants a chat template and the tokenizer has none.
    """
    if not benchmark.chat:
        return [list(tokenizer(problem.prompt)["input_ids"]) for problem in benchmark.problems]
    if not getattr(tokenizer, "chat_template", None):
        raise ConfigError(
            f"benchmark {benchmark.name} asks in chat turns, but this tokenizer has no chat template; "
            "choose a template for base models: plain, boxed_completion, qwen_math or r1"
        )
    prompts = []
    for problem in benchmark.problems:
        turn = [{"role": "user", "content": problem.prompt}]
        text = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
        prompts.append(list(tokenizer(text, add_special_tokens=False)["input_ids"]))
    return prompts


def stop_tokens(tokenizer: Any, folder: Path) -> tuple[int, ...]:
    """The tokenizer's end token and those of the checkpoint's `generation_config.json` (chat models end turns with another)."""
    found = {int(tokenizer.eos_token_id)} if tokenizer.eos_token_id is not None else set()
    path = folder / "generation_config.json"
    if path.exists():
        ends = json.loads(path.read_text()).get("eos_token_id")
        found |= set(ends if isinstance(ends, list) else [] if ends is None else [ends])
    if not found:
        raise ConfigError(f"{folder} names no end token; set eos_token_id in its generation_config.json")
    return tuple(sorted(found))
