"""The run configuration: everything that can change a run's numbers, plus `runtime`, which cannot (beyond rounding).

Hydra composes YAML; `load` turns the plain result into these classes and refuses unknown keys, wrong types and impossible
combinations, naming the nearest valid key. Importing this module imports no torch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

from harness.configuration.error import MOST_SEED, Checked, ConfigError, UnknownKeyError, ranged
from harness.configuration.registry import (
    ANY_VALUE,
    BACKEND,
    BENCHMARK,
    ENGINE,
    MODEL,
    family,
    implementation,
    kinds,
    member,
    nearest,
    own_members,
    retired_keys,
)
from harness.configuration.sections import (
    AlgorithmConfig,
    EvaluationConfig,
    OptimizerConfig,
    RuntimeConfig,
    SamplingConfig,
    TrainingConfig,
    VerifierSection,
)
from harness.configuration.user_code import read_only_config

_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml where PyYAML has it: five times faster


@dataclass
class RunConfig(Checked):
    """One run: everything that can change its numbers, plus `runtime`.

    Attributes:
        seed: the training seed: which prompts are drawn, and all sampling noise of training.
        task: the problems trained on.
        model: where RL starts.
        algorithm: the objective and what is sampled for it.
        sampling: how training responses are sampled.
        engine: who samples.
        verifier: which answers count.
        optimizer: AdamW.
        training: the length of the run.
        evaluation: the protocol.
        backend: who trains.
        runtime: where and how; no part of the identity.
    """

    seed: int = ranged(0, low=0, high=MOST_SEED)
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

    @property
    def score_cap(self) -> int:
        """The response cap in tokens at which scores are read: that of training where it is evaluated, else the largest that is."""
        cap = self.sampling.max_response_tokens
        return cap if cap in self.evaluation.caps else max(self.evaluation.caps)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_combinations(self)


def load(values: dict[str, Any]) -> RunConfig:
    """Build a `RunConfig` from what a command line or a file says now, or from what a worker was given to train.

    It registers the folders of `runtime.config_dir`, whose members it imports: what lies in a store is read by `load_stored`. Raises
    `ConfigError` that names the key.
    """
    runtime = values.get("runtime")
    folders = runtime.get("config_dir") if isinstance(runtime, dict) else None
    own_members(Path(name) for name in (folders if isinstance(folders, list) else ()) if isinstance(name, str))
    return load_dataclass(RunConfig, values, "")


@dataclass(frozen=True)
class StoredConfig:
    """The configuration of a stored run as data, whoever wrote it: nothing that it names is imported, opened, resolved or asked."""

    values: Mapping[str, Any]

    def section(self, key: str) -> dict[str, Any]:
        """The values of one section. Raises `ConfigError` where it has none."""
        return _mapping(self.values.get(key), key)


def load_stored(values: Mapping[str, Any]) -> StoredConfig:
    """Read the configuration of a run of the store (`RunDir.settings`): every verb but the worker that trains a run does so by this."""
    return StoredConfig(values)


def places(config: Any, path: str) -> Iterator[tuple[str, str]]:
    """Dotted key and value of every field that names a file, a data set, an address or a secret, where it names one (`registry.place`)."""
    items = (
        config.items()
        if isinstance(config, dict)
        else ((item.name, getattr(config, item.name)) for item in fields(config))
    )
    flags = {} if isinstance(config, dict) else {item.name: "place" in item.metadata for item in fields(config)}
    for name, value in items:
        if dataclasses.is_dataclass(value) or isinstance(value, dict):
            yield from places(value, f"{path}.{name}")
        elif value and flags.get(name):
            yield f"{path}.{name}", str(value)


def dump(config: Any) -> dict[str, Any]:
    """The plain nested mapping of a configuration; `load(dump(c)) == c`."""
    return dataclasses.asdict(config)


def portable(config: RunConfig) -> dict[str, Any]:
    """The configuration as a run stores it: every key but the results root, which is where the run lies and may be moved."""
    values = dump(config)
    del values["runtime"]["results"]
    return values


def yaml_text(values: dict[str, Any]) -> str:
    """A dumped configuration as YAML."""
    return str(yaml.dump(values, Dumper=_Dumper, sort_keys=False))


T = TypeVar("T")


def load_dataclass(cls: type[T], values: Any, path: str) -> T:
    """Build `cls` from a plain mapping; `path` is where it stands in the whole, for messages.

    Fields whose metadata name a `family` hold that family's member of the mapping's `kind`; `family_values` the same for each value of
    a mapping. A field that was added with a new meaning as its default (`registry.neutral_when`) means the old one where the mapping lacks
    it. Raises `ConfigError`.
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{path or 'the configuration'} must be a mapping, got {values!r}")
    hints = _hints(typing.cast(type, cls))
    fields_by_name = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    arguments: dict[str, Any] = {}
    values = _without_retired(cls, values, path)
    for name, value in values.items():
        item_path = f"{path}.{name}" if path else str(name)
        if name not in fields_by_name:
            own_section = name == path  # a file of the group `experiment` that says `experiment:`
            first_line = "; the file that says so must begin with the line `# @package _global_`"
            raise UnknownKeyError(item_path, first_line if own_section else nearest(str(name), list(fields_by_name)))
        metadata = fields_by_name[name].metadata
        if "family" in metadata:
            arguments[name] = _load_member(metadata["family"], value, item_path)
        elif "family_values" in metadata:
            arguments[name] = {
                str(key): _load_member(metadata["family_values"], item, f"{item_path}.{key}")
                for key, item in _mapping(value, item_path).items()
            }
        else:
            arguments[name] = _convert(hints[name], value, item_path)
    for name, item in fields_by_name.items():
        if name not in values and "absent" in item.metadata:
            arguments[name] = item.metadata["absent"]()
        if name not in arguments and item.default is item.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{path or 'the configuration'} needs a {name}")
    return cls(**arguments)


def _without_retired(cls: type, values: dict[str, Any], path: str) -> dict[str, Any]:
    """Raises `ConfigError` for a retired key with another value than it always had."""
    retired_values = retired_keys(cls)
    for name in values.keys() & retired_values.keys():
        if retired_values[name][0] not in (values[name], ANY_VALUE):
            raise ConfigError(f"{path}.{name}={values[name]!r}: the key is gone; leave it out")
    return {name: value for name, value in values.items() if name not in retired_values}


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _mapping(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must be a mapping, got {value!r}")
    return value


def _load_member(package: str, values: Any, path: str) -> Any:
    """One family member's Config, chosen by its `kind`."""
    kind = _mapping(values, path).get("kind")
    if not isinstance(kind, str):
        problem = f"{path} has no `kind`" if kind is None else f"{path}.kind={kind!r} is no name"
        raise ConfigError(f"{problem}; choose one of: {', '.join(sorted(kinds(package)))}")
    if "code" in values and (config := read_only_config(package, values)) is not None:
        return config
    try:
        module = member(package, kind)
    except ValueError as error:
        raise ConfigError(f"{path}.kind: {error}") from error
    return load_dataclass(module.Config, values, path)


def _convert(hint: Any, value: Any, path: str) -> Any:
    """Check one plain value against its annotation; integers widen to float, nothing else is coerced."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        return _convert_to_one([kind for kind in arguments if kind is not type(None)], value, path)
    if dataclasses.is_dataclass(hint):
        return load_dataclass(typing.cast(type, hint), value, path)
    if origin in (list, Sequence):
        if not isinstance(value, list):
            raise ConfigError(f"{path} must be a list, got {value!r}")
        return [_convert(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value)]
    if origin in (dict, Mapping):
        return {key: _convert(arguments[1], item, f"{path}.{key}") for key, item in _mapping(value, path).items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or (isinstance(value, hint) and not (hint is int and isinstance(value, bool))):
        return value
    raise ConfigError(f"{path} must be {hint.__name__}, got {value!r}")


def _convert_to_one(choices: list[Any], value: Any, path: str) -> Any:
    """Check a value against the choice that has its shape: a list, a mapping, or a plain value."""
    shape = type(value) if isinstance(value, list | dict) else None
    candidates = [kind for kind in choices if typing.get_origin(kind) is shape]
    if len(choices) == 1 or (shape and candidates):
        return _convert((candidates or choices)[0], value, path)
    for kind in candidates:
        with contextlib.suppress(ConfigError):
            return _convert(kind, value, path)
    names = (str(kind) if typing.get_args(kind) else kind.__name__ for kind in choices)
    raise ConfigError(f"{path} must be {' or '.join(names)}, got {value!r}")


def check_combinations(config: RunConfig) -> None:
    """Raise `ConfigError` with the first refusal."""
    for refusals in (_groups, _retries, _rewards, _advantages, _tokens, _distribution, _weights, _sampling, _problems):
        for refusal in refusals(config):
            raise ConfigError(refusal)


def _groups(config: RunConfig) -> Iterator[str]:
    algorithm, dead_groups = config.algorithm, config.algorithm.dead_groups
    refills = dead_groups.policy == "refill"
    if refills and algorithm.responses_per_prompt < 2:
        yield "algorithm.dead_groups.policy=refill needs algorithm.responses_per_prompt >= 2: a group of one is always dead"
    if refills and algorithm.source.kind != "policy":
        yield (
            f"algorithm.source={algorithm.source.kind} is no sampling to refill; set algorithm.dead_groups.policy=keep or drop"
        )
    if algorithm.overlong.policy == "wrong" and dead_groups.policy != "keep" and dead_groups.metric == "accuracy":
        yield (
            "algorithm.overlong.policy=wrong changes rewards but not verdicts, so algorithm.dead_groups.metric=accuracy would keep groups "
            "without contrast and drop others; set algorithm.dead_groups.metric=reward"
        )


def _retries(config: RunConfig) -> Iterator[str]:
    """Never Give Up counts right and wrong: its advantages are those of two rewards, centred in each group."""
    algorithm, dead_groups = config.algorithm, config.algorithm.dead_groups
    if dead_groups.policy != "never_give_up":
        return
    setting, reward = "algorithm.dead_groups.policy=never_give_up", algorithm.reward
    continuous = {
        "algorithm.overlong.policy": algorithm.overlong.policy not in ("score", "mask"),
        "algorithm.reward.function": bool(reward.function),
        "algorithm.reward.format_credit": reward.format_credit != 0,
        "algorithm.kl.placement": algorithm.kl.coefficient > 0 and algorithm.kl.placement == "reward",
        "algorithm.dead_groups.metric": dead_groups.metric != "accuracy",
    }
    for key in (key for key, is_continuous in continuous.items() if is_continuous):
        yield f"{setting} needs a reward that is right or wrong alone: put {key} back to its default, or set dead_groups.policy=refill"
    advantage = algorithm.advantage
    if advantage.kind != "group" or advantage.baseline not in ("group_mean", "leave_one_out"):
        yield f"{setting} rescales advantages whose sum in a group is zero: set algorithm.advantage=group with baseline=group_mean"
    elif (advantage.scale, advantage.whiten_over) == ("batch_whiten", "tokens"):
        yield f"{setting} rescales advantages whose sum in a group is zero: set algorithm.advantage.whiten_over=sequences"
    elif advantage.scale == "others_std":
        yield f"{setting} rescales advantages whose sum in a group is zero: set algorithm.advantage.scale=group_std or none"
    if algorithm.source.kind != "policy":
        yield f"{setting} samples anew, and algorithm.source={algorithm.source.kind} is no sampling: set algorithm.source=policy"
    if algorithm.curriculum.kind not in ("uniform", "offline_filter"):
        yield (
            f"{setting} fills a step up from a curriculum that draws every problem in turn, and "
            f"algorithm.curriculum={algorithm.curriculum.kind} may give only those that wait already: set it to uniform or offline_filter"
        )
    if dead_groups.max_attempts > algorithm.prompts_per_step:
        yield (
            f"algorithm.dead_groups.max_attempts={dead_groups.max_attempts} gives one prompt more groups than a step has "
            f"(algorithm.prompts_per_step={algorithm.prompts_per_step}); lower it"
        )


def _rewards(config: RunConfig) -> Iterator[str]:
    algorithm, overlong = config.algorithm, config.algorithm.overlong
    kl_in_reward = algorithm.kl.coefficient > 0 and algorithm.kl.placement == "reward"
    multiplies = overlong.punishes and overlong.shape == "multiplicative"
    is_negative = algorithm.reward.wrong + min(algorithm.reward.format_credit, 0.0) < 0
    if multiplies and is_negative:
        yield (
            "algorithm.overlong.shape=multiplicative with a negative algorithm.reward.wrong or format_credit would *raise* the reward of "
            "long wrong answers; use shape=additive, or 0 for both"
        )
    if multiplies and algorithm.advantage.kind == "decoupled":
        yield "algorithm.advantage=decoupled normalises the addends of the reward; use algorithm.overlong.shape=additive"
    if algorithm.reward.function and algorithm.advantage.kind == "decoupled":
        yield (
            "algorithm.advantage=decoupled normalises the addends of the reward, and algorithm.reward.function gives a sum; "
            "choose another advantage"
        )
    if kl_in_reward and algorithm.advantage.kind in ("decoupled", "imitation"):
        yield (
            f"algorithm.advantage={algorithm.advantage.kind} does not read the rewards that algorithm.kl.placement=reward lowers; set "
            "algorithm.kl.placement=loss"
        )
    may_be_negative = is_negative or (overlong.punishes and overlong.shape == "additive") or kl_in_reward
    if getattr(algorithm.advantage, "scale", "") == "group_mean" and may_be_negative:
        yield (
            "algorithm.advantage.scale=group_mean divides by the group's mean reward, which must not be negative: set "
            "algorithm.reward.wrong=0, no negative format_credit, no additive length penalty and no KL in the reward"
        )
    if getattr(algorithm.advantage, "scale", "") == "nonzero_share" and algorithm.reward.wrong:
        yield (
            "algorithm.advantage.scale=nonzero_share divides by the share of rewards that are not 0: set algorithm.reward.wrong=0, or "
            "scale=none"
        )


def _advantages(config: RunConfig) -> Iterator[str]:
    algorithm = config.algorithm
    weighting, trains_all = algorithm.weighting.kind, algorithm.surrogate.trains_without_advantage
    if weighting != "uniform" and algorithm.surrogate.selects:
        yield (
            f"algorithm.surrogate={algorithm.surrogate.kind} chooses tokens by their advantages, which "
            f"algorithm.weighting={weighting} scales; set algorithm.weighting=uniform"
        )
    if weighting != "uniform" and (algorithm.surrogate.pairs or trains_all or algorithm.positive_nll_coefficient):
        yield (
            f"algorithm.weighting={weighting} weighs responses by their advantages, and algorithm.surrogate={algorithm.surrogate.kind} or "
            "algorithm.positive_nll_coefficient also trains without one; set algorithm.weighting=uniform"
        )
    by_moments = (
        weighting in ("max_variance", "solve_rate_band") or getattr(algorithm.weighting, "by", "") == "reward_variance"
    )
    if by_moments and algorithm.overlong.masks and algorithm.overlong.statistics == "exclude":
        yield (
            f"algorithm.weighting={weighting} judges a group by all its responses, and algorithm.overlong.statistics=exclude leaves some "
            "out of its statistics; set it to keep"
        )
    if algorithm.surrogate.kind != "best_worst_dpo":
        return
    if algorithm.engine_correction.kind != "none":
        yield (
            f"algorithm.engine_correction.kind={algorithm.engine_correction.kind} corrects a ratio, and algorithm.surrogate=best_worst_dpo "
            "has none; set it to none"
        )
    if algorithm.advantage.kind != "best_worst" or algorithm.aggregation.kind != "response_mean":
        yield (
            "algorithm.surrogate=best_worst_dpo has one loss a pair: it needs algorithm.advantage=best_worst and "
            "algorithm.aggregation=response_mean"
        )
    if algorithm.advantage_sign != "both":
        yield (
            f"algorithm.advantage_sign={algorithm.advantage_sign} takes one response out of every pair of best_worst_dpo, which leaves "
            "nothing to train on; set it to both"
        )
    if algorithm.off_policy_mask_nats is not None or algorithm.top_entropy_fraction < 1:
        yield (
            "algorithm.surrogate=best_worst_dpo has one loss a pair, of whole responses: algorithm.off_policy_mask_nats and "
            "top_entropy_fraction choose tokens; set them to null and 1"
        )


def _tokens(config: RunConfig) -> Iterator[str]:
    algorithm = config.algorithm
    engine = implementation("harness.rollout.engine", config.engine)
    if algorithm.top_entropy_fraction < 1 and not getattr(engine, "EXACT_ENTROPY", True):
        yield (
            f"algorithm.top_entropy_fraction={algorithm.top_entropy_fraction} chooses tokens by their entropy, and "
            f"engine={config.engine.kind} reports none (minus the log-probability of the sampled token stands for it); use engine=native "
            "or engine=transformers"
        )
    if algorithm.surrogate.selects and algorithm.importance_ratio != "token":
        yield (
            f"algorithm.surrogate={algorithm.surrogate.kind} chooses tokens by their own ratio and covariance; set "
            "algorithm.importance_ratio=token"
        )


def _distribution(config: RunConfig) -> Iterator[str]:
    """A surrogate that reads the sampler's log-probabilities of other tokens than the sampled; other trainers have means of their own."""
    algorithm, sampling = config.algorithm, config.sampling
    if not algorithm.surrogate.likeliest or config.backend.kind != "builtin":
        return
    reason = f"algorithm.surrogate={algorithm.surrogate.kind} reads the sampler's probabilities of its likeliest tokens"
    if algorithm.source.kind != "policy":
        yield f"{reason}, and algorithm.source={algorithm.source.kind} is no sampling from the policy; set it to policy"
    if algorithm.engine_correction.old_log_probs != "sampler":
        yield f"{reason} as the old ones; set algorithm.engine_correction.old_log_probs=sampler"
    if sampling.top_p < 1 or sampling.top_k > 0:
        yield f"{reason}, and filtered sampling makes most of them 0; set sampling.top_p=1 and top_k=0"
    if algorithm.importance_ratio != "token":
        yield f"{reason}, token by token; set algorithm.importance_ratio=token"


def _weights(config: RunConfig) -> Iterator[str]:
    algorithm, kind = config.algorithm, config.algorithm.engine_correction.kind
    weighs_tokens = kind in ("token", "token_mask")
    if kind != "none" and algorithm.surrogate.folds_correction and not weighs_tokens:
        yield (
            f"algorithm.surrogate={algorithm.surrogate.kind} takes the weights of tokens into its own weight of the response; "
            f"algorithm.engine_correction.kind={kind} weighs responses: set it to token or token_mask"
        )
    if algorithm.top_entropy_fraction < 1 and algorithm.surrogate.folds_correction:
        yield (
            f"algorithm.surrogate={algorithm.surrogate.kind} takes the weights of tokens into its own weight of the response, where "
            f"algorithm.top_entropy_fraction={algorithm.top_entropy_fraction} would be one: set it to 1"
        )
    one_loss = algorithm.importance_ratio == "sequence" or algorithm.surrogate.kind == "geometric_mean"
    if weighs_tokens and one_loss:
        yield (
            f"algorithm.engine_correction.kind={kind} weighs tokens, and this algorithm has one loss a response "
            "(algorithm.importance_ratio=sequence or surrogate=geometric_mean): set it to sequence or sequence_mask"
        )


def _sampling(config: RunConfig) -> Iterator[str]:
    sampling, source = config.sampling, config.algorithm.source.kind
    correction = config.algorithm.engine_correction
    sampler_is_old = correction.old_log_probs == "sampler"
    if sampling.lag_steps and source != "policy":
        yield (
            f"sampling.lag_steps={sampling.lag_steps} lets the sampling policy lag; algorithm.source={source} does not sample from it: "
            "set it to 0"
        )
    if sampler_is_old and correction.kind != "none":
        yield (
            f"algorithm.engine_correction.kind={correction.kind} needs algorithm.engine_correction.old_log_probs=recomputed: with "
            "the sampler's log-probs the ratio corrects for the engine already, and the weight would correct it twice"
        )
    filtered = sampling.top_p < 1 or sampling.top_k > 0
    if filtered and correction.kind != "none":
        yield (
            f"algorithm.engine_correction.kind={correction.kind} with sampling.top_p={sampling.top_p:g} and top_k={sampling.top_k}: the "
            "sampler's log-probs are of the filtered distribution, the trainer's of the whole one, so that every weight is biased by the "
            "mass that the filter leaves; set top_p=1 and top_k=0, or algorithm.engine_correction.kind=none"
        )
    if filtered and sampler_is_old:
        yield (
            "sampling.top_p < 1 or top_k > 0 needs algorithm.engine_correction.old_log_probs=recomputed: the sampler's log-probs are "
            "those of the filtered distribution, so the importance ratio would not start at 1"
        )
    if max(config.evaluation.caps) < sampling.max_response_tokens:
        yield (
            f"evaluation.caps={config.evaluation.caps} are all below sampling.max_response_tokens="
            f"{sampling.max_response_tokens}; add the training cap"
        )


def _problems(config: RunConfig) -> Iterator[str]:
    problems, prompts = getattr(config.task, "problems", None), config.algorithm.prompts_per_step
    if isinstance(problems, int) and problems < prompts:
        yield (
            f"task.problems={problems} is less than algorithm.prompts_per_step={prompts}: a step draws distinct problems; raise the "
            "one or lower the other"
        )
    check = getattr(implementation("harness.base_policy", config.model), "check", None)
    if check is not None:
        check(config.model, config.task)
