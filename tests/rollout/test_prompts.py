"""Prompts as tokens: as they stand, as chat turns; what ends a response, tokens and strings, for every engine alike."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from engine_support import Opener, cases, seeds_for
from jinja2 import TemplateError

from harness.configuration.error import ConfigError
from harness.configuration.identity import run_id
from harness.configuration.schema import RunConfig
from harness.model.checkpoint import load_tokenizer
from harness.model.policy import NativePolicy
from harness.problems.problem import Benchmark, Problem
from harness.rollout.types import Completions, SamplingParams, chat_text, end_at_strings, prompt_tokens, stop_tokens


class Letters:
    """A tokenizer of characters with a begin token of its own."""

    eos_token_id: int | None = 0
    chat_template: str | None = "there is one"
    bos_token: str | None = None

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [1] * add_special_tokens + [ord(letter) for letter in text]}

    def apply_chat_template(self, turns: list[dict[str, str]], **how: Any) -> str:
        assert how["add_generation_prompt"]
        assert not how["tokenize"]
        return "".join(f"<{turn['role']}>{turn['content']}" for turn in turns) + "<assistant>"


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def test_a_plain_prompt_gets_the_tokenizers_special_tokens_and_a_chat_turn_only_the_templates() -> None:
    problems = [Problem("a", "1+1", "2")]
    assert prompt_tokens(Letters(), Benchmark("b", 1, problems)) == [[1, *letters("1+1")]]
    assert prompt_tokens(Letters(), Benchmark("b", 1, problems, chat=True)) == [letters("<user>1+1<assistant>")]


def test_a_chat_benchmark_needs_a_chat_template() -> None:
    tokenizer = Letters()
    tokenizer.chat_template = None
    with pytest.raises(ConfigError, match=r"no chat template; choose a template for base models: plain"):
        prompt_tokens(tokenizer, Benchmark("b", 1, [], chat=True))


def test_a_text_that_begins_with_the_begin_token_gets_no_second_one() -> None:
    tokenizer = Letters()
    tokenizer.bos_token = "\x01"
    problems = [Problem("a", "\x011+1", "2"), Problem("b", "1+1", "2")]
    assert prompt_tokens(tokenizer, Benchmark("b", 1, problems)) == [[1, *letters("1+1")]] * 2


def test_a_chat_template_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*turns: object, **how: object) -> str:
        raise TemplateError("System role not supported")

    tokenizer = Letters()
    monkeypatch.setattr(tokenizer, "apply_chat_template", fails)
    with pytest.raises(
        ConfigError, match=r"chat template fails on system and user turns \(System role not supported\); mend"
    ):
        chat_text(tokenizer, "1+1", "Think.")


# The day lines of Llama 3.2's template and of SmolLM3's.
LLAMA = (
    "{%- if not date_string is defined %}{%- if strftime_now is defined %}{%- set date_string = strftime_now('%d %b %Y') %}"
    "{%- else %}{%- set date_string = '26 Jul 2024' %}{%- endif %}{%- endif %}{{ date_string }}"
)
SMOLLM = "{%- set today = strftime_now('%d %B %Y') -%}{{ today }}"


@pytest.mark.parametrize(("template", "day"), [(LLAMA, "26 Jul 2024"), (SMOLLM, "26 July 2024")])
def test_a_chat_template_that_writes_the_day_writes_the_same_every_day(template: str, day: str) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    class Dated(Letters):
        def apply_chat_template(self, turns: list[dict[str, str]], **how: Any) -> str:
            del how["tokenize"]
            texts, _ = render_jinja_template([turns], chat_template=template, **how)
            return str(texts[0])

    benchmark = Benchmark("b", 1, [Problem("a", "1+1", "2")], chat=True)
    assert prompt_tokens(Dated(), benchmark) == [letters(day)]
    assert chat_text(Dated(), "1+1") == day


def test_a_mark_that_the_tokenizer_spells_in_pieces_is_refused() -> None:
    problems = [Problem("a", "<|im_start|>user\n1+1", "2")]
    with pytest.raises(ConfigError, match=r"<\|im_start\|>, which this tokenizer has no token for"):
        prompt_tokens(Letters(), Benchmark("b", 1, problems))


@pytest.mark.parametrize(("ends", "expected"), [([5, 7], (0, 5, 7)), (5, (0, 5)), (None, (0,))])
def test_a_response_ends_at_the_tokenizers_or_the_checkpoints_end_tokens(
    tmp_path: Path, ends: Any, expected: tuple[int, ...]
) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    assert stop_tokens(Letters(), tmp_path) == expected


def test_without_a_generation_config_the_models_configuration_names_the_end(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": [5, 7]}))
    assert stop_tokens(Letters(), tmp_path) == (0, 5, 7)
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"eos_token_id": 6}}))
    assert stop_tokens(SimpleNamespace(eos_token_id=None), tmp_path) == (6,)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": 9}))
    assert stop_tokens(Letters(), tmp_path) == (0, 9)


def test_a_checkpoint_without_any_end_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names no end token"):
        stop_tokens(SimpleNamespace(eos_token_id=None), tmp_path)


TEXTS = ["", "a", "b", "ab", "Que", "stion", ":"]


def decode(rows: Any) -> list[str]:
    return ["".join(TEXTS[token] for token in row) for row in rows]


def completions(*rows: list[int], finished: tuple[bool, ...]) -> Completions:
    tokens = torch.tensor([token for row in rows for token in row])
    return Completions(
        tokens_N=tokens,
        log_probs_N=-tokens.float(),
        entropy_N=tokens.float(),
        lengths_R=torch.tensor([len(row) for row in rows]),
        finished_R=torch.tensor(finished),
    )


def test_a_string_may_span_tokens_and_its_last_token_stays() -> None:
    made = end_at_strings(
        completions([1, 4, 5, 6, 2, 2], [1, 2, 1], [4, 5, 6], finished=(False, True, False)), ["Question:"], decode
    )
    assert made.token_lists() == [[1, 4, 5, 6], [1, 2, 1], [4, 5, 6]]
    assert made.finished_R.tolist() == [True, True, True]
    assert made.log_probs_N.tolist() == [-1, -4, -5, -6, -1, -2, -1, -4, -5, -6]


def test_the_string_that_comes_first_ends_it() -> None:
    made = end_at_strings(completions([2, 1, 3, 3, 6], [6, 6], finished=(False, False)), ["ab", "bab", "ba"], decode)
    assert made.token_lists() == [[2, 1], [6, 6]]
    assert made.finished_R.tolist() == [True, False]


@pytest.mark.parametrize("name", cases("shared", "transformers", "vllm"))
def test_every_engine_ends_at_the_same_place(
    name: str, folder: Path, policy: NativePolicy, prompts: list[list[int]], opener: Opener
) -> None:
    tokenizer = load_tokenizer(folder)
    engine = opener(name, folder, policy).with_stops(tokenizer)
    free = engine.generate(prompts, seeds_for(prompts, 4), SamplingParams(24))
    texts = tokenizer.batch_decode(free.token_lists())
    pairs = [text[i : i + 2] for text in texts for i in range(2, 12)]
    ends = (max(set(pairs), key=pairs.count),)
    told: dict[int, list[list[int]]] = {}
    engine.on_group = lambda group, responses: told.update({group: responses.token_lists()})
    made = engine.generate(prompts, seeds_for(prompts, 4), SamplingParams(24, stop_strings=ends))
    assert [row for group in sorted(told) for row in told[group]] == made.token_lists()
    wanted = end_at_strings(free, ends, lambda rows: tokenizer.batch_decode(rows))
    assert made.token_lists() == wanted.token_lists()
    assert made.finished_R.tolist() == wanted.finished_R.tolist()
    assert int(made.finished_R.sum()) > 0
    torch.testing.assert_close(made.log_probs_N, wanted.log_probs_N, rtol=0, atol=1e-5)


def test_a_string_that_ends_responses_is_part_of_the_identity() -> None:
    config = RunConfig()
    before = run_id(config)
    config.sampling.stop_strings = ["Question:"]
    assert run_id(config) != before
