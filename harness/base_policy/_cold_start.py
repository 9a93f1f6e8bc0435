"""Supervised training of a pretrained policy on demonstrations, made once and kept under the hash of everything that went into it."""

import io
import json
import math
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional

from harness.base_policy._recipe import ColdStart
from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash
from harness.model.checkpoint import copy_side_files, load_model, load_tokenizer
from harness.model.system import content_fingerprint, processor
from harness.problems.demonstrations import as_benchmark, demonstrations
from harness.problems.problem import Benchmark
from harness.rollout.types import prompt_tokens, stop_tokens
from harness.store.seal import ensure_folder

VERSION = 1  # of the recipe; a change makes new folders
POLICY, MANIFEST = "policy", "cold_start.manifest"
_WARMUP_STEPS = 5
_GIB = 2**30
_BYTES_OF_A_PARAMETER = 16
_ROWS = 8  # sequences in one forward and backward

Example = tuple[list[int], int]
"""Tokens of a prompt and its response, and how many of them are the prompt's."""


def prepare_cold_start(recipe: ColdStart, task: Any, base: int, source: Path, cache: Path, bfloat16: bool) -> Path:
    """The checkpoint folder of cold start number `base` of `source`, trained where it is absent; `bfloat16` is the precision of products.

    Raises `ConfigError`: there are no demonstrations, the tokenizer lacks what the template asks for, or training diverged.
    """
    solutions = demonstrations(recipe, task, base)
    benchmark, responses = as_benchmark(solutions, task), [each.response for each in solutions]
    identity = {
        "version": VERSION,
        "weights": content_fingerprint(source),
        "bfloat16": bfloat16,
        "steps": recipe.steps,
        "batch": recipe.batch,
        "learning_rate": recipe.learning_rate,
        "order": [recipe.seed, base],
        "template": [benchmark.chat, benchmark.system],
        "demonstrations": [[p.prompt, response] for p, response in zip(benchmark.problems, responses, strict=True)],
    }

    def write(folder: Path) -> None:
        sequences = encode_examples(source, benchmark, responses)
        order = random.Random(f"order/{recipe.seed}/{base}")
        _train_and_save(source, sequences, recipe, order, bfloat16, identity, folder)

    return ensure_folder(cache / "cold_start" / content_hash(identity) / POLICY, write)


def _train_and_save(
    source: Path,
    sequences: Sequence[Example],
    recipe: ColdStart,
    draw: random.Random,
    bfloat16: bool,
    identity: dict[str, Any],
    folder: Path,
) -> None:
    """Train and write the checkpoint, in the number type of `source`, with the files beside its weights and a manifest."""
    # A progress bar would be the last words of a run that fails later.
    with redirect_stderr(io.StringIO()):
        model = load_model(source, "auto")
    _require_memory(sum(parameter.numel() for parameter in model.parameters()))
    dtype = model.dtype
    losses = train(model.float(), sequences, recipe, draw, bfloat16)
    if not math.isfinite(sum(losses)):
        raise ConfigError(f"model.cold_start diverged; lower model.cold_start.learning_rate={recipe.learning_rate:g}")
    with redirect_stderr(io.StringIO()):
        model.to("cpu", dtype).save_pretrained(folder)
    copy_side_files(source, folder)
    manifest = {"losses": losses, "made_of": identity}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _require_memory(parameters: int) -> None:
    """Refuse what one device cannot hold: float32 weights, gradients and AdamW's two moments. Raises `ConfigError`."""
    needed, available = _BYTES_OF_A_PARAMETER * parameters, _device_bytes()
    if needed > available:
        raise ConfigError(
            f"model.cold_start trains all weights in float32 on one device: {needed / _GIB:.1f} GiB of {available / _GIB:.1f} GiB; begin "
            "from a checkpoint that was trained elsewhere (model.path) without a cold start, or take a smaller model"
        )


def _device_bytes() -> int:
    """The memory of the device that cold starts train on."""
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[1])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def encode_examples(source: Path, benchmark: Benchmark, responses: Sequence[str]) -> list[Example]:
    """Prompts as training asks them, each with its response and the token that ends it. Raises ConfigError as `prompt_tokens`."""
    tokenizer = load_tokenizer(source)
    prompts = prompt_tokens(tokenizer, benchmark)
    ends = stop_tokens(tokenizer, source)
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else ends[0]
    if benchmark.chat:
        # Turns may end with another token than texts; the last one of a whole conversation is the answer's.
        turns = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]
        text = tokenizer.apply_chat_template(turns, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        end = next((token for token in reversed(ids) if token in ends), end)
    response_ids = tokenizer(list(responses), add_special_tokens=False)["input_ids"]
    return [([*prompt, *response, end], len(prompt)) for prompt, response in zip(prompts, response_ids, strict=True)]


def train(
    model: Any, sequences: Sequence[Example], recipe: ColdStart, draw: random.Random, bfloat16: bool
) -> list[float]:
    """Train on the response tokens, epoch after epoch in an order of its own; the loss of every step (nats a token).

    The model is in float32; `bfloat16` is the precision of its products where the processor has such.
    """
    model.to("cuda" if torch.cuda.is_available() else "cpu").eval()  # no dropout, as in RL
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=0.0)
    order, losses = _order(len(sequences), draw), []
    for step in range(recipe.steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * min(1.0, (step + 1) / _WARMUP_STEPS)
        batch = sorted((sequences[next(order)] for _ in range(recipe.batch)), key=lambda item: len(item[0]))
        total = sum(len(ids) - prompt for ids, prompt in batch)
        optimizer.zero_grad(set_to_none=True)
        parts = (batch[start : start + _ROWS] for start in range(0, len(batch), _ROWS))
        losses.append(sum(_backward(model, part, total, bfloat16) for part in parts))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return losses


def _order(count: int, draw: random.Random) -> Iterator[int]:
    while True:
        yield from draw.sample(range(count), count)


def _backward(model: Any, rows: Sequence[Example], total: int, bfloat16: bool) -> float:
    """Add the gradient of some rows' loss, a sum over response tokens divided by `total`; returns that loss."""
    longest = max(len(ids) for ids, _ in rows)
    ids_BT = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in rows], device=model.device)
    position_T = torch.arange(longest, device=model.device)
    lengths_B1, prompts_B1 = torch.tensor([[len(ids), prompt] for ids, prompt in rows], device=model.device).T[
        ..., None
    ]
    mask_BT = position_T < lengths_B1
    multiplies = model.device.type != "cpu" or processor().bfloat16
    with torch.autocast(model.device.type, torch.bfloat16, enabled=bfloat16 and multiplies):
        logits_BTV = model(input_ids=ids_BT, attention_mask=mask_BT.long()).logits
    response_mask_BT = (mask_BT & (position_T >= prompts_B1))[:, 1:]
    logits_NV = logits_BTV[:, :-1][response_mask_BT].float()
    loss = functional.cross_entropy(logits_NV, ids_BT[:, 1:][response_mask_BT], reduction="sum") / total
    loss.backward()
    return float(loss.detach())
