"""Settings in the words of a paper, for axes and ticks."""

from __future__ import annotations

import math
from typing import Any

_LABELS = {
    "algorithm": "algorithm",
    "algorithm.advantage.baseline": "advantage baseline",
    "algorithm.advantage.ddof": "degrees of freedom",
    "algorithm.advantage.scale": "advantage scale",
    "algorithm.aggregation": "loss aggregation",
    "algorithm.aggregation.kind": "loss aggregation",
    "algorithm.dead_groups.policy": "groups of equal rewards",
    "algorithm.entropy_coefficient": "entropy coefficient",
    "algorithm.epochs_per_step": "epochs per rollout step",
    "algorithm.importance_ratio": "importance ratio",
    "algorithm.kl.coefficient": "KL coefficient",
    "algorithm.kl.kind": "KL estimator",
    "algorithm.kl.placement": "place of the KL term",
    "algorithm.overlong.policy": "overlong responses",
    "algorithm.prompts_per_step": "prompts per rollout step",
    "algorithm.responses_per_prompt": "responses per prompt",
    "algorithm.surrogate.clip_high": "upper clip bound",
    "algorithm.surrogate.clip_low": "lower clip bound",
    "algorithm.updates_per_step": "updates per rollout step",
    "optimizer.learning_rate": "learning rate",
    "optimizer.max_gradient_norm": "gradient norm limit",
    "optimizer.warmup_steps": "warm-up, rollout steps",
    "optimizer.weight_decay": "weight decay",
    "sampling.lag_steps": "policy lag, rollout steps",
    "sampling.max_response_tokens": "response cap, tokens",
    "sampling.temperature": "sampling temperature",
    "sampling.top_p": "nucleus mass (top-p)",
    "training.generated_tokens": "generated tokens",
    "training.steps": "rollout steps",
}


def key_label(key: str) -> str:
    """Name a setting: ``upper clip bound``; one without an entry by the end of its key."""
    key = key.replace("/", ".")
    return _LABELS.get(key, key.rpartition(".")[2].replace("_", " "))


def value_label(value: Any) -> str:
    """Write a value of a setting, small numbers as powers of ten."""
    if not isinstance(value, float | int) or isinstance(value, bool):
        return str(value).replace("_", " ")
    if value == 0 or 1e-2 <= abs(value) < 1e5:
        return f"{value:g}"
    power = math.floor(math.log10(abs(value)))
    factor = f"{value / 10**power:g}"
    return f"$10^{{{power}}}$" if factor == "1" else f"${factor}\\times 10^{{{power}}}$"
