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
KL = {"k1": "kl", "k2": "mse", "k3": "low_var_kl", "k3_k2": "low_var_kl+"}
METRIC = {"accuracy": "acc", "reward": "reward"}
COMPONENTS = ("outcome", "format", "length")  # rewards that the decoupled estimator weighs
GDPO_KEYS, GDPO_WEIGHTS = "algorithm.gdpo_reward_keys", "algorithm.gdpo_reward_weights"
NO_CLIP = 1e9  # a bound that no ratio reaches
NO_FLOOR = 1e-9  # a weight that none falls below: verl cuts log-ratios at -20
EPSILON = 1e-6
WHITEN_EPSILON = 1e-8  # under the square root
DEVIATIONS = ("warmup_from_zero", "unbounded_refill")
