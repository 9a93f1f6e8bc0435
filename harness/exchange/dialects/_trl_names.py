"""TRL's names that both directions use: `GRPOConfig` of TRL 1.16 and our members' counterparts."""

from __future__ import annotations

LOSS = {
    "response_mean": "grpo",
    "batch_token_mean": "dapo",
    "microbatch_token_mean": "bnpo",
    "constant_sum": "dr_grpo",
}
SMOOTH = {
    "soft_gate": (
        "sapo",
        "response_mean",
        {"temperature_positive": "sapo_temperature_pos", "temperature_negative": "sapo_temperature_neg"},
    ),
    "gamma_weight": (
        "vespo",
        "batch_token_mean",
        {
            "power_positive": "vespo_k_pos", "decay_positive": "vespo_lambda_pos",
            "power_negative": "vespo_k_neg", "decay_negative": "vespo_lambda_neg",
        },
    ),
}  # fmt: skip
SCALE = {"group_std": "group", "batch_reward_std": "batch", "none": "none"}
NO_CLIP = 1e9  # an upper bound that no ratio reaches
EPSILON = 1e-4
CORRECTIONS = {
    "token": "token_truncate",
    "token_mask": "token_mask",
    "sequence": "sequence_truncate",
    "sequence_mask": "sequence_mask",
}
