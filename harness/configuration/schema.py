"""The run configuration: everything that can change a run's numbers, plus `runtime`, which cannot (beyond rounding).

Hydra composes YAML; `load` turns the plain result into these classes and refuses unknown keys, wrong types and impossible
combinations, naming the nearest valid key. Importing this module imports no torch.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.algorithm import AlgorithmConfig
from harness.configuration.combinations import check_combinations
from harness.configuration.families import BACKEND, BENCHMARK, ENGINE, MODEL, family, own_members
from harness.configuration.loader import load_dataclass
from harness.configuration.runtime import RuntimeConfig
from harness.configuration.sections import (
    EvaluationConfig,
    OptimizerConfig,
    SamplingConfig,
    TrainingConfig,
    VerifierSection,
)

_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml where PyYAML has it: five times faster


@dataclass
class RunConfig:
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

    @property
    def score_cap(self) -> int:
        """The response cap in tokens at which scores are read: that of training where it is evaluated, else the largest that is."""
        cap = self.sampling.max_response_tokens
        return cap if cap in self.evaluation.caps else max(self.evaluation.caps)

    def __post_init__(self) -> None:
        check_combinations(self)


def load(values: dict[str, Any]) -> RunConfig:
    """Build a `RunConfig` from a plain nested mapping.

    Raises:
        ConfigError: an unknown key (with the nearest valid one), a wrong type, an unknown member, an impossible combination.
    """
    sampling = values.get("sampling")
    if isinstance(sampling, dict) and sampling.get("streaming") is False:
        # Runs with the same id were stored while this key still existed.
        rest = {key: value for key, value in sampling.items() if key != "streaming"}
        values = {**values, "sampling": rest}
    own_members(map(Path, (values.get("runtime") or {}).get("config_dir") or ()))
    return load_dataclass(RunConfig, values, "")


def dump(config: Any) -> dict[str, Any]:
    """The plain nested mapping of a configuration; `load(dump(c)) == c`."""
    return dataclasses.asdict(config)


def as_yaml(config: Any) -> str:
    """A configuration as YAML, every key written out: how runs store theirs."""
    return yaml_text(dump(config))


def yaml_text(values: dict[str, Any]) -> str:
    """A dumped configuration as YAML."""
    return str(yaml.dump(values, Dumper=_Dumper, sort_keys=False))
