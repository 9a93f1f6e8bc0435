"""Supervised warm-up of the testbed's policy, cached by the hash of everything that went into it."""

import dataclasses
import random
from pathlib import Path

import torch
import torch.nn.functional as functional

from harness.configuration.identity import content_hash
from harness.model.checkpoint import save_decoder
from harness.model.decoder import Decoder, Shape
from harness.model.linear import Linear
from harness.problems.benchmarks.arithmetic import Config as ArithmeticConfig
from harness.problems.benchmarks.arithmetic import draw_of_split, prompt_text, prompt_width
from harness.store.seal import ensure_folder
from harness.testbed.demonstrator import VOCABULARY, demonstrate, testbed_tokenizer
from harness.testbed.recipe import Config

RECIPE_VERSION = 2
_WARMUP_STEPS = 50
_BETAS = (0.9, 0.98)


def prepare_testbed(config: Config, task: ArithmeticConfig, cache: Path, linear_kernel: str) -> Path:
    """The cached checkpoint folder of this recipe, warmed up first where it does not exist yet (`ensure_folder`)."""

    def write(folder: Path) -> None:
        decoder = initialise(config, folder, linear_kernel)
        warm_up(decoder, config, task)
        save_decoder(decoder, folder, folder)

    return ensure_folder(cached_folder(config, task, cache), write)


def cached_folder(config: Config, task: ArithmeticConfig, cache: Path) -> Path:
    """Return the folder of this recipe's warmed-up policy, which exists once it was made."""
    settings = {name: value for name, value in dataclasses.asdict(config).items() if name != "bases"}
    operations = [task.min_operations, task.max_operations]
    recipe = {"version": RECIPE_VERSION, "model": settings, "operations": operations, "modulus": task.modulus}
    return cache / f"testbed-{content_hash(recipe)}"


def initialise(config: Config, folder: Path, linear_kernel: str) -> Decoder:
    """A randomly initialised model; its config and tokenizer are written to `folder`."""
    from transformers import GenerationConfig, LlamaConfig

    size = config.architecture
    tokenizer = testbed_tokenizer()
    architecture = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.hidden // size.heads,
        max_position_embeddings=size.max_positions,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        architectures=["LlamaForCausalLM"],
        dtype="float32",
    )
    architecture.save_pretrained(folder)
    GenerationConfig(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert config.warmup.seed is not None, "the run's seed is put in before (harness.base_policy.testbed)"
    generator = torch.Generator().manual_seed(config.warmup.seed)
    decoder = Decoder(Shape.from_config(architecture), Linear(linear_kernel))
    for name, slot in decoder.named_tensors().items():
        if slot.dim() == 1:
            slot.fill_(1.0)
            continue
        # Scaled for a network this narrow: embeddings large, projections at 1/√fan-in, residual outputs at half of that.
        std = {"model.embed_tokens.weight": 0.5, "lm_head.weight": 0.02}.get(name, slot.shape[1] ** -0.5)
        if "o_proj" in name or "down_proj" in name:
            std *= 0.5
        slot.copy_(torch.randn(slot.shape, generator=generator) * std)
    return decoder


def warm_up(decoder: Decoder, config: Config, task: ArithmeticConfig) -> list[float]:
    """Fine-tune on fresh demonstrations of training chains; the loss of every step (nats a token)."""
    recipe, tokenizer = config.warmup, testbed_tokenizer()
    rng = random.Random(f"warmup/{recipe.seed}")
    width = prompt_width(task.max_operations)
    longest = decoder.shape.max_positions - width
    optimizer = torch.optim.AdamW(
        decoder.parameters(), lr=recipe.learning_rate, betas=_BETAS, weight_decay=0.01, fused=True
    )
    losses = []
    for step in range(recipe.steps):
        decay = 1 - 0.9 * max(0.0, step / recipe.steps - 0.5) / 0.5
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * min(1.0, (step + 1) / _WARMUP_STEPS) * decay
        texts = []
        for _ in range(recipe.batch):
            chain = draw_of_split(rng, task, held_out=False)
            texts.append(prompt_text(chain, task.max_operations) + demonstrate(rng, chain, config.demonstrator))
        sequences = sorted((ids[: width + longest] for ids in tokenizer(texts)["input_ids"]), key=len)
        total = sum(len(ids) - width for ids in sequences)
        optimizer.zero_grad(set_to_none=True)
        # Two length buckets: one long babbler does not pad the rest.
        boundary = len(sequences) * 3 // 4
        losses.append(
            sum(_backward(decoder, part, width, total) for part in (sequences[:boundary], sequences[boundary:]) if part)
        )
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
    return losses


def _backward(decoder: Decoder, sequences: list[list[int]], width: int, total: int) -> float:
    longest = max(map(len, sequences))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in sequences])
    hidden_states = decoder.hidden_states(ids[:, :-1]).view(len(sequences), longest - 1, -1)[:, width - 1 :]
    targets = ids[:, width:]
    lengths = torch.tensor([len(row) - width for row in sequences])
    mask = torch.arange(longest - width)[None] < lengths[:, None]
    loss = functional.cross_entropy(decoder.logits(hidden_states[mask]), targets[mask], reduction="sum") / total
    loss.backward()
    return float(loss.detach())
