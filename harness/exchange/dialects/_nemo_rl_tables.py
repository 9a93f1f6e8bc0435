"""NeMo-RL's keys beside ours, which `nemo_rl` reads in both directions; the sources stand there."""

from __future__ import annotations

from typing import Any

from harness.exchange.dialects._declared import (
    BOUND,
    NO_CLIP,
    NULL_OFF,
    OVER_ONE,
    UNCAPPED,
    UNDER_ONE,
    Case,
    of,
)

LOSS, GRPO, POLICY = "loss_fn", "grpo", "policy"
ADVANTAGE, SURROGATE, CORRECTION = "algorithm.advantage", "algorithm.surrogate", "algorithm.engine_correction"
TORCH, MEGATRON = f"{POLICY}.optimizer.kwargs", f"{POLICY}.megatron_cfg.optimizer"
ALSO = (f"{POLICY}.generation.max_new_tokens", f"{GRPO}.reward_shaping.max_response_length")
RATIO, TYPE = f"{LOSS}.truncated_importance_sampling_ratio", f"{LOSS}.truncated_importance_sampling_type"
ON, SEQUENCE = f"{LOSS}.use_importance_sampling_correction", f"{LOSS}.sequence_level_importance_ratios"
BOUNDS = ((RATIO, f"{CORRECTION}.cap", UNCAPPED), (f"{RATIO}_min", f"{CORRECTION}.floor", NULL_OFF))
NAME, NORMALISED, OTHERS = (
    f"{GRPO}.adv_estimator.name", f"{GRPO}.normalize_rewards", f"{GRPO}.use_leave_one_out_baseline",
)  # fmt: skip
MINUS = f"{GRPO}.adv_estimator.minus_baseline"
LOW, HIGH, DUAL = (f"{LOSS}.ratio_clip_{name}" for name in ("min", "max", "c"))
PLAIN = {
    f"{LOSS}.use_cispo": False,
    f"{LOSS}.disable_ppo_ratio": False,
    f"{LOSS}.force_on_policy_ratio": False,
}
REINFORCE = of(SURROGATE, kind="policy_gradient", importance_weighted=False)
GROUP = of(ADVANTAGE, kind="group")
WHITENED = of(ADVANTAGE, scale="batch_whiten", whiten_over="tokens", ddof=0, epsilon=0.0)
DYNAMIC = f"{GRPO}.use_dynamic_sampling"


def _advantage(name: str, normalised: bool, others: bool) -> Case:
    baseline = "leave_one_out" if others else "group_mean"
    scale = ("others_std" if others else "group_std") if normalised else "none"
    exact = {f"{ADVANTAGE}.epsilon": 1e-6, f"{ADVANTAGE}.ddof": 1} if normalised else {}
    return Case(
        {NAME: name, NORMALISED: normalised, OTHERS: others},
        GROUP | of(ADVANTAGE, baseline=baseline, scale=scale) | exact,
    )


def _weights(kind: str, level: str) -> dict[str, Any]:
    return of(CORRECTION, kind=kind) | {"algorithm.importance_ratio": level}


CHOICES = {
    SURROGATE: (
        Case(
            {f"{LOSS}.use_cispo": True, DUAL: None}, of(SURROGATE, kind="clipped_is"),
            [(LOW, f"{SURROGATE}.cap_min", UNDER_ONE), (HIGH, f"{SURROGATE}.cap_max", OVER_ONE)],
        ),
        Case({**PLAIN, f"{LOSS}.disable_ppo_ratio": True, DUAL: None}, REINFORCE),
        Case({**PLAIN, f"{LOSS}.force_on_policy_ratio": True}, REINFORCE),
        Case(
            {**PLAIN, LOW: 1.0, HIGH: NO_CLIP, DUAL: None},
            of(SURROGATE, kind="policy_gradient", importance_weighted=True),
        ),
        Case(
            PLAIN, of(SURROGATE, kind="ppo_clip"),
            [(LOW, f"{SURROGATE}.clip_low", BOUND), (HIGH, f"{SURROGATE}.clip_high"), (DUAL, f"{SURROGATE}.dual_clip")],
        ),
    ),
    "algorithm.importance_ratio": (
        Case({SEQUENCE: True}, {"algorithm.importance_ratio": "sequence"}),
        Case({SEQUENCE: False}, {"algorithm.importance_ratio": "token"}),
    ),
    "algorithm.aggregation": (
        Case({f"{LOSS}.token_level_loss": True}, {"algorithm.aggregation.kind": "batch_token_mean"}),
        Case({f"{LOSS}.token_level_loss": False}, {"algorithm.aggregation.kind": "response_mean"}),
    ),
    ADVANTAGE: (
        *(_advantage("grpo", normalised, others) for normalised in (True, False) for others in (True, False)),
        Case({NAME: "reinforce_plus_plus", MINUS: True}, GROUP | of(ADVANTAGE, baseline="group_mean") | WHITENED),
        Case({NAME: "reinforce_plus_plus", MINUS: False}, GROUP | of(ADVANTAGE, baseline="none") | WHITENED),
        Case({NAME: "gdpo"}, of(ADVANTAGE, kind="decoupled"), lost="rewards there are the environment's own"),
    ),
    CORRECTION: (  # the ratio's level stands in a case for the way there: each level has weights of its own
        Case({ON: False}, of(CORRECTION, kind="none")),
        Case({ON: True, SEQUENCE: True, TYPE: "icepop"}, _weights("sequence_mask", "sequence"), BOUNDS),
        Case({ON: True, SEQUENCE: True, TYPE: "tis"}, _weights("sequence", "sequence"), BOUNDS),
        Case({ON: True, SEQUENCE: True, TYPE: None}, of(CORRECTION, kind="sequence"), BOUNDS[:1], lost="weights are not cut there"),
        Case({ON: True, SEQUENCE: False, TYPE: "icepop"}, _weights("token_mask", "token"), BOUNDS),
        Case({ON: True, SEQUENCE: False, TYPE: "tis"}, _weights("token", "token"), BOUNDS),
        Case({ON: True, SEQUENCE: False, TYPE: None}, of(CORRECTION, kind="token", floor=0.0), BOUNDS[:1]),
        Case(
            {TYPE: "seq-mask-tis", ON: True}, of(CORRECTION, kind="geometric_mask"), BOUNDS,
            lost="responses that stay have their tokens' own weights there, 1 here",
        ),
    ),
    "algorithm.dead_groups": (
        Case(
            {DYNAMIC: True}, {"algorithm.dead_groups.policy": "refill", "algorithm.dead_groups.metric": "accuracy"},
            [(f"{GRPO}.dynamic_sampling_max_gen_batches", "algorithm.dead_groups.max_rounds")],
        ),
        Case({DYNAMIC: False}, {"algorithm.dead_groups.policy": "keep"}),
        Case({DYNAMIC: None}, {}),
    ),
}  # fmt: skip
