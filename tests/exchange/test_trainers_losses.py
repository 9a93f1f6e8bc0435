"""What is imported from a trainer has that trainer's gradient: its formulas, restated from its source, against our objective in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from imported import compose_once

from harness.configuration.registry import member
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Beside
from harness.objective.correction import engine_weights
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch, TokenBatch

Tensor = torch.Tensor
PROMPTS, SIZE, WIDTH = 4, 6, 9
ROWS = PROMPTS * SIZE


class Batch:
    """Random responses as rows of a padded matrix, all in one update."""

    def __init__(self, seed: int) -> None:
        rng = torch.Generator().manual_seed(seed)
        draw = lambda *shape: torch.randn(*shape, generator=rng, dtype=torch.float64)  # noqa: E731
        self.lengths = torch.randint(1, WIDTH + 1, (ROWS,), generator=rng)
        self.mask = torch.arange(WIDTH) < self.lengths[:, None]
        self.log_probs = -0.2 - draw(ROWS, WIDTH).abs()
        self.old = (self.log_probs + 0.4 * draw(ROWS, WIDTH)).clamp(max=-0.01)
        self.sampler = (self.old + 0.3 * draw(ROWS, WIDTH)).clamp(max=-0.01)
        self.reference = self.log_probs + 0.3 * draw(ROWS, WIDTH)
        self.rewards = (torch.rand(PROMPTS, SIZE, generator=rng) < 0.4).double()
        self.rewards[0] = torch.tensor(
            [1.0, 0, 0, 0, 0, 0]
        )  # the one right response: its fellows are all equal
        self.rewards[1] = 0.0  # a dead group

    def token_mean(self, values: Tensor) -> Tensor:
        return (values * self.mask).sum() / self.mask.sum()

    def response_means(self, values: Tensor) -> Tensor:
        return (values * self.mask).sum(1) / self.mask.sum(1)


def ours(config: RunConfig, batch: Batch) -> Tensor:
    """The gradient with respect to the log-probabilities."""
    algorithm, objective = config.algorithm, Objective(config.algorithm)
    group = torch.arange(PROMPTS).repeat_interleave(SIZE)
    counts = objective.count(batch.lengths, group)
    rollout = RolloutBatch(
        rewards_PG=algorithm.reward.wrong
        + batch.rewards * (algorithm.reward.correct - algorithm.reward.wrong),
        correct_PG=batch.rewards > 0,
        lengths_PG=batch.lengths.view(PROMPTS, SIZE),
        counted_PG=torch.ones(PROMPTS, SIZE, dtype=torch.bool),
    )
    correction = algorithm.engine_correction
    old = batch.sampler if correction.old_log_probs == "sampler" else batch.old
    weights = None
    if correction.kind != "none":
        weights = engine_weights(
            batch.old[batch.mask], batch.sampler[batch.mask], batch.lengths, correction.kind, correction.cap, correction.floor
        )  # fmt: skip
    leaf = batch.log_probs.clone().requires_grad_()
    loss, _ = objective(
        leaf[batch.mask],
        TokenBatch(
            lengths_R=batch.lengths,
            group_R=group,
            old_logprobs_N=old[batch.mask],
            advantages_N=objective.advantages(rollout, torch.float64),
            weights_R=objective.aggregation.response_weights(batch.lengths, group, counts),
            ref_logprobs_N=batch.reference[batch.mask] if objective.needs_reference else None,
            policy_weights_N=weights,
        ),
    )
    return torch.autograd.grad(loss, leaf)[0]


def group_advantages(rewards: Tensor, divide: bool, ddof: int, epsilon: float) -> Tensor:
    centred = rewards - rewards.mean(1, keepdim=True)
    if divide:
        centred = centred / (rewards.std(1, correction=ddof, keepdim=True) + epsilon)
    return centred.reshape(-1, 1)


def clipped(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    return torch.max(-advantages * ratio, -advantages * ratio.clamp(1 - low, 1 + high))


def open_instruct(log_probs: Tensor, batch: Batch, *, standard: bool, rho: tuple[float, float, float, float] | None, beta: float = 0.0,
                  estimator: int = 2, cispo: bool = False, denominator: float | None = None) -> Tensor:  # fmt: skip
    """open_instruct/grpo_utils.py: compute_rho_correction and compute_grpo_loss; data_loader.py: advantages of rewards 10 and 0."""
    advantages = group_advantages(10 * batch.rewards, standard, 0, 1e-8)
    ratio = (log_probs - batch.old).exp()
    loss = clipped(ratio, advantages, 0.2, 0.272)
    if cispo:
        loss = -advantages * ratio.detach().clamp(max=1.272) * log_probs
    if rho is not None:
        clamp_low, clamp_high, mask_low, mask_high = rho
        weight = (batch.old - batch.sampler).clamp(-10, 10).exp()
        dropped = (weight < mask_low) | (weight > (mask_high or torch.inf))
        loss = loss * weight.clamp(clamp_low, clamp_high or torch.inf).masked_fill(dropped, 0.0)
    x = log_probs - batch.reference
    loss = loss + beta * (x, x**2 / 2, torch.expm1(-x) + x)[estimator]
    return (loss * batch.mask).sum() / (batch.mask.sum() if denominator is None else denominator)


def skyrl(
    log_probs: Tensor, batch: Batch, loss: str, reduction: str, *, tis: float | None = None, kl: float = 0.0
) -> Tensor:
    """skyrl/backends/skyrl_train/utils/ppo_utils.py: losses over advantages that carry the reduction; workers/worker.py: the KL term."""
    mask = batch.mask.double()
    advantages = group_advantages(batch.rewards, True, 1, 1e-6).expand(ROWS, WIDTH)
    sizes = {
        "token_mean": mask.sum(), "sequence_mean": ROWS * mask.sum(1, keepdim=True), "seq_mean_token_sum_norm": torch.tensor(ROWS * 64.0),
        "prompt_mean": PROMPTS * mask.sum(1).view(PROMPTS, SIZE).sum(1).repeat_interleave(SIZE)[:, None],
    }  # fmt: skip
    advantages = advantages / sizes[reduction]
    ratio = (log_probs - batch.old).exp()
    terms = clipped(ratio, advantages, 0.2, 0.28)
    if loss == "dual_clip":
        terms = torch.where(advantages < 0, torch.min(-advantages * 3.0, terms), terms)
    if loss == "gspo":
        whole = batch.response_means(log_probs - batch.old)[:, None].detach()
        terms = clipped((log_probs - log_probs.detach() + whole).exp(), advantages, 0.2, 0.28)
    if loss == "cispo":
        terms = -advantages * ratio.detach().clamp(0.0, 5.0) * log_probs
    if loss == "sapo":
        tau = 1.0 + 0.05 * (advantages <= 0).double()
        terms = -advantages * torch.sigmoid(tau * (ratio - 1)) * 4 / tau
    if loss == "dppo":
        moved = log_probs.detach().exp() - batch.sampler.exp()
        out = ((advantages > 0) & (moved > 0.2)) | ((advantages < 0) & (-moved > 0.2))
        terms = -(log_probs - batch.sampler).exp() * advantages * ~out
    if tis is not None:
        terms = terms * (batch.old - batch.sampler).exp().clamp(max=tis)
    x = batch.reference - log_probs
    return (terms * mask).sum() + kl * batch.response_means(x.exp() - x - 1).mean()


def prime_rl(log_probs: Tensor, batch: Batch, algorithm: str) -> Tensor:
    """src/prime_rl/trainer/rl/loss.py: default_loss_fn with kl_tau=0; src/prime_rl/orchestrator/algo."""
    mean = batch.rewards.mean(1, keepdim=True)
    advantages = (batch.rewards - mean) / (mean.where(mean > 0, torch.inf) if algorithm == "max_rl" else 1.0)
    advantages = advantages.reshape(-1, 1)
    moved = log_probs.exp() - batch.sampler.exp()
    out = torch.where(advantages > 0, moved > 0.2, moved < -0.2)
    return batch.token_mean(-advantages * (log_probs - batch.sampler).exp() * ~out)


def nemo_advantages(rewards: Tensor, others: bool, ddof: int = 1) -> Tensor:
    """nemo_rl/algorithms/utils.py: calculate_baseline_and_std_per_prompt; a deviation of 0 divides nothing."""
    rows = []
    for group in rewards:
        for place, reward in enumerate(group):
            fellows = torch.cat([group[:place], group[place + 1 :]]) if others else group
            std = fellows.std(correction=ddof)
            centred = reward - fellows.mean()
            rows.append(centred / (std + 1e-6) if std > 0 else centred)
    return torch.stack(rows)[:, None]


def nemo_whitened(batch: Batch) -> Tensor:
    """nemo_rl/algorithms/advantage_estimator.py: ReinforcePlusPlusAdvantageEstimator."""
    centred = (batch.rewards - batch.rewards.mean(1, keepdim=True)).reshape(-1, 1).expand(ROWS, WIDTH)
    shifted = centred - batch.token_mean(centred)
    return shifted * batch.token_mean(shifted**2).clamp(min=1e-8).rsqrt()


def nemo_rl(log_probs: Tensor, batch: Batch, *, others: bool = True, sequence: bool = False, dual: float | None = None, cispo: bool = False,
            correction: tuple[str, float, float] | None = None, kl: float = 0.0, ratio: bool = True,
            whitened: bool = False) -> Tensor:  # fmt: skip
    """nemo_rl/algorithms/loss/loss_functions.py: ClippedPGLossFn."""
    advantages = nemo_whitened(batch) if whitened else nemo_advantages(batch.rewards, others)
    log_ratio = batch.response_means(log_probs - batch.old)[:, None] if sequence else log_probs - batch.old
    weights = log_ratio.exp()
    terms = clipped(weights, advantages, 0.2, 0.28)
    if not ratio:
        terms = -advantages * log_probs
    if cispo:
        terms = -advantages * weights.clamp(0.8, 1.28).detach() * log_probs
    if dual is not None:
        terms = torch.where(advantages < 0, torch.min(terms, -advantages * dual), terms)
    if correction is not None:
        kind, low, high = correction
        factor = (batch.old - batch.sampler).exp()
        factor = factor.clamp(low, high) if kind == "tis" else factor * ((factor >= low) & (factor <= high))
        terms = terms * factor
    x = batch.reference - log_probs
    penalty = kl * (log_probs - log_probs.detach()).exp() * (x.exp() - 1 - x)
    return batch.response_means(terms + penalty).mean() if sequence else batch.token_mean(terms + penalty)


OI = {
    "num_samples_per_prompt_rollout": SIZE,
    "num_unique_prompts_rollout": PROMPTS,
    "beta": 0.0,
    "async_steps": 1,
}
SKY, SKY_KL = "trainer.algorithm", {"trainer.algorithm.use_kl_loss": False}
HIGH = {
    f"{SKY}.eps_clip_high": 0.28,
    "trainer.train_batch_size": PROMPTS,
    "trainer.policy_mini_batch_size": PROMPTS,
}
OFF = f"{SKY}.off_policy_correction"
PRIME = {"trainer.loss.kl_tau": 0.0, "orchestrator.max_off_policy_steps": 0}
NEMO = {"loss_fn.ratio_clip_max": 0.28, "loss_fn.reference_policy_kl_penalty": 0.0}
TIS = {"loss_fn.use_importance_sampling_correction": True, "loss_fn.truncated_importance_sampling_ratio": 1.2}
CASES: dict[str, tuple[str, dict[str, Any], Callable[[Tensor, Batch], Tensor]]] = {
    "oi standard": (
        "open_instruct", OI | {"advantage_normalization_type": "standard"},
        lambda p, b: open_instruct(p, b, standard=True, rho=(0.0, 2.0, 0.0, 0.0)),
    ),
    "oi masked rho": (
        "open_instruct", OI | {"rho_clamp_upper_bound": 0.0, "rho_mask_lower_bound": 0.5, "rho_mask_upper_bound": 1.5},
        lambda p, b: open_instruct(p, b, standard=False, rho=(0.0, 0.0, 0.5, 1.5)),
    ),
    "oi k2": (
        "open_instruct", OI | {"beta": 0.05, "kl_estimator": 1},
        lambda p, b: open_instruct(p, b, standard=False, rho=(0, 2.0, 0, 0), beta=0.05, estimator=1),
    ),
    "oi k3, no correction": (
        "open_instruct", OI | {"beta": 0.05, "use_rho_correction": False},
        lambda p, b: open_instruct(p, b, standard=False, rho=None, beta=0.05),
    ),
    "oi cispo, constant": (
        "open_instruct", OI | {"loss_fn": "cispo", "loss_denominator": "500"},
        lambda p, b: open_instruct(p, b, standard=False, rho=(0.0, 2.0, 0.0, 0.0), cispo=True, denominator=500.0),
    ),
    **{
        f"skyrl {loss} {reduction}": (
            "skyrl",
            HIGH | SKY_KL | {f"{SKY}.policy_loss_type": loss, f"{SKY}.loss_reduction": reduction, f"{SKY}.max_seq_len": 64},
            lambda p, b, loss=loss, reduction=reduction: skyrl(p, b, loss, reduction),
        )
        for loss, reduction in (
            ("regular", "token_mean"), ("dual_clip", "seq_mean_token_sum_norm"), ("gspo", "sequence_mean"), ("cispo", "prompt_mean"),
            ("sapo", "sequence_mean"), ("dppo", "token_mean"),
        )
    },
    "skyrl tis": (
        "skyrl",
        HIGH | SKY_KL | {f"{OFF}.tis_ratio_type": "token", f"{OFF}.token_tis_ratio_clip_high": 1.2},
        lambda p, b: skyrl(p, b, "regular", "token_mean", tis=1.2),
    ),
    "skyrl kl": (
        "skyrl", HIGH | {f"{SKY}.loss_reduction": "sequence_mean", f"{SKY}.kl_loss_coef": 0.1},
        lambda p, b: skyrl(p, b, "regular", "sequence_mean", kl=0.1),
    ),
    "prime grpo": ("prime_rl", PRIME, lambda p, b: prime_rl(p, b, "grpo")),
    "prime max_rl": ("prime_rl", PRIME | {"orchestrator.algo.type": "max_rl"}, lambda p, b: prime_rl(p, b, "max_rl")),
    "nemo": ("nemo_rl", NEMO, nemo_rl),
    "nemo own mean, dual clip": (
        "nemo_rl", NEMO | {"grpo.use_leave_one_out_baseline": False, "loss_fn.ratio_clip_c": 3.0},
        lambda p, b: nemo_rl(p, b, others=False, dual=3.0),
    ),
    "nemo gspo": (
        "nemo_rl", NEMO | {"loss_fn.sequence_level_importance_ratios": True, "loss_fn.token_level_loss": False},
        lambda p, b: nemo_rl(p, b, sequence=True),
    ),
    "nemo reinforce++": ("nemo_rl", NEMO | {"grpo.adv_estimator.name": "reinforce_plus_plus"}, lambda p, b: nemo_rl(p, b, whitened=True)),
    "nemo cispo": ("nemo_rl", NEMO | {"loss_fn.use_cispo": True}, lambda p, b: nemo_rl(p, b, cispo=True)),
    "nemo reinforce": ("nemo_rl", NEMO | {"loss_fn.disable_ppo_ratio": True}, lambda p, b: nemo_rl(p, b, ratio=False)),
    "nemo tis": (
        "nemo_rl", NEMO | TIS | {"loss_fn.truncated_importance_sampling_type": "tis"},
        lambda p, b: nemo_rl(p, b, correction=("tis", 0.0, 1.2)),
    ),
    "nemo icepop": (
        "nemo_rl",
        NEMO | TIS | {"loss_fn.truncated_importance_sampling_type": "icepop", "loss_fn.truncated_importance_sampling_ratio_min": 0.9},
        lambda p, b: nemo_rl(p, b, correction=("icepop", 0.9, 1.2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_the_trainers(name: str) -> None:
    dialect, settings, theirs = CASES[name]
    translation = member("harness.exchange.dialects", dialect).overrides(settings, Beside(rows=1000))
    method = {key: value for key, value in translation.settings.items() if key.startswith("algorithm")}
    config = compose_once(*type(translation)(method).overrides())
    for seed in range(3):
        batch = Batch(seed)
        leaf = batch.log_probs.clone().requires_grad_()
        (expected,) = torch.autograd.grad(theirs(leaf, batch), leaf)
        torch.testing.assert_close(
            ours(config, batch), expected, rtol=1e-9, atol=1e-12, msg=lambda text: f"{name}: {text}"
        )


def test_nemo_rls_kl_term_is_ours_where_the_ratio_is_one() -> None:
    translation = member("harness.exchange.dialects", "nemo_rl").overrides(
        NEMO | {"loss_fn.reference_policy_kl_penalty": 0.1}, Beside(rows=1000)
    )
    method = {key: value for key, value in translation.settings.items() if key.startswith("algorithm")}
    config = compose_once(*type(translation)(method).overrides())
    batch = Batch(0)
    batch.old = batch.log_probs.clone()  # the first update of a step
    leaf = batch.log_probs.clone().requires_grad_()
    (expected,) = torch.autograd.grad(nemo_rl(leaf, batch, kl=0.1), leaf)
    torch.testing.assert_close(ours(config, batch), expected, rtol=1e-9, atol=1e-12)
