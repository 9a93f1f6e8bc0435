"""Problems as verl reads them: prompts that its tokenizer turns into our token ids, golds, and where each came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from small_runs import small_config
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from harness.backends.verl.metrics import Ledger, is_complete, ledger_columns
from harness.backends.verl.run import write_data
from harness.configuration.error import ConfigError
from harness.configuration.sections import AlgorithmConfig, DeadGroupsConfig
from harness.model.checkpoint import load_tokenizer
from harness.problems.problem import Benchmark, Problem, load_benchmark
from harness.rollout.types import prompt_texts, prompt_tokens

WORDS = ["<s>", "</s>", "[U]", "[A]", "what", "is", "one", "two"]


def tokenizer(pattern: str | None = None, chat_template: str | None = None) -> Any:
    """Words as tokens; `pattern` is what is added around every text (`<s> $A` begins it with a token)."""
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="two"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if pattern:
        inner.post_processor = processors.TemplateProcessing(single=pattern, special_tokens=[("<s>", 0), ("</s>", 1)])
    made = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>")
    made.chat_template = chat_template
    return made


def benchmark(chat: bool) -> Benchmark:
    return Benchmark(
        "sums", 1, [Problem("sums/0", "what is one", "1"), Problem("sums/1", "what is one two", "3")], chat
    )


@pytest.mark.parametrize(
    ("pattern", "text"), [(None, "what is one"), ("<s> $A", "<s>what is one"), ("<s> <s> $A", None)]
)
def test_a_text_stands_for_the_tokens_of_a_plain_prompt(pattern: str | None, text: str | None) -> None:
    tok = tokenizer(pattern)
    texts, longest = prompt_texts(tok, benchmark(chat=False), add_special_tokens=False)
    if text is not None:
        assert texts[0] == text
    bare = [list(tok(each, add_special_tokens=False)["input_ids"]) for each in texts]
    assert bare == prompt_tokens(tok, benchmark(chat=False))
    assert longest == max(map(len, bare))


def test_chat_turns_are_written_out() -> None:
    tok = tokenizer(chat_template="[U] {{ messages[0]['content'] }}{% if add_generation_prompt %} [A]{% endif %}")
    texts, longest = prompt_texts(tok, benchmark(chat=True), add_special_tokens=False)
    assert texts == ["[U] what is one [A]", "[U] what is one two [A]"]
    assert longest == 6


def test_a_first_token_that_the_tokenizer_adds_is_not_written() -> None:
    """TRL's tokenizer adds it to the text; the template writes it, too."""
    tok = tokenizer("<s> $A", chat_template="<s>{{ messages[0]['content'] }}")
    texts, _ = prompt_texts(tok, benchmark(chat=True))
    assert texts == ["what is one", "what is one two"]
    assert [tok(text)["input_ids"] for text in texts] == prompt_tokens(tok, benchmark(chat=True))


def test_a_tokenizer_that_no_text_can_tell_is_refused() -> None:
    with pytest.raises(ConfigError, match="problem sums/0 cannot be written as a text"):
        prompt_texts(tokenizer("$A </s>"), benchmark(chat=False), add_special_tokens=False)


def test_rows_hold_prompt_gold_and_origin(tmp_path: Path, base_policy: Path) -> None:
    config, tok = small_config(), load_tokenizer(base_policy)
    longest = write_data(config, tok, tmp_path / "train.parquet", tmp_path / "validation.parquet")
    rows = pq.read_table(tmp_path / "train.parquet").to_pylist()
    task = load_benchmark(config.task)
    assert len(rows) == 64
    assert rows[3] == {
        "data_source": "train",
        "prompt": [{"role": "user", "content": task.problems[3].prompt}],
        "reward_model": {"style": "rule", "ground_truth": task.problems[3].gold},
        "extra_info": {"index": 3, "split": "train", "problem_id": "train/3", "problem": task.problems[3].prompt},
    }
    validation = pq.read_table(tmp_path / "validation.parquet").to_pylist()
    assert {(row["data_source"], row["extra_info"]["split"]) for row in validation} == {
        ("arithmetic_heldout", "validation")
    }
    assert longest == max(map(len, prompt_tokens(tok, task)))


def test_a_task_smaller_than_a_step_is_refused(tmp_path: Path, base_policy: Path) -> None:
    config = small_config(task__problems=4)
    with pytest.raises(ConfigError, match="prompts_per_step=8 is more than the 4 training problems"):
        write_data(config, load_tokenizer(base_policy), tmp_path / "a", tmp_path / "b")


def test_the_ledger_counts_all_groups_and_reads_only_whole_lines(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    folder.mkdir()
    ledger = Ledger(folder)
    assert ledger.step(1) == ()
    lines = [[1, "a", 10, 1.0, 1, 0], [1, "a", 30, -1.0, 0, 0], [1, "b", 40, -2.0, 0, 1], [1, "b", 20, -1.0, 0, 0]]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "one.jsonl").write_text(text[: len(text) // 2])
    half = len(ledger.step(1))
    assert half < 4
    (folder / "one.jsonl").write_text(text)
    (folder / "two.jsonl").write_text('[1, "c", 8, 1.0, 1, 0]\n[1, "c", 12, 1.0, 1, 0]\n[2, "d", 5')
    assert [item.group for item in ledger.step(1)] == ["a", "a", "b", "b", "c", "c"]
    assert is_complete(ledger.step(1), groups=3, size=2)
    assert not is_complete(ledger.step(1)[:-1], groups=2, size=2), "a response of the third group is missing"
    assert not is_complete(ledger.step(1), groups=4, size=2)
    algorithm = AlgorithmConfig(dead_groups=DeadGroupsConfig(policy="drop"))
    columns = ledger_columns(ledger.step(1), algorithm)
    # Three groups: one mixed (trained on), one all wrong, one all right.
    assert columns["accuracy_mean"] == pytest.approx(3 / 6)
    assert (columns["all_wrong_groups"], columns["all_right_groups"], columns["discarded_groups"]) == (1, 1, 2)
    assert columns["generated_tokens"] == 120
    assert columns["reward_mean"] == pytest.approx((1 - 1 - 2 - 1 + 1 + 1) / 6)
    assert columns["response_tokens_mean_right"] == pytest.approx((10 + 8 + 12) / 3)
    assert columns["response_tokens_mean_truncated"] == 40
    assert columns["truncated_fraction"] == pytest.approx(1 / 6)
    assert ledger.step(2) == ()
