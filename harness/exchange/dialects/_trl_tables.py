"""TRL's tables, which both directions use: fields of `GRPOConfig` and our counterparts."""

from __future__ import annotations

from harness.configuration.algorithm import EntropyControl
from harness.exchange.dialects import IN_NO_TRAINER, Only

ME = "trl"
NO_CLIP = 1e9  # an upper bound that no ratio reaches
SAME = {
    "num_generations": "algorithm.responses_per_prompt",
    "num_iterations": "algorithm.epochs_per_step",
    "importance_sampling_level": "algorithm.importance_ratio",
    "entropy_coef": "algorithm.entropy_coefficient",
    "top_entropy_quantile": "algorithm.top_entropy_fraction",
    "off_policy_mask_threshold": "algorithm.off_policy_mask_nats",
    "learning_rate": "optimizer.learning_rate",
    "adam_beta1": "optimizer.beta1",
    "adam_beta2": "optimizer.beta2",
    "adam_epsilon": "optimizer.epsilon",
    "weight_decay": "optimizer.weight_decay",
    "max_grad_norm": "optimizer.max_gradient_norm",
    "max_completion_length": "sampling.max_response_tokens",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "top_k": "sampling.top_k",
}
SCALE = {"group_std": "group", "batch_reward_std": "batch", "none": "none"}
COMPONENTS = ("outcome", "format", "length")  # rewards that the decoupled estimator weighs
FIXED_AGGREGATION = {"sapo": "response_mean", "vespo": "batch_token_mean", "cispo": "batch_token_mean"}
CORRECTIONS = {"token": "token_truncate", "sequence": "sequence_truncate"}
CORRECTIONS |= {kind: kind for kind in ("token_mask", "sequence_mask")}
ONLY: Only = {
    **IN_NO_TRAINER,
    "sampling.lag_steps": (0, "GRPOTrainer samples from the newest policy"),
    "sampling.stop_strings": (
        [],
        "GRPOTrainer has no setting of its own for them; its generation_kwargs go to the engine as they are",
    ),
    "algorithm.dead_groups.policy": ("keep", "not supported in TRL: dead groups stay in the batch"),
    "algorithm.curriculum.kind": ("uniform", "TRL samples prompts uniformly"),
    "algorithm.source.kind": ("policy", "GRPOTrainer samples from the policy"),
    "algorithm.positive_nll_coefficient": (0.0, "TRL has no likelihood term"),
    "algorithm.entropy_control": (
        EntropyControl(),
        "TRL's use_adaptive_entropy moves the coefficient once an optimiser update by the current policy's entropy, here it is "
        "moved once a rollout step by the sampling policy's",
    ),
}
NORMALISATION: Only = {
    "algorithm.advantage.ddof": (1, "TRL's standard deviation is the sample form (ddof 1)"),
    "algorithm.advantage.epsilon": (1e-4, "TRL adds 0.0001"),
}
GROUP: Only = {
    "algorithm.advantage.baseline": ("group_mean", "GRPOTrainer subtracts the group mean (see RLOOTrainer)"),
}
BATCH: Only = {
    "algorithm.advantage.whiten_over": ("sequences", "TRL's standard deviation is over responses"),
}
DECOUPLED: Only = {
    "algorithm.advantage.batch_normalise": (True, "TRL always normalises the sum over the batch"),
}
CISPO: Only = {"algorithm.surrogate.cap_min": (0.0, "TRL's cispo has no lower cap")}
