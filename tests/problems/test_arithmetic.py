"""The testbed's task, demonstrator, tokenizer and warm-up."""

from __future__ import annotations

import dataclasses
import random
import re
from pathlib import Path

import pytest
import torch

from harness.configuration.error import ConfigError
from harness.problems.benchmarks.arithmetic import Chain, Config, draw, load, prompt_width
from harness.testbed import demonstrator as tokenizers
from harness.testbed.demonstrator import demonstrate, fact
from harness.testbed.recipe import Config as ModelConfig
from harness.testbed.recipe import Demonstrator
from harness.testbed.warm_up import initialise, prepare_testbed, warm_up
from harness.verify import MathVerifier, VerifierConfig

STYLES = {"direct": 0.3, "terse": 0.35}
CAREFUL = Demonstrator(**STYLES, slip=0.0, slip_terse=0.0, misconceptions=0.0, recheck=0.0, babble=0.0)


def test_a_chain_is_worked_left_to_right_by_the_modulus() -> None:
    assert Chain(7, (("+", 8), ("*", 9), ("-", 7))).answer == 28  # 15, 135 → 35, 28
    chain = Chain(7, (("+", 8), ("*", 3), ("-", 7)), 10)  # 15 → 5, 15 → 5, -2 → 8
    assert chain.text == "7+8*3-7:"
    assert chain.answer == 8


def test_splits_are_disjoint_deterministic_and_equally_wide() -> None:
    train, held_out = load(Config(problems=500)), load(Config(split="heldout", problems=200))
    texts = {problem.prompt for problem in train.problems}
    assert len(texts) == 500
    assert not texts & {problem.prompt for problem in held_out.problems}
    assert {len(problem.prompt) for problem in train.problems} == {prompt_width(6)} == {14}
    assert load(Config(problems=500)).problems == train.problems
    assert load(Config(problems=100)).problems == train.problems[:100]


def test_more_problems_than_the_split_holds_is_an_error() -> None:
    with pytest.raises(ConfigError, match="lower problems="):
        load(Config(split="heldout", problems=1000, max_operations=1))


def test_a_careful_demonstrator_is_always_right_in_every_style() -> None:
    rng, styles = random.Random(0), set()
    for _ in range(300):
        chain = draw(rng, rng.randint(1, 6), 10)
        text = demonstrate(rng, chain, CAREFUL)
        match = re.fullmatch(r"(.*)\\boxed\{(\d)\}<eos>", text)
        assert match
        assert int(match[2]) == chain.answer
        styles.add("verbose" if "=" in match[1] else "terse" if match[1] else "direct")
        if "=" in match[1]:
            assert match[1].count("=") == len(chain.operations)
    assert styles == {"verbose", "terse", "direct"}


def test_demonstrator_errors_occur_at_their_rates() -> None:
    rng = random.Random(1)
    teacher = Demonstrator(**STYLES)
    texts = [demonstrate(rng, draw(rng, 4, 10), teacher) for _ in range(4000)]
    worked = [text for text in texts if "," in text]
    assert abs(sum("," not in text for text in texts) / 4000 - 0.30) < 0.03
    assert abs(sum("?" in text for text in worked) / len(worked) - 0.97 * 0.2) < 0.03
    assert abs(sum(text.count(",") > 40 for text in worked) / len(worked) - 0.03 * 1.2) < 0.015


def test_misconceptions_are_a_fixed_share_of_the_facts() -> None:
    facts = [
        fact(op, value, operand, 10, 0.15, 0.03, 0.4) for op in "+-*" for value in range(10) for operand in range(2, 10)
    ]
    wrong = [knows for knows, _ in facts if knows < 1]
    assert 20 <= len(wrong) <= 50
    assert all(0.03 <= knows <= 0.4 for knows in wrong)


def test_the_ordinary_verifier_reads_the_tokenizers_text() -> None:
    tokenizer = tokenizers.testbed_tokenizer()
    ids = tokenizer(r"7+8=5,5*3=5,\boxed{5}<eos>")["input_ids"]
    assert len(ids) == 6 + 6 + 4
    text = tokenizer.decode(ids, skip_special_tokens=True)
    with MathVerifier(VerifierConfig(extraction="boxed", answer_must_end=True)) as verifier:
        assert verifier.verify(text, "5").correct
        assert not verifier.verify(text + ",1", "5").correct
        assert verifier.verify("7+8=5,", "5").verdict == "no_answer"


def test_warm_up_is_deterministic_cached_and_lowers_the_loss(tmp_path: Path, tiny_model: ModelConfig) -> None:
    from safetensors.torch import load_file

    task, warmup = Config(), dataclasses.replace(tiny_model.warmup, steps=8)
    model = dataclasses.replace(tiny_model, warmup=warmup)
    first = prepare_testbed(model, task, tmp_path / "a", "torch")
    second = prepare_testbed(model, task, tmp_path / "b", "torch")
    assert first.name == second.name
    one, two = load_file(first / "model.safetensors"), load_file(second / "model.safetensors")
    assert all(torch.equal(one[name], two[name]) for name in one)
    stamp = (first / "model.safetensors").stat().st_mtime_ns
    assert prepare_testbed(model, task, tmp_path / "a", "torch") == first
    assert (first / "model.safetensors").stat().st_mtime_ns == stamp
    other = dataclasses.replace(model, warmup=dataclasses.replace(warmup, seed=1))
    assert prepare_testbed(other, task, tmp_path / "a", "torch") != first
    losses = warm_up(initialise(model, tmp_path, "torch"), model, task)
    assert losses[-1] < losses[0]
