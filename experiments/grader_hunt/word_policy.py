"""A policy of some 130 thousand parameters that speaks plain words: a hunt with it takes a minute of one core.

    python experiments/grader_hunt/word_policy.py FOLDER      # an ordinary checkpoint folder, in one to two minutes of one core

It is fine-tuned on answers of the grammar of `enumerate_answers.py` to the questions of `task=plain_words` (expressions), right and wrong
ones, with some words exchanged, so that it says things that nobody wrote down. Words, digits and other characters are its tokens.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator
from pathlib import Path

import torch
from enumerate_answers import FORMS, FORMULA, OTHER, VALUE, Clause, Problem, joined

from harness.problems.benchmarks.plain_words import Config, load

TASK = Config(
    wording="expressions",
    problems=180,
    kinds=["sum", "difference", "product"],
    most=20,
    template="{problem}\n",
)
PIECE = re.compile(r"\\boxed\{| ?[A-Za-z]+|[\s\S]")
PADDING, END = "<pad>", "<eos>"
_STEPS, _BATCH, _RATE, _POSITIONS = 1_000, 48, 3e-3, 128
_EXCHANGED = 0.03  # of the pieces of an answer
_FILLINGS = (VALUE,) * 6 + (OTHER,) * 3 + (FORMULA,)


def demonstrations(draw: random.Random) -> Iterator[tuple[str, str]]:
    """Yield questions and answers of one to three clauses without end."""
    asked = [(problem.prompt, problem.gold) for problem in load(TASK).problems]
    while True:
        question, gold = draw.choice(asked)
        expression = question.removeprefix("What is ").rstrip("?\n")
        other = draw.choice([*re.findall(r"\d+", expression), str(draw.randint(1, 99))])
        clauses = [
            Clause(form, draw.choice(_FILLINGS))
            for form in draw.choices(FORMS, k=draw.choice((1, 1, 2, 2, 3)))
        ]
        yield question, joined(clauses, Problem(expression, gold, gold, other), draw.choice(("\n", " ", " ")))


def vocabulary(draw: random.Random) -> list[str]:
    """Return the pieces of questions and answers, the printable characters and the two special tokens."""
    source = demonstrations(draw)
    seen = {piece for _ in range(3_000) for text in next(source) for piece in PIECE.findall(text)}
    return [PADDING, END, *sorted(seen | {"\n", *map(chr, range(32, 127))})]


def write(folder: Path, seed: int = 0) -> float:
    """Write the policy's checkpoint folder and return the loss of its last steps, nats a token."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    draw, _ = random.Random(f"words/{seed}"), torch.manual_seed(seed)
    pieces = vocabulary(draw)
    number = {piece: i for i, piece in enumerate(pieces)}
    core = Tokenizer(models.WordLevel(number, unk_token=PADDING))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(PIECE.pattern), "isolated")
    core.decoder = decoders.Fuse()
    core.add_special_tokens([AddedToken(PADDING, special=True), AddedToken(END, special=True)])
    shape = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 3, "num_attention_heads": 4}
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(pieces), max_position_embeddings=_POSITIONS, eos_token_id=1, pad_token_id=0, bos_token_id=None, **shape
        )
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    source, losses = demonstrations(draw), []
    for step in range(_STEPS):
        rows = [_row(*next(source), number, pieces, draw) for _ in range(_BATCH)]
        longest = max(len(ids) for ids, _ in rows)
        ids = torch.tensor([row + [0] * (longest - len(row)) for row, _ in rows])
        labels = torch.tensor(
            [[-100] * asked + row[asked:] + [-100] * (longest - len(row)) for row, asked in rows]
        )
        optimizer.param_groups[0]["lr"] = (
            _RATE * min(1.0, (step + 1) / 50) * min(1.0, 2.1 - 2 * step / _STEPS)
        )
        loss = model(input_ids=ids, attention_mask=(ids > 0).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=PADDING, eos_token=END, clean_up_tokenization_spaces=False
    ).save_pretrained(folder)
    return sum(losses[-50:]) / 50


def _row(
    question: str, answer: str, number: dict[str, int], pieces: list[str], draw: random.Random
) -> tuple[list[int], int]:
    """Return the tokens of a demonstration, with some of its answer exchanged, and how many of them are the question's."""
    asked = [number[piece] for piece in PIECE.findall(question)]
    said = [
        number[piece] if draw.random() > _EXCHANGED else draw.randrange(2, len(pieces))
        for piece in PIECE.findall(answer)
    ]
    return [*asked, *said, 1][:_POSITIONS], len(asked)


def main() -> None:
    """Write the folder that is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    print(f"{wanted.folder}: {write(wanted.folder, wanted.seed):.3f} nats a token")


if __name__ == "__main__":
    main()
