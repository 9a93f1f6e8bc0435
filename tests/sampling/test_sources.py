"""Data sources: demonstrations, the initial policy and the policy itself give graded, repeatable responses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import small_config

from harness.configuration.registry import implementation, kinds, member
from harness.configuration.schema import RunConfig
from harness.model.checkpoint import load_tokenizer
from harness.model.policy import NativePolicy
from harness.objective.objective import Objective
from harness.problems.problem import load_benchmark
from harness.rollout.noise import sample_seeds
from harness.rollout.types import SamplingParams
from harness.sampling.source import Source, SourceContext
from harness.training.update import Updater

FAMILY = "harness.sampling.source"


def build(config: RunConfig, folder: Path, kind: str, **settings: object) -> tuple[Source, SourceContext]:
    policy = NativePolicy.load(folder, "torch")
    tokenizer = load_tokenizer(folder)
    problems = load_benchmark(config.task).problems
    prompts = [tokenizer(problem.prompt)["input_ids"] for problem in problems]
    engine = implementation("harness.rollout.engine", config.engine).build(config.engine, policy, config.runtime)
    score = Updater(config, policy, Objective(config.algorithm)).score_responses
    context = SourceContext(config, policy, engine, tokenizer, problems, prompts, score)
    module = member(FAMILY, kind)
    return module.build(module.Config(**settings), context), context


def params(context: SourceContext) -> SamplingParams:
    return SamplingParams(max_response_tokens=24, stop_token_ids=(int(context.tokenizer.eos_token_id),))


CHOSEN = np.array([3, 1, 7])
SEEDS = sample_seeds(np.uint64(5), np.array([3, 1, 7], dtype=np.uint64), 4)


@pytest.mark.parametrize("kind", sorted(kinds(FAMILY)))
def test_the_same_seeds_give_the_same_responses(kind: str, base_policy: Path) -> None:
    source, context = build(small_config(), base_policy, kind)
    first, second = (source.generate(CHOSEN, SEEDS, params(context)) for _ in range(2))
    assert len(first.lengths_R) == 12
    assert first.tokens_N.tolist() == second.tokens_N.tolist()
    assert (first.entropy_N > 0).any()
    assert (first.log_probs_N <= 0).all()
    assert int(first.lengths_R.max()) <= 24


def test_the_initial_policy_does_not_learn(base_policy: Path) -> None:
    source, context = build(small_config(), base_policy, "initial_policy")
    before = source.generate(CHOSEN, SEEDS, params(context))
    with torch.no_grad():
        for parameter in context.policy.parameters():
            parameter.mul_(0.5)
    after = source.generate(CHOSEN, SEEDS, params(context))
    assert before.tokens_N.tolist() == after.tokens_N.tolist()
    assert before.log_probs_N.tolist() == after.log_probs_N.tolist()
    assert before.entropy_N.tolist() != after.entropy_N.tolist()  # the current policy's


def test_selected_demonstrations_end_in_the_gold_answer(base_policy: Path) -> None:
    source, context = build(small_config(), base_policy, "demonstrations", keep="right", attempts=200)
    completions = source.generate(CHOSEN, SEEDS, params(context))
    texts = context.tokenizer.batch_decode(completions.token_lists(), skip_special_tokens=True)
    golds = [context.problems[i].gold for i in CHOSEN for _ in range(4)]
    done = completions.finished_R.tolist()
    assert sum(done) > 6
    assert all(text.endswith("{" + gold + "}") for text, gold, whole in zip(texts, golds, done, strict=True) if whole)
