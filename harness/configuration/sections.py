"""The sections of a run beside its algorithm: optimiser, sampling, verifier, training, evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.configuration.error import ConfigError, require, require_range, require_texts
from harness.configuration.families import BENCHMARK, neutral, neutral_when


@dataclass
class OptimizerConfig:
    """AdamW.

    Attributes:
        learning_rate: its peak; constant after the warm-up.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        epsilon: added to the root of the second moment.
        weight_decay: decoupled.
        warmup_steps: rollout steps over which the learning rate rises, linearly from its 1 / warmup_steps.
        max_gradient_norm: the global norm is clipped to it (1e9: never).
    """

    learning_rate: float = 2e-4
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    warmup_steps: int = 0
    max_gradient_norm: float = 1.0

    def __post_init__(self) -> None:
        require_range("optimizer.learning_rate", self.learning_rate, 0.0)
        require_range("optimizer.warmup_steps", self.warmup_steps, 0)
        require_range("optimizer.max_gradient_norm", self.max_gradient_norm, 1e-9)
        for key in ("beta1", "beta2"):
            require_range(f"optimizer.{key}", getattr(self, key), 0.0, 1.0)
        for key in ("epsilon", "weight_decay"):
            require_range(f"optimizer.{key}", getattr(self, key), 0.0)


@dataclass
class SamplingConfig:
    """Sampling of training responses.

    Attributes:
        max_response_tokens: the cap.
        temperature: divides the logits.
        top_p: nucleus mass; 1 is off.
        top_k: most likely tokens kept; 0 is off.
        stop_strings: text that ends a response, beside the tokenizer's end tokens.
        lag_steps: rollout steps by which the sampling policy is behind: a step trains on responses of the policy of so many steps before.
    """

    max_response_tokens: int = 32
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop_strings: list[str] = field(default_factory=list, metadata={"neutral": True})
    lag_steps: int = neutral(0)

    def __post_init__(self) -> None:
        require_range("sampling.max_response_tokens", self.max_response_tokens, 1)
        require_range("sampling.temperature", self.temperature, 1e-3)
        require_range("sampling.top_p", self.top_p, 1e-6, 1.0)
        require_range("sampling.top_k", self.top_k, 0)
        require_range("sampling.lag_steps", self.lag_steps, 0)
        require_texts("sampling.stop_strings", self.stop_strings)


@dataclass
class VerifierSection:
    """The shapes of answer that count.

    Attributes:
        extraction: boxed, answer_line or any.
        answer_must_end: nothing may follow the answer.
        form: evaluated (an answer with operations left to do does not count), value (whatever has the value of the gold answer counts).
    """

    extraction: str = "boxed"
    answer_must_end: bool = True
    form: str = neutral("evaluated")

    def __post_init__(self) -> None:
        require("verifier.extraction", self.extraction, ("boxed", "answer_line", "any"))
        require("verifier.form", self.form, ("evaluated", "value"))


@dataclass
class TrainingConfig:
    """Length of a run.

    Attributes:
        steps: rollout steps (at most).
        generated_tokens: stop after the step in which this many tokens were generated, discarded groups included; null: no limit.
        seconds: stop after this much time in training steps; null: no limit. (Not reproducible from machine to machine.)
        evaluate_every: rollout steps between evaluations; step 0 and the last step are always evaluated.
    """

    steps: int = 60
    generated_tokens: int | None = None
    seconds: float | None = None
    evaluate_every: int = 20

    def __post_init__(self) -> None:
        require_range("training.steps", self.steps, 0)
        require_range("training.evaluate_every", self.evaluate_every, 1)
        for key in ("generated_tokens", "seconds"):
            if getattr(self, key) is not None:
                require_range(f"training.{key}", getattr(self, key), 1e-9)


@dataclass
class EvaluationConfig:
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
    samples_per_problem: int = 32
    samples_between: int | None = neutral_when(absent=lambda: None, default=lambda: 8)
    temperature: float = 1.0
    top_p: float = 1.0
    caps: list[int] = field(default_factory=lambda: [32, 64])
    seed: int = 123
    stop_strings: list[str] = field(default_factory=list, metadata={"neutral": True})

    def __post_init__(self) -> None:
        require_range("evaluation.samples_per_problem", self.samples_per_problem, 1)
        if self.samples_between is not None:
            require_range("evaluation.samples_between", self.samples_between, 1)
        require_range("evaluation.temperature", self.temperature, 0.0)
        require_range("evaluation.top_p", self.top_p, 1e-6, 1.0)
        require_texts("evaluation.stop_strings", self.stop_strings)
        if not self.caps or min(self.caps) < 1:
            raise ConfigError(f"evaluation.caps={self.caps} must list at least one positive token cap")
        self.caps = sorted(set(self.caps))  # the same caps are the same protocol
