"""The run configuration: dataclasses with every field documented, a strict loader, and the checks that span fields.

`RunConfig` is everything that can change a run's numbers, plus `runtime`, which cannot (beyond rounding). Hydra composes YAML; `load`
turns the plain result into these classes and refuses unknown keys, wrong types and impossible combinations, naming the nearest valid
key. Importing this module imports no torch.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from harness.configuration.assumptions import Assumptions
from harness.configuration.combinations import check_combinations
from harness.configuration.error import ConfigError, require, require_range, require_texts
from harness.configuration.loader import load_dataclass
from harness.configuration.registry import member
from harness.configuration.verl_runtime import VerlRuntime

ADVANTAGE, SURROGATE = "harness.objective.advantage", "harness.objective.surrogate"
AGGREGATION, KL = "harness.objective.aggregation", "harness.objective.kl"
BENCHMARK, MODEL = "harness.problems.benchmarks", "harness.base_policy"
ENGINE, CURRICULUM, BACKEND = "harness.rollout.engine", "harness.sampling.curriculum", "harness.backends"
SOURCE = "harness.sampling.source"
CORRECTIONS = ("none", "token", "token_mask", "sequence", "sequence_mask")
LAUNCH, TRACKING = "harness.execution.launch", "harness.tracking"


def family(package: str, default: str, neutral: bool = False) -> Any:
    """A field that holds one member's `Config` of a family package; `default` is the member taken when nothing is given."""
    metadata = {"family": package, "neutral": neutral}
    return field(default_factory=lambda: member(package, default).Config(), metadata=metadata)


def neutral(default: Any) -> Any:
    """A field added after runs were stored: at its default it means what its absence meant, and is no part of the identity."""
    return field(default=default, metadata={"neutral": True})


@dataclass
class RewardConfig:
    """Outcome reward. `correct` and `wrong` are its values; `format_credit` is added whenever an answer could be extracted."""

    correct: float = 1.0
    wrong: float = -1.0
    format_credit: float = 0.0


@dataclass
class OverlongConfig:
    """What happens to responses that reach the token cap.

    Attributes:
        policy: score (as the verifier says), mask (no loss on truncated responses), soft (length penalty), mask_and_soft.
        buffer_fraction: the soft penalty ramps from 0 to `penalty` over the last fraction of the cap (DAPO Eq. 13: L_cache / L_max).
        penalty: full penalty at the cap, a positive number.
        shape: additive (reward - penalty·ramp, DAPO) or multiplicative (reward · max(0, 1 - penalty·ramp), as one text tells it).
        statistics: keep or exclude masked responses in the group's mean and standard deviation.
    """

    policy: str = "score"
    buffer_fraction: float = 0.25
    penalty: float = 1.0
    shape: str = "additive"
    statistics: str = "keep"

    def __post_init__(self) -> None:
        require("algorithm.overlong.policy", self.policy, ("score", "mask", "soft", "mask_and_soft"))
        require("algorithm.overlong.shape", self.shape, ("additive", "multiplicative"))
        require("algorithm.overlong.statistics", self.statistics, ("keep", "exclude"))
        require_range("algorithm.overlong.buffer_fraction", self.buffer_fraction, 1e-6, 1.0)
        require_range("algorithm.overlong.penalty", self.penalty, 0.0)

    @property
    def masks(self) -> bool:
        """Whether truncated responses carry no loss."""
        return self.policy in ("mask", "mask_and_soft")

    @property
    def punishes(self) -> bool:
        """Whether the soft length penalty is on."""
        return self.policy in ("soft", "mask_and_soft")


@dataclass
class DeadGroupsConfig:
    """What happens to groups without contrast.

    Attributes:
        policy: keep (zero gradient, counted in denominators), drop (removed), refill (dynamic sampling: removed and replaced).
        metric: dead by accuracy (all right or all wrong; DAPO) or by reward (all shaped rewards equal).
        max_rounds: rollout rounds a step at most, the first included; then the step trains on what it has.
        surplus: live groups beyond the batch are discarded (DAPO's recipe) or carried to the next step's batch.
    """

    policy: str = "keep"
    metric: str = "accuracy"
    max_rounds: int = 4
    surplus: str = "discard"

    def __post_init__(self) -> None:
        require("algorithm.dead_groups.policy", self.policy, ("keep", "drop", "refill"))
        require("algorithm.dead_groups.metric", self.metric, ("accuracy", "reward"))
        require("algorithm.dead_groups.surplus", self.surplus, ("discard", "carry"))
        require_range("algorithm.dead_groups.max_rounds", self.max_rounds, 1)


@dataclass
class EngineCorrectionConfig:
    """Correction for a sampler whose log-probabilities differ from the trainer's.

    Attributes:
        kind: none; token (importance weight w = min(π_train / π_sampler, cap) on each token's loss); token_mask (w where it is at most
            cap, else 0); sequence and sequence_mask (the same with the response's product for each of its tokens).
        cap: the largest weight.
        old_log_probs: sampler (the rollout's own) or recomputed (one more forward before the first update).
    """

    kind: str = "none"
    cap: float = 2.0
    old_log_probs: str = "sampler"

    def __post_init__(self) -> None:
        require("algorithm.engine_correction.kind", self.kind, CORRECTIONS)
        require("algorithm.engine_correction.old_log_probs", self.old_log_probs, ("sampler", "recomputed"))
        require_range("algorithm.engine_correction.cap", self.cap, 1.0)


@dataclass
class AlgorithmConfig:
    """One training algorithm as orthogonal choices.

    Attributes:
        advantage: estimator (baseline and scale).
        importance_ratio: token, or sequence (GSPO's length-normalised ratio).
        surrogate: what is done with ratio and advantage.
        aggregation: the loss's denominators.
        kl: estimator, coefficient, placement.
        entropy_coefficient: entropy bonus.
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
    """

    advantage: Any = family(ADVANTAGE, "group")
    importance_ratio: str = "token"
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
    prompts_per_step: int = 32
    responses_per_prompt: int = 8
    updates_per_step: int = 16
    epochs_per_step: int = 1

    def __post_init__(self) -> None:
        require("algorithm.importance_ratio", self.importance_ratio, ("token", "sequence"))
        for key in ("prompts_per_step", "responses_per_prompt", "updates_per_step", "epochs_per_step"):
            require_range(f"algorithm.{key}", getattr(self, key), 1)
        if self.prompts_per_step % self.updates_per_step:
            raise ConfigError(
                f"algorithm.prompts_per_step={self.prompts_per_step} is not a multiple of "
                f"algorithm.updates_per_step={self.updates_per_step}: an update takes whole groups"
            )


@dataclass
class OptimizerConfig:
    """AdamW. `warmup_steps` counts rollout steps (linear from 1/warmup); `max_gradient_norm` clips the global norm (1e9: never)."""

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
    """How training responses are sampled.

    Attributes:
        max_response_tokens: the cap.
        temperature: divides the logits.
        top_p: nucleus mass; 1 is off.
        top_k: most likely tokens kept; 0 is off.
        stop_strings: text that ends a response, beside the tokenizer's end tokens.
        streaming: grade groups as they finish and request replacements of dead ones at once, instead of round by round. The same
            groups are trained on; dynamic sampling generates fewer that are thrown away.
    """

    max_response_tokens: int = 32
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop_strings: list[str] = field(default_factory=list, metadata={"neutral": True})
    streaming: bool = neutral(False)

    def __post_init__(self) -> None:
        require_range("sampling.max_response_tokens", self.max_response_tokens, 1)
        require_range("sampling.temperature", self.temperature, 1e-3)
        require_range("sampling.top_p", self.top_p, 1e-6, 1.0)
        require_range("sampling.top_k", self.top_k, 0)
        require_texts("sampling.stop_strings", self.stop_strings)


@dataclass
class VerifierSection:
    """Which shapes of answer count: `extraction` boxed, answer_line or any; `answer_must_end`: nothing may follow the answer."""

    extraction: str = "boxed"
    answer_must_end: bool = True

    def __post_init__(self) -> None:
        require("verifier.extraction", self.extraction, ("boxed", "answer_line", "any"))


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
        samples_per_problem: n of avg@n, Pass@k and Maj@k.
        temperature: sampling temperature.
        top_p: nucleus mass.
        stop_strings: text that ends a response, beside the tokenizer's end tokens.
        caps: response token caps; one sample set at the largest gives all of them (a smaller cap only cuts).
        seed: the sampling seed, one for all runs.
    """

    benchmarks: dict[str, Any] = field(default_factory=dict, metadata={"family_values": BENCHMARK})
    samples_per_problem: int = 32
    temperature: float = 1.0
    top_p: float = 1.0
    caps: list[int] = field(default_factory=lambda: [32, 64])
    seed: int = 123
    stop_strings: list[str] = field(default_factory=list, metadata={"neutral": True})

    def __post_init__(self) -> None:
        require_range("evaluation.samples_per_problem", self.samples_per_problem, 1)
        require_range("evaluation.temperature", self.temperature, 0.0)
        require_range("evaluation.top_p", self.top_p, 1e-6, 1.0)
        require_texts("evaluation.stop_strings", self.stop_strings)
        if not self.caps or min(self.caps) < 1:
            raise ConfigError(f"evaluation.caps={self.caps} must list at least one positive token cap")
        self.caps = sorted(set(self.caps))  # the same caps are the same protocol


@dataclass
class RuntimeConfig:
    """What cannot change the numbers (beyond rounding). Not part of a run's identity.

    Attributes:
        results: root of the result store.
        workers: runs at once on this machine; 0: as many as cores (or GPUs).
        threads: torch threads a run.
        device: cpu, cuda, or auto: training then runs on the CPU, `harness evaluate` on a GPU where there is one.
        linear_kernel: auto (probed once per machine), torch or onednn.
        rollout_rows: responses decoded together.
        micro_batch_tokens: padded tokens at most in one forward and backward.
        checkpoint_every: rollout steps between resumable checkpoints.
        keep_checkpoints: newest checkpoints kept besides the last step's policy.
        verifier_workers: processes for answers that need the symbolic verifier.
        runs_per_gpu: small runs sharing one GPU.
        gpus_per_run: GPUs that one run gets on each node (all of them appear in its CUDA_VISIBLE_DEVICES).
        ranks: processes that train one run together on each node (FSDP2 under torchrun); 0: one a GPU of the run, one on a CPU.
        nodes: nodes that train one run together (launcher=slurm).
        gradient_checkpointing: recompute a layer's activations in backward instead of keeping them.
        record_rollouts: write every response of the run's engine, training and evaluation, to `rollouts.jsonl` in the run directory, which
            engine=replay serves again.
        launcher: where runs are sent: processes here, Slurm or local jobs by submitit, or a Ray cluster.
        trackers: name → tracker that receives every metrics row beside the store (wandb, TensorBoard).
        assumed: hardware and rates behind the estimates of `harness plan`.
        verl: verl's environment and how it uses this machine (backend=verl).
        checks: warn, refuse or off: what a vacuous or confounded comparison does before launch.
    """

    results: str = "results"
    workers: int = 0
    threads: int = 1
    device: str = "auto"
    linear_kernel: str = "auto"
    rollout_rows: int = 1024
    micro_batch_tokens: int = 2048
    checkpoint_every: int = 25
    keep_checkpoints: int = 1
    verifier_workers: int = 1
    runs_per_gpu: int = 1
    gpus_per_run: int = 1
    ranks: int = 0
    nodes: int = 1
    gradient_checkpointing: bool = False
    record_rollouts: bool = False
    launcher: Any = family(LAUNCH, "local")
    trackers: dict[str, Any] = field(default_factory=dict, metadata={"family_values": TRACKING})
    assumed: Assumptions = field(default_factory=Assumptions)
    verl: VerlRuntime = field(default_factory=VerlRuntime)
    checks: str = "warn"

    def __post_init__(self) -> None:
        require("runtime.device", self.device, ("auto", "cpu", "cuda"))
        require("runtime.linear_kernel", self.linear_kernel, ("auto", "torch", "onednn"))
        require("runtime.checks", self.checks, ("warn", "refuse", "off"))
        require_range("runtime.workers", self.workers, 0)
        for key in ("threads", "rollout_rows", "micro_batch_tokens", "checkpoint_every", "keep_checkpoints"):
            require_range(f"runtime.{key}", getattr(self, key), 1)
        require_range("runtime.ranks", self.ranks, 0)
        for key in ("runs_per_gpu", "gpus_per_run", "nodes"):
            require_range(f"runtime.{key}", getattr(self, key), 1)


@dataclass
class RunConfig:
    """One run: everything that can change its numbers, plus `runtime`."""

    seed: int = 0
    task: Any = family(BENCHMARK, "arithmetic")
    model: Any = family(MODEL, "testbed")
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    engine: Any = family(ENGINE, "native")
    verifier: VerifierSection = field(default_factory=VerifierSection)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    backend: Any = family(BACKEND, "builtin", neutral=True)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)

    def __post_init__(self) -> None:
        check_combinations(self)


# ---- loading ------------------------------------------------------------------------------------------------------------


def load(values: dict[str, Any]) -> RunConfig:
    """Build a `RunConfig` from a plain nested mapping.

    Raises:
        ConfigError: an unknown key (with the nearest valid one), a wrong type, an unknown member, an impossible combination.
    """
    return load_dataclass(RunConfig, values, "")


def dump(config: Any) -> dict[str, Any]:
    """The plain nested mapping of a configuration; `load(dump(c)) == c`."""
    return dataclasses.asdict(config)
