"""The sections of a run that no family has: optimiser, sampling, verifier, training, evaluation, runtime, the algorithm and its parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from harness.configuration.error import MOST_SEED, Checked, ConfigError, choice, ranged, require_range, require_texts
from harness.configuration.registry import (
    ADVANTAGE,
    AGGREGATION,
    BENCHMARK,
    CURRICULUM,
    KL,
    SOURCE,
    SURROGATE,
    TRACKING,
    WEIGHTING,
    family,
    neutral,
)
from harness.configuration.user_code import source_hash


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
    beta1: float = ranged(0.9, low=0.0, high=0.99999)
    beta2: float = ranged(0.99, low=0.0, high=0.99999)
    epsilon: float = ranged(1e-8, low=0.0)
    weight_decay: float = ranged(0.0, low=0.0)
    warmup_steps: int = ranged(0, low=0)
    max_gradient_norm: float = ranged(1.0, low=1e-9)
    decay: str = choice("none", of=("none", "linear", "cosine"), neutral=True)
    final_share: float = ranged(0.0, low=0.0, high=1.0, neutral=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.final_share and self.decay == "none":
            raise ConfigError(f"optimizer.final_share={self.final_share} needs optimizer.decay=linear or cosine")


@dataclass
class SamplingConfig(Checked, key="sampling"):
    """Sampling of training responses.

    Attributes:
        max_response_tokens: the cap.
        temperature: divides the logits.
        top_p: nucleus mass; 1 is off.
        top_k: most likely tokens kept; 0 is off.
        stop_strings: text that ends a response, beside the tokenizer's end tokens.
        lag_steps: a step trains on responses of the policy of so many rollout steps before.
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
        form: evaluated (an answer with operations left to do does not count) or value (the value alone counts).
    """

    extraction: str = choice("boxed", of=("boxed", "answer_line", "any"))
    answer_must_end: bool = True
    form: str = choice("evaluated", of=("evaluated", "value"), neutral=True)


@dataclass
class TrainingConfig(Checked, key="training"):
    """Length of a run.

    Attributes:
        steps: rollout steps (at most); 0 evaluates the policy and trains nothing.
        generated_tokens: stop after the step that trains on the last of this many tokens, discarded groups included; null: no limit.
        evaluate_every: rollout steps between evaluations; step 0 and the last step are always evaluated.
    """

    steps: int = ranged(100, low=0)
    generated_tokens: int | None = ranged(None, low=1e-9)
    evaluate_every: int = ranged(25, low=1)

    def is_spent(self, steps: int, tokens: int) -> bool:
        """Say if a run that has come so far is at its end."""
        return steps >= self.steps or (self.generated_tokens is not None and tokens >= self.generated_tokens)


@dataclass
class EvaluationConfig(Checked, key="evaluation"):
    """The evaluation protocol.

    Attributes:
        benchmarks: name → benchmark, with the keys of `task`.
        samples_per_problem: n of avg@n, Pass@k and Maj@k, before RL and at the last step.
        samples_between: n at most of the evaluations between these two; null: the same. They are the first of the many samples.
        temperature: sampling temperature.
        top_p: nucleus mass.
        stop_strings: text that ends a response, beside the tokenizer's end tokens.
        caps: response token caps; one sample set at the largest gives all of them (a smaller cap only cuts).
        seed: the sampling seed, one for all runs.
    """

    benchmarks: dict[str, Any] = field(default_factory=dict, metadata={"family_values": BENCHMARK})
    samples_per_problem: int = ranged(32, low=1)
    samples_between: int | None = ranged(8, low=1)
    temperature: float = ranged(1.0, low=0.0)
    top_p: float = ranged(1.0, low=1e-6, high=1.0)
    caps: list[int] = field(default_factory=lambda: [32, 64])
    seed: int = ranged(123, low=0, high=MOST_SEED)
    stop_strings: list[str] = field(default_factory=list, metadata={"neutral": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        require_texts("evaluation.stop_strings", self.stop_strings)
        if not self.caps or min(self.caps) < 1:
            raise ConfigError(f"evaluation.caps={self.caps} must list at least one positive token cap")
        self.caps = sorted(set(self.caps))  # the same caps are the same protocol


VERL_VERSION = "0.9.1"
_MACHINE_OVERRIDES = ("runtime.", "runtime=", "tracker=", "checks=", "hydra.", "hydra/")


def key_of(override: str) -> str:
    """The key or group of ``key=value``, with its ``+`` or ``~`` off."""
    return override.lstrip("+~").partition("=")[0]


def of_machine(override: str) -> bool:
    """Say if an override is about the place and manner of runs, not about their numbers."""
    return override.lstrip("+~").startswith(_MACHINE_OVERRIDES)


@dataclass
class VerlRuntime(Checked, key="runtime.verl"):
    """The machine's side of backend=verl; no part of a run's identity.

    Attributes:
        python: the interpreter of verl's own environment (docs/verl.md says how to make it).
        ray_address: of the Ray cluster that verl joins (`auto`: the one running here); null: it starts its own and ends it.
        tensor_parallel: GPUs that hold one copy of the sampler.
        sequence_parallel: GPUs that share one sequence in the update (Ulysses).
        gpu_memory_utilization: share of each GPU's memory that the sampler takes while it samples.
        offload: parameters and optimiser state wait in the host's memory while they are not used.
        reward_workers: processes that grade responses, spread over the nodes.
    """

    python: str = ""
    ray_address: str | None = None
    tensor_parallel: int = ranged(1, low=1)
    sequence_parallel: int = ranged(1, low=1)
    gpu_memory_utilization: float = ranged(0.5, low=0.01, high=0.99)
    offload: bool = False
    reward_workers: int = ranged(8, low=1)


@dataclass
class RuntimeConfig(Checked, key="runtime"):
    """The keys that cannot change the numbers (beyond rounding). They are no part of a run's identity.

    Attributes:
        results: root of the result store.
        config_dir: folders of one's own that hold members in Python; filled from `--config-dir FOLDER`.
        workers: runs at once on this machine; 0: as many as cores (or GPUs).
        threads: torch threads a run.
        device: cpu, cuda, or auto: training then runs on the CPU, `harness evaluate` on a GPU where there is one.
        linear_kernel: auto (onednn on AMD's processors, else torch; a run that resumes keeps its own), torch or onednn.
        rollout_rows: responses decoded together; the native engine takes more of them where a GiB holds their keys and values.
        micro_batch_tokens: tokens at most in one forward and backward; with model=testbed rows times the longest, padding included.
        checkpoint_every: rollout steps between resumable checkpoints.
        keep_checkpoints: newest checkpoints kept while a run trains; of a trained run the last step's alone, without the optimizer.
        verifier_workers: processes for answers that need the symbolic verifier.
        runs_per_gpu: small runs sharing one GPU.
        gpus_per_run: GPUs that one run gets on each node (all of them appear in its CUDA_VISIBLE_DEVICES).
        sampler_gpus: further GPUs of a run, where its engine samples while the trainer updates (Linux; with `sampling.lag_steps`); on a CPU
            any number is a second process. 0: the engine is in the trainer's process.
        ranks: processes that train one run together (FSDP2, with backend=trl DDP); 0: one a GPU of the run, one on a CPU.
        nodes: nodes that train one run together (backend=verl).
        check_weights_every: rollout steps between checks of the engine's weights, by its log-probabilities; always once at the start.
        gradient_checkpointing: recompute a layer's activations in backward instead of keeping them; the small model never does.
        elsewhere: runs are sent to other machines, so what this one lacks refuses none; hydra/launcher=submitit_slurm and ray set it.
        trackers: name → tracker that receives every metrics row beside the store (wandb).
        verl: verl's environment and how it uses this machine (backend=verl).
        checks: warn, refuse or off: what a vacuous or confounded comparison does before launch.
    """

    results: str = "results"
    config_dir: list[str] = field(default_factory=list)
    workers: int = ranged(0, low=0)
    threads: int = ranged(1, low=1)
    device: str = choice("auto", of=("auto", "cpu", "cuda"))
    linear_kernel: str = choice("auto", of=("auto", "torch", "onednn"))
    rollout_rows: int = ranged(1024, low=1)
    micro_batch_tokens: int = ranged(2048, low=1)
    checkpoint_every: int = ranged(25, low=1)
    keep_checkpoints: int = ranged(2, low=1)
    verifier_workers: int = ranged(1, low=1)
    runs_per_gpu: int = ranged(1, low=1)
    gpus_per_run: int = ranged(1, low=1)
    sampler_gpus: int = ranged(0, low=0)
    ranks: int = ranged(0, low=0)
    nodes: int = ranged(1, low=1)
    check_weights_every: int = ranged(10, low=1)
    gradient_checkpointing: bool = False
    elsewhere: bool = False
    trackers: dict[str, Any] = field(default_factory=dict, metadata={"family_values": TRACKING})
    verl: VerlRuntime = field(default_factory=VerlRuntime)
    checks: str = choice("warn", of=("warn", "refuse", "off"))

    @property
    def gpus_of_a_run(self) -> int:
        """GPUs of one run on a node."""
        return self.gpus_per_run + self.sampler_gpus

    def refusals(self, run: Any) -> Iterator[str]:
        """Yield what a process that samples beside the trainer cannot be combined with."""
        if not self.sampler_gpus:
            return
        setting, needed = f"runtime.sampler_gpus={self.sampler_gpus}", getattr(run.engine, "tensor_parallel", 1)
        if run.backend.kind != "builtin":
            yield f"{setting} is for the built-in trainer, not for backend={run.backend.kind}; set it to 0"
        if not run.sampling.lag_steps:
            yield f"{setting} samples for later steps while one updates; set sampling.lag_steps to 1 or more"
        if self.ranks > 1 or (self.device == "cuda" and self.gpus_per_run > 1):
            yield f"{setting} beside several ranks is not built; set runtime.gpus_per_run and runtime.ranks to 1"
        if self.device == "cuda" and self.sampler_gpus != needed:
            yield f"{setting}: engine={run.engine.kind} is one engine on {needed} (engine.tensor_parallel); set it to {needed}"


CORRECTIONS = ("none", "token", "token_mask", "sequence", "sequence_mask", "geometric_mask")


@dataclass
class RewardConfig(Checked, key="algorithm.reward"):
    """Outcome reward.

    Attributes:
        correct: the reward of a right answer.
        wrong: the reward of a wrong answer, or of none.
        format_credit: added whenever an answer could be extracted.
        true_positive: chance that a right training response counts as right; evaluation keeps the exact verifier.
        false_positive: chance that a wrong one does. Equal rates are a random reward.
        function: `FILE.py:NAME` or `package.module:NAME`, which scores training responses instead of the verifier. The file's content is
            part of a run's identity.
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
            raise ConfigError("algorithm.reward.function takes no true_positive or false_positive: let it err alone")
        if self.function and not self.correct > 0 >= self.wrong:
            raise ConfigError("algorithm.reward.function: a reward above 0 counts as right: set correct > 0 >= wrong")
        if not self.function and self.correct <= self.wrong:
            raise ConfigError(f"algorithm.reward.correct={self.correct:g} must be above reward.wrong={self.wrong:g}")

    @property
    def may_be_negative(self) -> bool:
        """Say if a response may earn less than 0, before any length penalty."""
        return self.wrong + min(self.format_credit, 0.0) < 0

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

    @property
    def multiplies(self) -> bool:
        """Say if the soft length penalty is a factor of the reward."""
        return self.punishes and self.shape == "multiplicative"

    def refusals(self, run: Any) -> Iterator[str]:
        """Yield what it cannot be combined with in a `RunConfig`."""
        if self.multiplies and run.algorithm.reward.may_be_negative:
            yield "algorithm.overlong.shape=multiplicative raises negative rewards of long answers; use shape=additive"


@dataclass
class DeadGroupsConfig(Checked, key="algorithm.dead_groups"):
    """Treatment of groups without contrast.

    Attributes:
        policy: keep (zero gradient, counted in denominators), drop (removed), refill (dynamic sampling: removed and replaced),
            never_give_up (removed; prompts of all-wrong groups are tried again). `reward_mean` and its like are of all groups before that.
        metric: dead by accuracy (all right or all wrong; DAPO) or by reward (all shaped rewards equal).
        max_rounds: rollout rounds a step at most, the first included; then the step trains on what it has.
        retry_probability: of never_give_up: with which a prompt of an all-wrong group is tried again in the next step.
        max_attempts: of never_give_up: groups that one prompt gets at most before it is given up, the first included.
    """

    policy: str = choice("keep", of=("keep", "drop", "refill", "never_give_up"))
    metric: str = choice("accuracy", of=("accuracy", "reward"))
    max_rounds: int = ranged(4, low=1)
    retry_probability: float = ranged(0.75, low=1e-6, high=1.0, neutral=True)
    max_attempts: int = ranged(8, low=2, neutral=True)

    def refusals(self, run: Any) -> Iterator[str]:
        """Yield what it cannot be combined with in a `RunConfig`."""
        algorithm = run.algorithm
        refills = self.policy == "refill"
        if refills and algorithm.responses_per_prompt < 2:
            yield "algorithm.dead_groups.policy=refill needs algorithm.responses_per_prompt >= 2: a group of one is always dead"
        if refills and not algorithm.samples_policy:
            yield f"algorithm.source={algorithm.source.kind} is no sampling to refill; set dead_groups.policy=keep"
        if algorithm.overlong.policy == "wrong" and self.policy != "keep" and self.metric == "accuracy":
            yield "algorithm.overlong.policy=wrong changes no verdict; set algorithm.dead_groups.metric=reward"
        if self.policy == "never_give_up":
            yield from self._refusals_of_retries(algorithm)

    def _refusals_of_retries(self, algorithm: AlgorithmConfig) -> Iterator[str]:
        """Never Give Up counts right and wrong: its advantages are those of two rewards, centred in each group."""
        setting, reward = "algorithm.dead_groups.policy=never_give_up", algorithm.reward
        continuous = {
            "algorithm.overlong.policy": algorithm.overlong.policy not in ("score", "mask"),
            "algorithm.reward.function": bool(reward.function),
            "algorithm.reward.format_credit": reward.format_credit != 0,
            "algorithm.kl.placement": algorithm.kl_in_reward,
            "algorithm.dead_groups.metric": self.metric != "accuracy",
        }
        for key in (key for key, is_continuous in continuous.items() if is_continuous):
            yield f"{setting} needs a reward that is right or wrong alone: put {key} back to its default"
        if fix := algorithm.advantage.centring_fix():
            yield f"{setting} rescales advantages whose sum in a group is zero: set {fix}"
        if not algorithm.samples_policy:
            yield f"{setting} samples anew, and algorithm.source={algorithm.source.kind} is no sampling: set algorithm.source=policy"
        if not getattr(algorithm.curriculum, "draws_in_turn", False):
            yield f"{setting} needs algorithm.curriculum=uniform or offline_filter, which draw every problem in turn"
        if self.max_attempts > algorithm.prompts_per_step:
            yield f"algorithm.dead_groups.max_attempts={self.max_attempts} is above prompts_per_step; lower it"


@dataclass
class EngineCorrectionConfig(Checked, key="algorithm.engine_correction"):
    """Correction for a sampler whose log-probabilities differ from the trainer's.

    Attributes:
        kind: weight of each token's loss: none, token (w = π_train / π_sampler, cut to floor and cap), token_mask (w between them, else 0),
            sequence, sequence_mask (of the response's product), geometric_mask (1 where its geometric mean lies between them, else 0).
        cap: the largest weight.
        old_log_probs: sampler (the rollout's own) or recomputed (one more forward before the first update).
        floor: the smallest weight.
    """

    kind: str = choice("none", of=CORRECTIONS)
    cap: float = ranged(2.0, low=1.0)
    old_log_probs: str = choice("sampler", of=("sampler", "recomputed"))
    floor: float = ranged(0.0, low=0.0, high=1.0, neutral=True)

    @property
    def weighs_tokens(self) -> bool:
        """Say if tokens have weights of their own, rather than responses."""
        return self.kind in ("token", "token_mask")

    def refusals(self, run: Any) -> Iterator[str]:
        """Yield what it cannot be combined with in a `RunConfig`."""
        algorithm, sampling = run.algorithm, run.sampling
        one_loss = algorithm.importance_ratio == "sequence" or algorithm.surrogate.one_loss
        if self.weighs_tokens and one_loss:
            yield f"algorithm.engine_correction.kind={self.kind} weighs tokens of one loss: set sequence or sequence_mask"
        sampler_is_old = self.old_log_probs == "sampler"
        if sampler_is_old and self.kind != "none":
            yield f"algorithm.engine_correction.kind={self.kind} corrects twice without old_log_probs=recomputed"
        filtered = sampling.top_p < 1 or sampling.top_k > 0
        if filtered and self.kind != "none":
            setting = f"sampling.top_p={sampling.top_p:g} and top_k={sampling.top_k}"
            yield f"algorithm.engine_correction.kind={self.kind} with {setting} is biased: set top_p=1 and top_k=0"
        if filtered and sampler_is_old:
            yield "sampling.top_p < 1 or top_k > 0 needs algorithm.engine_correction.old_log_probs=recomputed"


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
        weighting: what a response counts in the policy's loss: all alike, some left out, or by its advantage.
    """

    advantage: Any = family(ADVANTAGE, "group")
    importance_ratio: str = choice("token", of=("token", "sequence"))
    surrogate: Any = family(SURROGATE, "ppo_clip")
    aggregation: Any = family(AGGREGATION, "response_mean")
    kl: Any = family(KL, "k3")
    entropy_coefficient: float = 0.0
    positive_nll_coefficient: float = ranged(0.0, low=0.0)
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
    weighting: Any = family(WEIGHTING, "uniform", neutral=True)

    @property
    def samples_policy(self) -> bool:
        """Say if training responses are sampled from the policy itself."""
        return bool(getattr(self.source, "samples_policy", False))

    @property
    def kl_in_reward(self) -> bool:
        """Say if a KL penalty is taken from the rewards."""
        return bool(self.kl.coefficient > 0 and self.kl.placement == "reward")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.entropy_control.target_nats is not None:
            require_range("algorithm.entropy_coefficient", self.entropy_coefficient, 0.0, self.entropy_control.maximum)
        if self.prompts_per_step % self.updates_per_step:
            raise ConfigError(
                f"algorithm.prompts_per_step={self.prompts_per_step} is not a multiple of updates_per_step={self.updates_per_step}"
            )


def base_policy_count(models: Iterable[Mapping[str, Any]]) -> int | None:
    """Count the base policies that seeds take in turn in all of these models' values: seed s starts from number s modulo that.

    Where they differ, the largest number that divides all. None without a set, or with one for all seeds: then seeds are the replicates.
    """
    bases = [model.get("bases") for model in models]
    # The testbed's `set` is null where each run warms up one of its own.
    counts = {each.get("count") or 1 for each in bases if isinstance(each, Mapping) and each.get("set", "") is not None}
    return math.gcd(*known) if (known := counts - {1}) else None
