"""The run configuration: everything that can change a run's numbers, plus `runtime`, which cannot (beyond rounding).

Hydra composes YAML; `load` turns the plain result into these classes and refuses unknown keys, wrong types and impossible
combinations, naming the nearest valid key. Importing this module imports no torch.
"""

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

    It registers the folders of `runtime.config_dir`, whose members it imports: what lies in a store is data (`RunDir.settings`). Raises
    `ConfigError` that names the key.
    """
    runtime = values.get("runtime")
    folders = runtime.get("config_dir") if isinstance(runtime, dict) else None
    own_members(Path(name) for name in (folders if isinstance(folders, list) else ()) if isinstance(name, str))
    return load_dataclass(RunConfig, values, "")


def section(stored: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The values of one section of a stored configuration (`RunDir.settings`), as data. Raises `ConfigError` where it has none."""
    return _mapping(stored.get(key), key)


def places(config: Any, path: str) -> Iterator[tuple[str, str]]:
    """Dotted key and value of every field that names a file, a data set, an address or a secret, where it names one (`registry.place`)."""
    flags = {} if isinstance(config, dict) else {item.name: "place" in item.metadata for item in fields(config)}
    for name, value in config.items() if isinstance(config, dict) else vars(config).items():
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
    return str(yaml.dump(values, Dumper=_Dumper, sort_keys=False))


T = TypeVar("T")


def load_dataclass(cls: type[T], values: Any, path: str) -> T:
    """Build `cls` from a plain mapping; `path` is where it stands in the whole, for messages. Raises `ConfigError`.

    Fields whose metadata name a `family` hold that family's member of the mapping's `kind`; `family_values` the same for each value of
    a mapping.
    """
    values, hints = _mapping(values, path or "the configuration"), _hints(typing.cast(type, cls))
    fields_by_name = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        item_path = f"{path}.{name}" if path else str(name)
        if name not in fields_by_name:
            # Of a file that says nothing of its place.
            own_section = name == path or item_path in ("patch", "rung", "preset")
            first_line = "; the file that says so must begin with the line `# @package _global_`"
            hint = first_line if own_section else nearest(str(name), list(fields_by_name))
            raise UnknownKeyError(f"unknown key {item_path!r}{hint}")
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
        if name not in arguments and item.default is item.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{path or 'the configuration'} needs a {name}")
    return cls(**arguments)


_hints = functools.cache(typing.get_type_hints)


def _mapping(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must be a mapping, got {value!r}")
    return value


def _load_member(package: str, values: Any, path: str) -> Any:
    kind = _mapping(values, path).get("kind")
    if not isinstance(kind, str):
        problem = f"{path} has no `kind`" if kind is None else f"{path}.kind={kind!r} is no name"
        raise ConfigError(f"{problem}; choose one of: {', '.join(sorted(kinds(package)))}")
    try:
        module = member(package, kind)
    except ValueError as error:
        raise ConfigError(f"{path}.kind: {error}") from error
    code = getattr(module.Config, "code", None)  # of a member of one's own
    if code is not None and values.get("code", code) != code:
        raise ConfigError(f"{path}={kind} is of other code ({values['code']}) than now ({code}); plan anew")
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
    """Raise `ConfigError` with the first refusal: a section or a member says itself what it cannot be combined with.

    A part of the algorithm, or `runtime`, by its method `refusals(config)`; where a run starts, by a function `check(model, task)`.
    """
    for part in (config.runtime, *(getattr(config.algorithm, item.name) for item in fields(config.algorithm))):
        for refusal in part.refusals(config) if hasattr(part, "refusals") else ():
            raise ConfigError(refusal)
    for refusal in _refusals(config):
        raise ConfigError(refusal)
    check = getattr(implementation(MODEL, config.model), "check", None)
    if check is not None:
        check(config.model, config.task)


def _refusals(config: RunConfig) -> Iterator[str]:
    """What sections beside the algorithm cannot be combined with."""
    algorithm, sampling, engine = config.algorithm, config.sampling, implementation(ENGINE, config.engine)
    if algorithm.top_entropy_fraction < 1 and not getattr(engine, "EXACT_ENTROPY", True):
        yield f"algorithm.top_entropy_fraction: engine={config.engine.kind} reports none; use native or transformers"
    if sampling.lag_steps and not algorithm.samples_policy:
        yield f"sampling.lag_steps: algorithm.source={algorithm.source.kind} samples no policy that lags; set it to 0"
    if max(config.evaluation.caps) < sampling.max_response_tokens:
        yield f"evaluation.caps={config.evaluation.caps} lack {sampling.max_response_tokens} tokens; add the training cap"
    problems, prompts = getattr(config.task, "problems", None), algorithm.prompts_per_step
    if isinstance(problems, int) and problems < prompts:
        yield f"task.problems={problems} is less than algorithm.prompts_per_step={prompts}; a step draws distinct ones"
