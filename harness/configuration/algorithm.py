"""The training algorithm as orthogonal choices."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.families import (
    ADVANTAGE,
    AGGREGATION,
    CURRICULUM,
    KL,
    SOURCE,
    SURROGATE,
    family,
    neutral,
)
from harness.configuration.limits import Checked, choice, ranged
from harness.configuration.user_code import source_hash

CORRECTIONS = ("none", "token", "token_mask", "sequence", "sequence_mask", "geometric_mask")


@dataclass
class RewardConfig(Checked, key="algorithm.reward"):
    """Outcome reward.

    Attributes:
        correct: the reward of a right answer.
        wrong: the reward of a wrong answer, or of none.
        format_credit: added whenever an answer could be extracted.
        true_positive: chance that a right answer of a training response is taken for right (a verifier that errs; evaluation keeps
            the exact one).
        false_positive: chance that a wrong one is. Equal rates are a random reward.
        function: `FILE.py:NAME` or `package.module:NAME`, a function of one's own that scores training responses instead of the
            verifier (`harness.reward.function`). Its file's content, not its path, is part of a run's identity.
    """

    correct: float = 1.0
    wrong: float = -1.0
    format_credit: float = 0.0
    true_positive: float = ranged(1.0, low=0.0, high=1.0, neutral=True)
    false_positive: float = ranged(0.0, low=0.0, high=1.0, neutral=True)
    function: str = neutral("")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.function and not self._certain:
            raise ConfigError(
                "algorithm.reward.function takes no true_positive or false_positive: let it err by itself"
            )

    @property
    def exact(self) -> bool:
        """Say if training sees the verifier's own verdicts."""
        return self._certain and not self.function

    @property
    def _certain(self) -> bool:
        return self.true_positive == 1.0 and self.false_positive == 0.0

    def identity(self) -> dict[str, Any]:
        """Return what a run's id holds: the content of a function's file instead of its path."""
        values = {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if not (item.metadata.get("neutral") and getattr(self, item.name) == item.default)
        }
        return values | ({"function": source_hash(self.function)} if self.function else {})


@dataclass
class OverlongConfig(Checked, key="algorithm.overlong"):
    """Treatment of responses that reach the token cap.

    Attributes:
        policy: score (as the verifier says), wrong (truncated responses earn `reward.wrong`), mask (no loss on truncated responses), soft
            (length penalty), mask_and_soft.
        buffer_fraction: the soft penalty ramps from 0 to `penalty` over the last fraction of the cap (DAPO Eq. 13: L_cache / L_max).
        penalty: full penalty at the cap, a positive number.
        shape: additive (reward - penalty·ramp, DAPO) or multiplicative (reward · max(0, 1 - penalty·ramp), as one text tells it).
        statistics: keep or exclude masked responses in the group's mean and standard deviation.
    """

    policy: str = choice("score", of=("score", "wrong", "mask", "soft", "mask_and_soft"))
    buffer_fraction: float = ranged(0.25, low=1e-6, high=1.0)
    penalty: float = ranged(1.0, low=0.0)
    shape: str = choice("additive", of=("additive", "multiplicative"))
    statistics: str = choice("keep", of=("keep", "exclude"))

    @property
    def masks(self) -> bool:
        """Say if truncated responses carry no loss."""
        return self.policy in ("mask", "mask_and_soft")

    @property
    def punishes(self) -> bool:
        """Say if the soft length penalty is on."""
        return self.policy in ("soft", "mask_and_soft")


@dataclass
class DeadGroupsConfig(Checked, key="algorithm.dead_groups"):
    """Treatment of groups without contrast.

    Attributes:
        policy: keep (zero gradient, counted in denominators), drop (removed), refill (dynamic sampling: removed and replaced).
        metric: dead by accuracy (all right or all wrong; DAPO) or by reward (all shaped rewards equal).
        max_rounds: rollout rounds a step at most, the first included; then the step trains on what it has.
        surplus: live groups beyond the batch are discarded (DAPO's recipe) or carried to the next step's batch.
    """

    policy: str = choice("keep", of=("keep", "drop", "refill"))
    metric: str = choice("accuracy", of=("accuracy", "reward"))
    max_rounds: int = ranged(4, low=1)
    surplus: str = choice("discard", of=("discard", "carry"))


@dataclass
class EngineCorrectionConfig(Checked, key="algorithm.engine_correction"):
    """Correction for a sampler whose log-probabilities differ from the trainer's.

    Attributes:
        kind: none; token (importance weight w = π_train / π_sampler, cut to floor and cap, on each token's loss); token_mask (w between
            floor and cap, else 0); sequence and sequence_mask (the same with the response's product for each of its tokens);
            geometric_mask (1 where the response's geometric mean of w is between floor and cap, else 0).
        cap: the largest weight.
        old_log_probs: sampler (the rollout's own) or recomputed (one more forward before the first update).
        floor: the smallest weight.
    """

    kind: str = choice("none", of=CORRECTIONS)
    cap: float = ranged(2.0, low=1.0)
    old_log_probs: str = choice("sampler", of=("sampler", "recomputed"))
    floor: float = ranged(0.0, low=0.0, high=1.0, neutral=True)


@dataclass
class EntropyControl(Checked, key="algorithm.entropy_control"):
    """An entropy coefficient that follows the entropy.

    Attributes:
        target_nats: entropy a token below which the coefficient rises and the bonus is on, null: `entropy_coefficient` stays as it is.
        step: by which the coefficient rises, or falls, each rollout step.
        maximum: of the coefficient; its minimum is 0.
    """

    target_nats: float | None = ranged(None, low=0.0)
    step: float = ranged(1e-4, low=0.0)
    maximum: float = ranged(5e-3, low=0.0)


@dataclass
class AlgorithmConfig(Checked, key="algorithm"):
    """One training algorithm as orthogonal choices.

    Attributes:
        advantage: estimator (baseline and scale).
        importance_ratio: token, or sequence (GSPO's length-normalised ratio).
        surrogate: what is done with ratio and advantage.
        aggregation: the loss's denominators.
        kl: estimator, coefficient, placement.
        entropy_coefficient: entropy bonus; where it starts if `entropy_control` moves it.
        positive_nll_coefficient: weight of the language-model loss on correct responses (VAPO Eq. 12).
        reward: outcome values.
        overlong: policy for responses at the cap.
        dead_groups: policy for groups without contrast.
        curriculum: which training problems are drawn.
        source: where training responses come from: the policy itself, its initial state, or demonstrations.
        engine_correction: sampler/trainer mismatch.
        prompts_per_step: prompts (groups) trained on in a rollout step.
        responses_per_prompt: group size G.
        updates_per_step: optimiser updates per epoch over a step's groups; each update gets whole groups.
        epochs_per_step: passes over a step's groups.
        top_entropy_fraction: share of a step's loss tokens, those of highest entropy, that have a policy gradient (1: all).
        off_policy_mask_nats: responses with a negative advantage lose their policy gradient once the mean of log π_sampler - log π over
            their tokens exceeds this; null: none.
        entropy_control: moves the entropy coefficient.
        advantage_sign: both, positive (only responses better than their baseline have a policy gradient) or negative (only worse ones).
    """

    advantage: Any = family(ADVANTAGE, "group")
    importance_ratio: str = choice("token", of=("token", "sequence"))
    surrogate: Any = family(SURROGATE, "ppo_clip")
    aggregation: Any = family(AGGREGATION, "response_mean")
    kl: Any = family(KL, "k3")
    entropy_coefficient: float = 0.0
    positive_nll_coefficient: float = 0.0
    reward: RewardConfig = field(default_factory=RewardConfig)
    overlong: OverlongConfig = field(default_factory=OverlongConfig)
    dead_groups: DeadGroupsConfig = field(default_factory=DeadGroupsConfig)
    curriculum: Any = family(CURRICULUM, "uniform")
    source: Any = family(SOURCE, "policy")
    engine_correction: EngineCorrectionConfig = field(default_factory=EngineCorrectionConfig)
    prompts_per_step: int = ranged(32, low=1)
    responses_per_prompt: int = ranged(8, low=1)
    updates_per_step: int = ranged(16, low=1)
    epochs_per_step: int = ranged(1, low=1)
    top_entropy_fraction: float = ranged(1.0, low=1e-6, high=1.0, neutral=True)
    off_policy_mask_nats: float | None = ranged(None, low=0.0, neutral=True)
    entropy_control: EntropyControl = field(default_factory=EntropyControl, metadata={"neutral": True})
    advantage_sign: str = choice("both", of=("both", "positive", "negative"), neutral=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prompts_per_step % self.updates_per_step:
            raise ConfigError(
                f"algorithm.prompts_per_step={self.prompts_per_step} is not a multiple of "
                f"algorithm.updates_per_step={self.updates_per_step}: an update takes whole groups"
            )
