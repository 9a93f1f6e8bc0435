"""Optimiser updates: the gradient of the declared loss, whatever the batching, and exact skipping of what cannot matter."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import Bench, small_config

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.identity import identity
from harness.configuration.registry import kinds, member
from harness.configuration.schema import RunConfig
from harness.configuration.sections import AlgorithmConfig, EngineCorrectionConfig, EntropyControl
from harness.model.policy import NativePolicy
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch
from harness.rollout.engine import native, transformers
from harness.rollout.types import Completions
from harness.sampling.selection import Groups
from harness.training.grading import Tally
from harness.training.loop import collect, train
from harness.training.metrics import UpdateStats
from harness.training.step_data import NumericalFault
from harness.training.update import EntropyController, Updater, learning_rate

AGGREGATION = "harness.objective.aggregation"
VOCABULARY = 22  # of the testbed


def groups_of(lengths: list[list[int]], rewards: list[list[float]], cap: int = 12, seed: int = 0) -> Groups:
    """Groups of random tokens; a response is right where its reward is positive, cut where it has `cap` tokens."""
    lengths_PG, rewards_PG = torch.tensor(lengths), torch.tensor(rewards)
    rng, total = np.random.default_rng(seed), int(lengths_PG.sum())
    completions = Completions(
        tokens_N=torch.from_numpy(rng.integers(2, VOCABULARY, total)),
        log_probs_N=torch.from_numpy(rng.normal(-2.0, 0.3, total)).float(),
        entropy_N=torch.ones(total),
        lengths_R=lengths_PG.reshape(-1),
        finished_R=lengths_PG.reshape(-1) < cap,
    )
    correct = rewards_PG > 0
    return Groups(torch.arange(len(lengths)), completions, correct, torch.ones_like(correct), rewards_PG)


def random_groups(groups: int, size: int, seed: int = 0) -> tuple[Groups, list[list[int]]]:
    """Random responses with random lengths and rewards; one group all right, one all wrong, some truncated."""
    rng = np.random.default_rng(seed)
    lengths, correct = rng.integers(1, 13, (groups, size)), rng.random((groups, size)) < 0.5
    correct[0], correct[1] = True, False
    prompts = [rng.integers(2, VOCABULARY, 6 + i % 3).tolist() for i in range(groups)]
    return groups_of(lengths.tolist(), np.where(correct, 1.0, -1.0).tolist(), seed=seed), prompts


def exact_log_probs(folder: Path, groups: Groups, prompts: list[list[int]]) -> torch.Tensor:
    """Log-probabilities of the groups' responses under the base policy."""
    repeated = [prompt for prompt in prompts for _ in range(groups.correct_PG.shape[1])]
    with torch.no_grad():
        scored = NativePolicy.load(folder, "torch").token_log_probs(
            repeated, groups.completions.tokens_N, groups.completions.lengths_R
        )
    return scored[0]


def updater_of(config: RunConfig, folder: Path) -> Updater:
    return Updater(config, NativePolicy.load(folder, "torch"), Objective(config.algorithm))


def flat_gradient(policy: NativePolicy) -> torch.Tensor:
    return torch.cat([p.grad.reshape(-1) for p in policy.parameters() if p.grad is not None])


def gradient(
    config: RunConfig, folder: Path, groups: Groups, prompts: list[list[int]], tokens: int = 4096, skips: bool = True
) -> tuple[torch.Tensor, float]:
    """The gradient of one update over all groups (nothing is clipped, no step is taken), and the loss; micro-batches of so many tokens."""
    config.algorithm.prompts_per_step, config.algorithm.updates_per_step = len(groups), 1
    config.optimizer.max_gradient_norm = 1e9
    config.runtime.micro_batch_tokens = tokens
    updater = updater_of(config, folder)
    updater.objective.skips_zero_advantage &= skips
    updater.optimizer.step = lambda *_: None  # type: ignore[method-assign, assignment]
    stats = updater.update_step(1, groups, prompts)
    return flat_gradient(updater.policy).clone(), stats.losses[0]


def score_centering() -> tuple[RunConfig, Groups, list[list[int]], torch.Tensor]:
    """A configuration, random responses with their prompts, and random distributions of the sampler at their tokens."""
    config = small_config(algorithm=copy.deepcopy(compose_run(["algorithm=score_centering_truncated"]).algorithm))
    groups, prompts = random_groups(6, 4)
    shape = len(groups.completions.tokens_N), VOCABULARY
    noise_NV = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return config, groups, prompts, (2 * noise_NV).log_softmax(-1)


def head_gradient(folder: Path, head: int, tokens: int = 4096) -> torch.Tensor:
    """The gradient of score centering on the `head` likeliest tokens."""
    config, groups, prompts, q_NV = score_centering()
    config.algorithm.surrogate.head, made = head, groups.completions
    made.log_probs_N = q_NV.gather(-1, made.tokens_N[:, None])[:, 0]
    made.head_log_probs_NK, places_NK = q_NV.topk(head, -1)
    made.head_NK = places_NK.int()
    return gradient(config, folder, groups, prompts, tokens)[0]


def centred_gradient(folder: Path) -> torch.Tensor:
    """The same over the whole vocabulary, written out: the token mean of A (Σ_v sg(q f) log p - f(p/q) log p(a)), f cut at 2."""
    config, groups, prompts, q_NV = score_centering()
    made, policy = groups.completions, NativePolicy.load(folder, "torch")
    rows = [prompt for prompt in prompts for _ in range(4)]
    hidden_NE = policy.response_hidden(rows, made.tokens_N, made.lengths_R)
    p_NV = policy.decoder.logits(hidden_NE).log_softmax(-1)
    counted = torch.ones_like(groups.correct_PG)
    batch = RolloutBatch(groups.rewards_PG, groups.correct_PG, groups.lengths_PG, counted)
    advantages_N = Objective(config.algorithm).advantages(batch)
    weights_NV = (p_NV - q_NV).detach().exp().clamp(max=2.0)
    score_NV = weights_NV * p_NV
    mean_N = (q_NV.exp() * score_NV).sum(-1)
    (advantages_N * (mean_N - score_NV.gather(-1, made.tokens_N[:, None])[:, 0])).mean().backward()
    return flat_gradient(policy)


def test_a_head_of_the_whole_vocabulary_has_the_exact_gradient(base_policy: Path) -> None:
    exact = centred_gradient(base_policy)
    torch.testing.assert_close(
        head_gradient(base_policy, VOCABULARY), exact, rtol=1e-4, atol=1e-6 * float(exact.abs().max())
    )
    distance = [float((head_gradient(base_policy, head) - exact).norm() / exact.norm()) for head in (1, 4, 12)]
    assert distance[0] > distance[1] > distance[2] > 0
    few = [head_gradient(base_policy, 4, tokens) for tokens in (4096, 64)]
    torch.testing.assert_close(*few, rtol=1e-4, atol=1e-6 * float(exact.abs().max()))


@pytest.mark.parametrize("kind", sorted(kinds(AGGREGATION)))
def test_the_gradient_does_not_depend_on_micro_batches(base_policy: Path, kind: str) -> None:
    config = small_config(algorithm__aggregation=member(AGGREGATION, kind).Config())
    groups, prompts = random_groups(6, 4)
    whole, loss = gradient(config, base_policy, groups, prompts)
    split, split_loss = gradient(config, base_policy, groups, prompts, tokens=25)
    assert float(whole.norm()) > 0
    torch.testing.assert_close(split, whole, atol=1e-6, rtol=1e-4)
    assert loss == pytest.approx(split_loss, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("policy", ["score", "mask"])
def test_the_gradient_is_that_of_the_loss_written_out(base_policy: Path, policy: str) -> None:
    """GRPO by the definition, response by response, without any of the machinery: mean_i (1/len_i) Σ_t -min(ρA, clip(ρ)A)."""
    config = small_config(algorithm__overlong__policy=policy)
    groups, prompts = random_groups(5, 4, seed=1)
    actual, loss = gradient(config, base_policy, groups, prompts)

    model = NativePolicy.load(base_policy, "torch")
    rewards = groups.rewards_PG.double()
    z = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)
    terms, responses = [], groups.completions.token_lists()
    old = groups.completions.log_probs_N.split(groups.completions.lengths_R.tolist())
    for i, tokens in enumerate(responses):
        if policy == "mask" and not groups.completions.finished_R[i]:
            continue
        ids = torch.tensor([prompts[i // 4] + tokens])
        logits = model.decoder.logits(model.decoder.hidden_states(ids[:, :-1]))
        scores = logits.log_softmax(-1)[len(prompts[i // 4]) - 1 :]
        log_probs = scores.gather(-1, torch.tensor(tokens)[:, None])[:, 0]
        ratio, advantage = (log_probs - old[i]).exp(), z.reshape(-1)[i].float()
        gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        terms.append(-gain.mean() / len(responses))
    total = torch.stack(terms).sum()
    total.backward()
    expected = flat_gradient(model)
    assert loss == pytest.approx(float(total.detach()), abs=1e-5)
    torch.testing.assert_close(actual, expected, atol=2e-6, rtol=1e-3)


def test_skipping_dead_responses_changes_nothing(base_policy: Path) -> None:
    groups, prompts = random_groups(6, 4, seed=2)
    skipping, loss = gradient(small_config(), base_policy, groups, prompts)
    full, full_loss = gradient(small_config(), base_policy, groups, prompts, skips=False)
    torch.testing.assert_close(skipping, full, atol=1e-7, rtol=1e-5)
    assert loss == pytest.approx(full_loss, abs=1e-7)


def test_an_update_without_gradient_still_counts_and_decays_momentum(base_policy: Path) -> None:
    config = small_config(algorithm__prompts_per_step=2, algorithm__updates_per_step=1)
    groups, prompts = random_groups(2, 4)  # the first is all right, the second all wrong
    updater = updater_of(config, base_policy)
    stats = updater.update_step(1, groups, prompts)
    assert (stats.updates, stats.gradient_groups, stats.gradient_norms) == (1, 0, [0.0])


# 2 steps of warm-up, then 4 from 1 to a fifth: 1 - 0.8 x (0, 1/4, 1/2, 3/4), or of a cosine
@pytest.mark.parametrize(
    ("decay", "rates"),
    [
        ("none", [0.5, 1, 1, 1, 1, 1]),
        ("linear", [0.5, 1, 1, 0.8, 0.6, 0.4]),
        ("cosine", [0.5, 1, 1, 0.882843, 0.6, 0.317157]),
    ],
)
def test_the_learning_rate_falls_from_the_warm_up_to_the_last_step(decay: str, rates: list[float]) -> None:
    settings = {"warmup_steps": 2, "learning_rate": 1.0, "decay": decay, "final_share": 0.2}
    config = small_config(**{f"optimizer__{key}": value for key, value in settings.items()}, training__steps=6)
    assert [learning_rate(config, step) for step in range(1, 7)] == pytest.approx(rates)


def test_a_gradient_that_is_not_finite_stops_the_run(base_policy: Path) -> None:
    groups, prompts = random_groups(4, 4)
    groups.completions.log_probs_N[:] = -float("inf")
    config = small_config(algorithm__prompts_per_step=4, algorithm__updates_per_step=1)
    updater = updater_of(config, base_policy)
    with pytest.raises(NumericalFault, match=r"optimizer\.learning_rate"):
        updater.update_step(1, groups, prompts)


@pytest.mark.parametrize(("shift", "cap", "factor"), [(0.0, 2.0, 1.0), (0.1, 2.0, 1.1051709), (0.5, 1.25, 1.25)])
def test_truncated_importance_weights_multiply_by_trainer_over_sampler_up_to_the_cap(
    base_policy: Path, shift: float, cap: float, factor: float
) -> None:
    """A sampler that is `shift` nats below the trainer on every token: weight min(e^shift, cap), ratio 1 (Olmo 3, §4.4.1)."""
    groups, prompts = random_groups(4, 4, seed=5)
    groups.completions.log_probs_N = exact = exact_log_probs(base_policy, groups, prompts)
    plain, _ = gradient(small_config(), base_policy, groups, prompts)
    groups.completions.log_probs_N = exact - shift
    config = small_config()
    config.algorithm.engine_correction = EngineCorrectionConfig("token", cap, "recomputed")
    corrected, _ = gradient(config, base_policy, groups, prompts)
    torch.testing.assert_close(corrected, plain * factor, atol=1e-6, rtol=1e-3)


def test_the_coefficient_by_hand() -> None:
    control = EntropyControl(target_nats=0.2, step=0.1, maximum=0.25)
    controller = EntropyController(AlgorithmConfig(entropy_control=control))
    seen = [controller.observe(entropy) for entropy in (0.1, 0.1, 0.1, 0.3, 0.1, 0.2, 0.3, 0.3)]
    # held: 0.1, 0.2, 0.25 (maximum), 0.15, 0.25, 0.15 (at the target it falls), 0.05, 0 (minimum); used below the target only
    assert seen == pytest.approx([0.1, 0.2, 0.25, 0, 0.25, 0, 0, 0])
    assert controller.value == 0
    later = EntropyController(AlgorithmConfig(entropy_control=control))
    later.value = 0.2
    assert later.observe(0.0) == pytest.approx(0.25)


def test_a_controller_is_part_of_the_identity_where_it_has_a_target() -> None:
    assert "entropy_control" not in identity(compose_run([]))["algorithm"]
    assert "entropy_control" in identity(compose_run(["algorithm=adaptive_entropy"]))["algorithm"]


def test_the_coefficient_in_use_is_recorded_and_trains(bench: Bench) -> None:
    control = EntropyControl(target_nats=100.0, step=0.01, maximum=0.025)
    moving = small_config(training__steps=3, algorithm__entropy_control=control)
    steps = bench.trained(moving, "a").run.steps()
    assert steps["entropy_coefficient"].tolist() == pytest.approx([0.01, 0.02, 0.025])
    assert (steps["entropy_share"] > 0).all()
    # the first step is that of a constant coefficient of the same size
    constant = small_config(training__steps=1, algorithm__entropy_coefficient=0.01)
    first = bench.trained(constant, "b").run.steps()
    assert first["loss"][0] == steps["loss"][0]
    assert first["gradient_norm"][0] == steps["gradient_norm"][0]
    assert "entropy_coefficient" not in first.columns


@pytest.mark.parametrize(("every", "equal_after"), [(None, []), (1, [1, 2, 3]), (2, [2])])
def test_the_reference_is_the_policy_right_after_a_reset(
    bench: Bench, every: int | None, equal_after: list[int]
) -> None:
    kl = member("harness.objective.kl", "k3").Config(coefficient=0.1, reset_every_steps=every)
    config = small_config(training__steps=3, algorithm__kl=kl)
    # always something to learn
    config.algorithm.advantage.baseline = config.algorithm.advantage.scale = "none"
    trainer = bench.trainer(config)
    equal, fresh = dict[int, bool](), dict[int, bool]()

    def look() -> bool:
        reference = trainer.updater.reference
        assert reference is not None
        pairs = zip(trainer.policy.parameters(), reference.parameters(), strict=True)
        equal[trainer.progress.step] = all(torch.equal(a, b) for a, b in pairs)
        fresh[trainer.progress.step] = not trainer.updater.optimizer.state
        return False

    assert train(trainer, look, attempt=0)
    assert [step for step, same in equal.items() if same] == [0, *equal_after]
    assert fresh == equal


@pytest.mark.parametrize(("above", "clipped"), [(-1e-3, 1), (0.0, 1), (1e-3, 0)])
def test_an_update_counts_as_clipped_where_it_is(base_policy: Path, above: float, clipped: int) -> None:
    """torch scales by limit / (norm + 1e-6): a norm that equals the limit is scaled, too."""
    groups, prompts = random_groups(4, 4)
    norms = []
    for limit in (1e9, None):
        config = small_config(algorithm__prompts_per_step=4, algorithm__updates_per_step=1)
        config.optimizer.max_gradient_norm = limit or norms[0] + above
        stats = updater_of(config, base_policy).update_step(1, groups, prompts)
        norms += stats.gradient_norms
    assert stats.clipped_updates == clipped


@pytest.mark.parametrize("engine", [native.Config(), transformers.Config()])
def test_the_longest_prompt_and_the_cap_must_fit(bench: Bench, engine: object) -> None:
    positions = NativePolicy.load(bench.base, "torch").decoder.shape.max_positions
    config = small_config(engine=engine, sampling__max_response_tokens=positions - 3)
    said = rf"the prompt of training problem \S+ has \d+ tokens.* {positions} positions"
    with pytest.raises(ConfigError, match=said):
        bench.trained(config)


@pytest.mark.parametrize("top_p", [1.0, 0.7])
def test_ratios_of_a_filtered_sampler_are_one_to_the_trainers_own_log_probs(bench: Bench, top_p: float) -> None:
    config = small_config(sampling__top_p=top_p, algorithm__engine_correction__old_log_probs="recomputed")
    parts = bench.trainer(config)
    groups = collect(parts, 1, Tally()).kept
    prompts = [parts.prompts[i] for i in groups.problems_P.tolist()]
    data, _ = parts.updater._prepare(groups, prompts, UpdateStats())
    scores_N, _ = parts.updater.score(parts.policy, data)
    assert torch.equal((scores_N - data.old_logprobs_N).exp(), torch.ones_like(scores_N))
