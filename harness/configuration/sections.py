"""The sections of a run beside its algorithm: optimiser, sampling, verifier, training, evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.configuration.error import ConfigError, require_range, require_texts
from harness.configuration.families import BENCHMARK, neutral_when
from harness.configuration.limits import Checked, choice, ranged


@dataclass
class OptimizerConfig(Checked, key="optimizer"):
    """AdamW.

    Attributes:
        learning_rate: its peak.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        epsilon: added to the root of the second moment.
        weight_decay: decoupled.
        warmup_steps: rollout steps over which the learning rate rises, linearly from its 1 / warmup_steps.
        max_gradient_norm: the global norm is clipped to it (1e9: never).
        decay: of the learning rate from the warm-up to `training.steps`: none (it stays), linear or cosine.
        final_share: of the peak, where the decay ends.
    """

    learning_rate: float = ranged(2e-4, low=0.0)
    beta1: float = ranged(0.9, low=0.0, high=1.0)
    beta2: float = ranged(0.99, low=0.0, high=1.0)
    epsilon: float = ranged(1e-8, low=0.0)
    weight_decay: float = ranged(0.0, low=0.0)
    warmup_steps: int = ranged(0, low=0)
    max_gradient_norm: float = ranged(1.0, low=1e-9)
    decay: str = choice("none", of=("none", "linear", "cosine"), neutral=True)
    final_share: float = ranged(0.0, low=0.0, high=1.0, neutral=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.final_share and self.decay == "none":
            raise ConfigError(
                f"optimizer.final_share={self.final_share} needs optimizer.decay=linear or cosine"
            )


@dataclass
class SamplingConfig(Checked, key="sampling"):
    """Sampling of training responses.

    Attributes:
        max_response_tokens: the cap.
        temperature: divides the logits.
        top_p: nucleus mass; 1 is off.
        top_k: most likely tokens kept; 0 is off.
        stop_strings: text that ends a response, beside the tokenizer's end tokens.
        lag_steps: rollout steps by which the sampling policy is behind: a step trains on responses of the policy of so many steps before.
    """

    max_response_tokens: int = ranged(32, low=1)
    temperature: float = ranged(1.0, low=1e-3)
    top_p: float = ranged(1.0, low=1e-6, high=1.0)
    top_k: int = ranged(0, low=0)
    stop_strings: list[str] = field(default_factory=list, metadata={"neutral": True})
    lag_steps: int = ranged(0, low=0, neutral=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_texts("sampling.stop_strings", self.stop_strings)


@dataclass
class VerifierSection(Checked, key="verifier"):
    """The shapes of answer that count.

    Attributes:
        extraction: boxed, answer_line or any.
        answer_must_end: nothing may follow the answer.
        form: evaluated (an answer with operations left to do does not count), value (whatever has the value of the gold answer counts).
    """

    extraction: str = choice("boxed", of=("boxed", "answer_line", "any"))
    answer_must_end: bool = True
    form: str = choice("evaluated", of=("evaluated", "value"), neutral=True)


@dataclass
class TrainingConfig(Checked, key="training"):
    """Length of a run.

    Attributes:
        steps: rollout steps (at most); 0 evaluates the policy and trains nothing.
        generated_tokens: stop after the step in which this many tokens were generated, discarded groups included; null: no limit.
        seconds: stop after this much time in training steps; null: no limit. (Not reproducible from machine to machine.)
        evaluate_every: rollout steps between evaluations; step 0 and the last step are always evaluated.
    """

    steps: int = ranged(60, low=0)
    generated_tokens: int | None = ranged(None, low=1e-9)
    seconds: float | None = ranged(None, low=1e-9)
    evaluate_every: int = ranged(20, low=1)


@dataclass
class EvaluationConfig(Checked, key="evaluation"):
    """The evaluation protocol.

    Attributes:
        benchmarks: name → benchmark.
        samples_per_problem: n of avg@n, Pass@k and Maj@k, before RL and at the last step.
        samples_between: n, at most, of the evaluations between these two, which only draw curves; null: the same. A sample's noise
            belongs to its number, so the fewer samples are the first of the many.
        temperature: sampling temperature.
        top_p: nucleus mass.
        stop_strings: text that ends a response, beside the tokenizer's end tokens.
        caps: response token caps; one sample set at the largest gives all of them (a smaller cap only cuts).
        seed: the sampling seed, one for all runs.
    """

    benchmarks: dict[str, Any] = field(default_factory=dict, metadata={"family_values": BENCHMARK})
    samples_per_problem: int = ranged(32, low=1)
    samples_between: int | None = neutral_when(absent=lambda: None, default=lambda: 8)
    temperature: float = ranged(1.0, low=0.0)
    top_p: float = ranged(1.0, low=1e-6, high=1.0)
    caps: list[int] = field(default_factory=lambda: [32, 64])
    seed: int = 123
    stop_strings: list[str] = field(default_factory=list, metadata={"neutral": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples_between is not None:
            require_range("evaluation.samples_between", self.samples_between, 1)
        require_texts("evaluation.stop_strings", self.stop_strings)
        if not self.caps or min(self.caps) < 1:
            raise ConfigError(f"evaluation.caps={self.caps} must list at least one positive token cap")
        self.caps = sorted(set(self.caps))  # the same caps are the same protocol
