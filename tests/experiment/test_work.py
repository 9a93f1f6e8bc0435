"""Tokens, FLOP and seconds by hand, and how they must move."""

from __future__ import annotations

import pytest
from test_memory import TINY

from harness.base_policy import pretrained
from harness.configuration.schema import RunConfig
from harness.experiment.estimate.fit import Fit, fit_of
from harness.experiment.estimate.memory import plant_of, rollout_memory
from harness.experiment.estimate.work import forward_flop, groups_generated, run_estimate, update_passes
from harness.model.shapes import SHAPES, ModelSize, from_config


@pytest.fixture
def config() -> RunConfig:
    """8 prompts x 4 responses of 8 tokens on average, prompts of 2, 10 steps, one evaluation of nothing."""
    run = RunConfig(model=pretrained.Config(path="Qwen/Qwen2.5-7B"))
    run.algorithm.prompts_per_step, run.algorithm.responses_per_prompt = 8, 4
    run.sampling.max_response_tokens = 32
    run.training.steps, run.training.evaluate_every = 10, 5
    run.runtime.device = "cuda"
    run.runtime.assumed.prompt_tokens, run.runtime.assumed.response_tokens = 2, 8
    return run


def work(config: RunConfig, shape: ModelSize = TINY):
    plant = plant_of(config)
    return run_estimate(config, Fit(shape, plant, {}, rollout_memory(config, shape, plant, 0.0)))


def test_a_forward_pass_by_hand():
    matrices = 2 * 144 + 40  # two layers and the output projection
    assert forward_flop(TINY, 8) == 2 * matrices + 2 * (4 * 4 * 4)
    seven = from_config(SHAPES["qwen2.5-7b"])
    # 2 FLOP a parameter, less the embedding, which is looked up
    assert forward_flop(seven, 0) == pytest.approx(2 * (seven.parameters - seven.embedding), rel=1e-3)


def test_an_update_costs_three_forwards_a_token_and_what_recomputation_and_scoring_add(config):
    assert update_passes(config) == 3
    config.runtime.gradient_checkpointing = True
    assert update_passes(config) == 4
    config.algorithm.engine_correction.old_log_probs = "recomputed"
    config.algorithm.kl.coefficient = 0.1
    assert update_passes(config) == 6
    config.algorithm.epochs_per_step = 2
    assert update_passes(config) == 10
    config.model.lora.rank = 8
    assert update_passes(config) == 2 * 3 + 2


def test_tokens_and_flop_of_a_step_by_hand(config):
    found = work(config)
    assert found.update_flop == 32 * (2 + 8) * forward_flop(TINY, 10) * 3
    assert found.rollout_flop == (32 * 8 + 8 * 2) * forward_flop(TINY, 10)
    assert found.generated_tokens == 10 * 32 * 8
    assert found.evaluations == 3
    assert found.seconds == pytest.approx(
        10 * (found.rollout_seconds + found.update_seconds) + 3 * found.evaluation_seconds
    )


def test_update_seconds_are_flop_over_the_share_of_the_peak(config):
    found = work(config)
    assert found.update_seconds == pytest.approx(found.update_flop / (989e12 * 0.35))
    config.runtime.gpus_per_run = 8
    assert work(config).update_seconds == pytest.approx(found.update_seconds / 8)


def test_decoding_reads_weights_and_cache_once_a_token(config):
    config.runtime.assumed.decode_overhead_ms = 0.0
    config.sampling.max_response_tokens = 8  # as long as the mean: nothing is left to one alone
    seven = from_config(SHAPES["qwen2.5-7b"])
    config.runtime.assumed.usable_memory = 1.0
    found = work(config, seven)
    read = 2 * seven.parameters + 32 * seven.cache_bytes(2 + 4)
    bytes_per_second = 3.35e12 * 0.5
    prefill = 32 * 2 * forward_flop(seven, 2) / (989e12 * 0.4)
    assert found.rollout_seconds == pytest.approx(8 * read / bytes_per_second + prefill)


def test_the_longest_response_goes_on_alone(config):
    config.runtime.assumed.decode_overhead_ms = 1.0
    short = work(config).rollout_seconds
    config.sampling.max_response_tokens = 1032
    # a thousand tokens of a millisecond
    assert work(config).rollout_seconds - short == pytest.approx(1.0, rel=1e-3)


def test_dynamic_sampling_multiplies_rollouts_within_its_rounds(config):
    assert groups_generated(config) == 1
    plain = work(config)
    config.algorithm.dead_groups.policy = "refill"
    assert work(config).generated_tokens == 3 * plain.generated_tokens
    assert work(config).rollout_seconds == pytest.approx(3 * plain.rollout_seconds)
    assert work(config).update_seconds == plain.update_seconds
    config.algorithm.dead_groups.max_rounds = 2
    assert groups_generated(config) == 2


def test_runs_that_share_a_gpu_share_its_rates(config):
    config.runtime.assumed.decode_overhead_ms = 0.0
    alone = work(config)
    config.runtime.runs_per_gpu = 2
    assert work(config).update_seconds == pytest.approx(2 * alone.update_seconds)
    assert work(config).rollout_seconds == pytest.approx(2 * alone.rollout_seconds)


def test_a_budget_of_tokens_ends_the_run_earlier(config):
    config.training.generated_tokens = 5 * 32 * 8
    assert work(config).steps == 5
    assert work(config).generated_tokens == 5 * 32 * 8


def test_evaluations_count_the_problems_of_the_sets(config):
    from harness.configuration.compose import compose_run

    config.evaluation = compose_run(["evaluation=dapo"]).evaluation
    found = work(config)
    assert found.evaluation_flop == 30 * 32 * 8 * forward_flop(TINY, 10)
    assert found.unknown_sets == ()
    config.evaluation.benchmarks["aime24"].limit = 10
    assert work(config).evaluation_flop == found.evaluation_flop / 3
    config.evaluation.benchmarks["aime24"].name = "mine"
    assert work(config).unknown_sets == ("aime24",)


def test_a_model_with_more_weights_decodes_more_slowly(config):
    def tokens_per_second(path: str) -> float:
        config.model.path = path
        fit = fit_of(config)
        assert fit is not None
        return run_estimate(config, fit).tokens_per_second

    rates = [tokens_per_second(f"Qwen/Qwen2.5-{size}") for size in ("0.5B", "1.5B", "7B", "32B")]
    assert rates == sorted(rates, reverse=True)
