"""SkyRL's keys beside ours, which `skyrl` reads in both directions; the sources stand there."""

from __future__ import annotations

import math
from typing import Any

from harness.exchange.dialects._declared import (
    BOUND,
    NO_CLIP,
    OVER_ONE,
    UNDER_ONE,
    Case,
    of,
)

ALGORITHM, POLICY = "trainer.algorithm", "trainer.policy"
OPTIMIZER, SAMPLING = f"{POLICY}.optimizer_config", "generator.sampling_params"
ADVANTAGE, SURROGATE, CORRECTION = "algorithm.advantage", "algorithm.surrogate", "algorithm.engine_correction"
OVERLONG = (
    f"{ALGORITHM}.overlong_buffer_len",
    f"{ALGORITHM}.overlong_buffer_penalty_factor",
)  # of its DAPO example
ALSO = ("data.val_data", *OVERLONG)
LOSS, REDUCTION, ESTIMATOR = (
    f"{ALGORITHM}.{name}" for name in ("policy_loss_type", "loss_reduction", "advantage_estimator")
)
STD, WHITE = f"{ALGORITHM}.grpo_norm_by_std", f"{ALGORITHM}.advantage_batch_normalize"
LOW, HIGH, DUAL = (f"{ALGORITHM}.{name}" for name in ("eps_clip_low", "eps_clip_high", "clip_ratio_c"))
CLIPS = ((LOW, f"{SURROGATE}.clip_low", BOUND), (HIGH, f"{SURROGATE}.clip_high"))
OFF = f"{ALGORITHM}.off_policy_correction"
TIS, MASK = f"{OFF}.tis_ratio_type", f"{OFF}.sequence_mask_metric"
SAMPLER, RECOMPUTED = (
    of(CORRECTION, old_log_probs="sampler"),
    of(CORRECTION, old_log_probs="recomputed"),
)
KL = (f"{ALGORITHM}.use_kl_loss", f"{ALGORITHM}.use_kl_in_reward")
PENALTY, KIND = f"{ALGORITHM}.kl_loss_coef", f"{ALGORITHM}.kl_estimator_type"
FILTER, SAMPLED = f"{ALGORITHM}.zero_variance_filter", f"{ALGORITHM}.dynamic_sampling.type"
PPO, TOKEN, SEQUENCE = (
    of(SURROGATE, kind="ppo_clip"),
    {"algorithm.importance_ratio": "token"},
    {"algorithm.importance_ratio": "sequence"},
)
GROUP = of(ADVANTAGE, kind="group")
EXACT = {f"{ADVANTAGE}.ddof": 1, f"{ADVANTAGE}.epsilon": 1e-6}


def _loss(name: str, kind: str, rows: Any = (), **more: Any) -> Case:
    """A policy loss by name, whose ratio is to the old policy and of tokens."""
    fields = {f"{SURROGATE}.{key}": value for key, value in more.items()}
    return Case({LOSS: name}, of(SURROGATE, kind=kind) | fields | TOKEN | RECOMPUTED, rows)


def _estimator(name: str, baseline: str, scale: str, more: Any = None, **theirs: Any) -> Case:
    keys = {f"{ALGORITHM}.{key}": value for key, value in theirs.items()}
    ours = GROUP | of(ADVANTAGE, baseline=baseline, scale=scale)
    return Case({ESTIMATOR: name, WHITE: False} | keys, ours | (more or {}))


CISPO, DPPO = f"{ALGORITHM}.cispo", f"{ALGORITHM}.dppo"
CAPS = (
    (f"{CISPO}.cispo_eps_clip_low", f"{SURROGATE}.cap_min", UNDER_ONE),
    (f"{CISPO}.cispo_eps_clip_high", f"{SURROGATE}.cap_max", OVER_ONE),
)  # fmt: skip
THRESHOLDS = (
    (f"{DPPO}.delta_low", f"{SURROGATE}.threshold_low"),
    (f"{DPPO}.delta_high", f"{SURROGATE}.threshold_high"),
)
CHOICES = {
    SURROGATE: (
        Case(
            {LOSS: "regular", LOW: 1.0, HIGH: NO_CLIP},
            of(SURROGATE, kind="policy_gradient", importance_weighted=True) | TOKEN | RECOMPUTED,
        ),
        _loss("regular", "ppo_clip", CLIPS, dual_clip=None),
        Case({LOSS: "gspo"}, PPO | of(SURROGATE, dual_clip=None) | SEQUENCE | RECOMPUTED, CLIPS),
        _loss("dual_clip", "ppo_clip", (*CLIPS, (DUAL, f"{SURROGATE}.dual_clip"))),
        Case(
            {LOSS: "cispo", f"{CISPO}.cispo_anchor": "rollout", TIS: None},
            of(SURROGATE, kind="clipped_is") | TOKEN | SAMPLER, CAPS,
        ),
        _loss("cispo", "clipped_is", CAPS),
        _loss("sapo", "soft_gate", ((f"{ALGORITHM}.sapo.tau_pos", f"{SURROGATE}.temperature_positive"),
                                    (f"{ALGORITHM}.sapo.tau_neg", f"{SURROGATE}.temperature_negative"))),
        Case(
            {LOSS: "clip_cov"}, of(SURROGATE, kind="clip_cov") | TOKEN | RECOMPUTED,
            (*CLIPS, (f"{ALGORITHM}.clip_cov.clip_ratio", f"{SURROGATE}.fraction"),
             (f"{ALGORITHM}.clip_cov.clip_cov_lb", f"{SURROGATE}.low"),
             (f"{ALGORITHM}.clip_cov.clip_cov_ub", f"{SURROGATE}.high")),
            lost="covariance and share of tokens are those of each micro-batch there, of the update here",
        ),
        Case(
            {LOSS: "kl_cov"}, of(SURROGATE, kind="kl_cov") | TOKEN | RECOMPUTED,
            ((f"{ALGORITHM}.kl_cov.kl_cov_frac", f"{SURROGATE}.fraction"), (f"{ALGORITHM}.kl_cov.ppo_kl_coef", f"{SURROGATE}.coefficient")),
            lost="covariance and share of tokens are those of each micro-batch there, and the penalty has no reduction; here of the update",
        ),
        *(
            Case(
                {LOSS: "dppo", f"{DPPO}.dppo_type": f"binary_{name}"},
                of(SURROGATE, kind="divergence_mask", divergence=name, cap=round(math.exp(20))) | TOKEN | SAMPLER,
                THRESHOLDS,
            )
            for name in ("tv", "kl")
        ),
        Case({LOSS: "importance_sampling"}, of(SURROGATE, kind="policy_gradient", importance_weighted=True) | RECOMPUTED),
        Case(
            {LOSS: "rollout_is"}, of(SURROGATE, kind="clipped_is") | TOKEN | SAMPLER, (),
            lost="tokens whose ratio to the sampler is outside the bounds have no gradient there; here it is cut",
        ),
    ),
    "algorithm.aggregation": (
        Case({REDUCTION: "token_mean"}, {"algorithm.aggregation.kind": "batch_token_mean"}),
        Case({REDUCTION: "sequence_mean"}, {"algorithm.aggregation.kind": "response_mean"}),
        Case({REDUCTION: "prompt_mean"}, {"algorithm.aggregation.kind": "group_token_mean"}),
        Case(
            {REDUCTION: "seq_mean_token_sum_norm"}, {"algorithm.aggregation.kind": "constant_sum"},
            [(f"{ALGORITHM}.max_seq_len", "algorithm.aggregation.constant_tokens")],
        ),
        Case(
            {REDUCTION: "token_mean_legacy"}, {"algorithm.aggregation.kind": "microbatch_token_mean"},
            [("trainer.micro_train_batch_size_per_gpu", "algorithm.aggregation.micro_batch_responses")],
        ),
    ),
    ADVANTAGE: (
        _estimator("grpo", "group_mean", "group_std", EXACT, grpo_norm_by_std=True),
        _estimator("grpo", "group_mean", "none", grpo_norm_by_std=False),
        _estimator("rloo", "leave_one_out", "none"),
        _estimator("maxrl", "group_mean", "group_mean", {f"{ADVANTAGE}.epsilon": 1e-6}),
        Case(
            {ESTIMATOR: "reinforce++", WHITE: False},
            of(ADVANTAGE, kind="return_to_go", baseline="none", whiten_over="tokens", ddof=1, epsilon=1e-8),
        ),
        Case(
            {ESTIMATOR: "gae", WHITE: False},
            of(ADVANTAGE, kind="gae", whiten_over="tokens", ddof=1, epsilon=1e-8, length_adaptive_alpha=None),
            [(f"{ALGORITHM}.gamma", f"{ADVANTAGE}.discount"), (f"{ALGORITHM}.lambd", f"{ADVANTAGE}.lambda_policy"),
             (f"{ALGORITHM}.lambd", f"{ADVANTAGE}.lambda_value"), (f"{ALGORITHM}.value_clip", f"{ADVANTAGE}.critic.value_clip"),
             ("trainer.critic.optimizer_config.lr", f"{ADVANTAGE}.critic.learning_rate"),
             ("trainer.critic.optimizer_config.max_grad_norm", f"{ADVANTAGE}.critic.max_gradient_norm")],
        ),
        Case({WHITE: True}, GROUP, lost="the batch's mean is over padding, too, there, and its deviation over tokens"),
    ),
    CORRECTION: (
        Case({TIS: None, MASK: None, f"{OFF}.token_mask_is_threshold_high": None}, of(CORRECTION, kind="none")),
        Case(
            {TIS: "token", MASK: None, f"{OFF}.token_mask_is_threshold_high": None}, of(CORRECTION, kind="token", floor=0.0),
            [(f"{OFF}.token_tis_ratio_clip_high", f"{CORRECTION}.cap")],
        ),
        Case(
            {TIS: "sequence", MASK: None, f"{OFF}.token_mask_is_threshold_high": None},
            of(CORRECTION, kind="sequence", floor=0.0), [(f"{OFF}.sequence_tis_ratio_clip_high", f"{CORRECTION}.cap")],
        ),
        Case(
            {TIS: None, MASK: "geometric", f"{OFF}.token_mask_is_threshold_high": None}, of(CORRECTION, kind="geometric_mask"),
            [(f"{OFF}.geo_mask_high", f"{CORRECTION}.cap"), (f"{OFF}.geo_mask_low", f"{CORRECTION}.floor")],
        ),
        Case(
            {TIS: "sequence", MASK: "product", f"{OFF}.sequence_tis_ratio_clip_high": NO_CLIP}, of(CORRECTION, kind="sequence_mask"),
            [(f"{OFF}.product_mask_high", f"{CORRECTION}.cap"), (f"{OFF}.product_mask_low", f"{CORRECTION}.floor")],
        ),
        Case(
            {TIS: "token", MASK: None, f"{OFF}.token_tis_ratio_clip_high": NO_CLIP}, of(CORRECTION, kind="token_mask"),
            [(f"{OFF}.token_mask_is_threshold_high", f"{CORRECTION}.cap"), (f"{OFF}.token_mask_is_threshold_low", f"{CORRECTION}.floor")],
        ),
    ),
    "algorithm.dead_groups": (
        Case(
            {SAMPLED: "filter"}, {"algorithm.dead_groups.policy": "refill", "algorithm.dead_groups.metric": "reward"},
            [(f"{ALGORITHM}.dynamic_sampling.max_sample_batches", "algorithm.dead_groups.max_rounds")],
        ),
        Case({SAMPLED: None, FILTER: True}, {"algorithm.dead_groups.policy": "drop", "algorithm.dead_groups.metric": "reward"}),
        Case({SAMPLED: None, FILTER: False}, {"algorithm.dead_groups.policy": "keep"}),
        Case({SAMPLED: "replace"}, {}, lost="dead groups are replaced by copies of live ones there"),
    ),
}  # fmt: skip
