"""verl's names that both directions use: Hydra keys of verl 0.9.1 and our members' counterparts."""

from __future__ import annotations

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
OPTIMIZER = f"{ACTOR}.optim"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
CORRECTION = "algorithm.rollout_correction"
FILTER = "algorithm.filter_groups"
AGGREGATION = {
    "response_mean": "seq-mean-token-mean",
    "batch_token_mean": "token-mean",
    "constant_sum": "seq-mean-token-sum-norm",
    "token_sum": "token-sum",
}
# Surrogate → its modes (by divergence), the aggregation that verl fixes for it, and our setting's name among the actor's keys.
LOSS_MODES: dict[str, tuple[dict[str, str], str | None, dict[str, str]]] = {
    "soft_gate": ({"": "sapo"}, "response_mean", {"temperature_positive": "tau_pos", "temperature_negative": "tau_neg"}),
    "geometric_mean": (
        {"": "geo_mean"}, "response_mean", {"clip_low": "clip_ratio_low", "clip_high": "clip_ratio_high"},
    ),
    "divergence_mask": (
        {"tv": "dppo_tv", "kl": "dppo_kl"}, None,
        {"threshold_low": "clip_ratio_low", "threshold_high": "clip_ratio_high", "cap": "clip_ratio_c"},
    ),
    "clip_cov": (
        {"": "clip_cov"}, None,
        {
            "clip_low": "clip_ratio_low", "clip_high": "clip_ratio_high", "fraction": "policy_loss.clip_cov_ratio",
            "low": "policy_loss.clip_cov_lb", "high": "policy_loss.clip_cov_ub",
        },
    ),
    "kl_cov": (
        {"": "kl_cov"}, None, {"fraction": "policy_loss.kl_cov_ratio", "coefficient": "policy_loss.ppo_kl_coef"},
    ),
}  # fmt: skip
SELECTION = ("clip_cov_ratio", "clip_cov_lb", "clip_cov_ub", "kl_cov_ratio", "ppo_kl_coef")
KL = {"k1": "kl", "k2": "mse", "k3": "low_var_kl", "k3_k2": "low_var_kl+"}
METRIC = {"accuracy": "acc", "reward": "reward"}
COMPONENTS = ("outcome", "format", "length")  # rewards that the decoupled estimator weighs
GDPO_KEYS, GDPO_WEIGHTS = "algorithm.gdpo_reward_keys", "algorithm.gdpo_reward_weights"
NO_CLIP = 1e9  # a bound that no ratio reaches
NO_FLOOR = 1e-9  # a weight that none falls below: verl cuts log-ratios at -20
EPSILON = 1e-6
WHITEN_EPSILON = 1e-8  # under the square root
DEVIATIONS = ("warmup_from_zero", "unbounded_refill", "selection_per_micro_batch")
