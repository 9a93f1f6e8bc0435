"""Problems as verl reads them: parquet rows whose prompts already carry our template, so that verl's tokenizer yields our token ids."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.problems.problem import Benchmark, load_benchmark
from harness.rollout.prompts import chat_text, prompt_tokens
from harness.store.atomic import publish_file

TRAIN = "train"
_TURN = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),  # the benchmark's name; verl averages its validation by it
        ("prompt", _TURN),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        (
            "extra_info",
            pa.struct(
                [
                    ("index", pa.int64()),
                    ("split", pa.string()),
                    ("problem_id", pa.string()),
                    ("problem", pa.string()),
                ]
            ),
        ),
    ]
)


def write_data(config: RunConfig, tokenizer: Any, train_file: Path, validation_file: Path) -> int:
    """Write the training problems and those of all benchmarks (the training problems again where there are none).

    Returns the tokens of the longest prompt.

    Raises:
        ConfigError: fewer problems than a step needs, or prompts that verl's tokenizer cannot be given.
    """
    task = load_benchmark(config.task)
    needed = config.algorithm.prompts_per_step
    if len(task.problems) < needed:
        raise ConfigError(
            f"algorithm.prompts_per_step={needed} is more than the {len(task.problems)} training problems of {task.name}"
        )
    train, longest = _table(tokenizer, TRAIN, TRAIN, task)
    validation = []
    for name, item in config.evaluation.benchmarks.items():
        table, length = _table(tokenizer, name, "validation", load_benchmark(item))
        validation.append(table)
        longest = max(longest, length)
    publish_file(train_file, functools.partial(pq.write_table, train))
    publish_file(validation_file, functools.partial(pq.write_table, pa.concat_tables(validation or [train])))
    return longest


def prompt_texts(tokenizer: Any, benchmark: Benchmark) -> tuple[list[str], int]:
    """Return texts that `tokenizer(text, add_special_tokens=False)` turns into our prompts, and the longest in tokens.

    Raises:
        ConfigError: the tokenizer adds something that no text stands for.
    """
    prompts = prompt_tokens(tokenizer, benchmark)
    texts = []
    for problem, ids in zip(benchmark.problems, prompts, strict=True):
        if benchmark.chat:
            text = chat_text(tokenizer, problem.prompt, benchmark.system)
        else:
            bare = _bare(tokenizer, problem.prompt)
            before = ids[: len(ids) - len(bare)]  # a token that begins every text
            text = str(tokenizer.decode(before)) + problem.prompt if before else problem.prompt
        if _bare(tokenizer, text) != list(ids):
            raise ConfigError(
                f"{benchmark.name}: the prompt of problem {problem.id} cannot be written for verl: this tokenizer adds tokens that no "
                "text yields; choose a chat template (`template: boxed`) or another model"
            )
        texts.append(text)
    return texts, max((len(ids) for ids in prompts), default=0)


def _bare(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _table(tokenizer: Any, name: str, split: str, benchmark: Benchmark) -> tuple[pa.Table, int]:
    texts, longest = prompt_texts(tokenizer, benchmark)
    rows = [
        {
            "data_source": name,
            "prompt": [{"role": "user", "content": text}],
            "reward_model": {"style": "rule", "ground_truth": problem.gold},
            "extra_info": {
                "index": index,
                "split": split,
                "problem_id": problem.id,
                "problem": problem.prompt,
            },
        }
        for index, (problem, text) in enumerate(zip(benchmark.problems, texts, strict=True))
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA), longest
