"""Members of the objective put together at random: every choice of a field, numbers near its default; what a dialect's export takes."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from batches import CAP, ONE_BATCH, tensors

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.registry import ADVANTAGE, AGGREGATION, KL, SURROGATE, kinds, member
from harness.configuration.schema import RunConfig, check_combinations
from harness.configuration.sections import CORRECTIONS, EngineCorrectionConfig, OverlongConfig

CANDIDATES, TRIES = 120, 60
Draw = Callable[[np.random.Generator], Any]
GAPS = (0.05, 0.3, 1.0, 3.0)  # nats, up to where bounds and clamps bind
NUMBERS: Mapping[str, tuple[Any, ...]] = {  # what a peer has, and something else
    "epsilon": (1e-4, 1e-6, 1e-8, 1e-2),
    "dual_clip": (None, 1.1, 3.0),
    "constant_tokens": (1.0, float(CAP), 7.0),
    "micro_batch_responses": (None, 16),  # the peer gets one micro-batch
    "micro_batch_tokens": (10_000,),
    "fraction": (1.0,),  # the draw is random there
    "length_adaptive_alpha": (None, 0.5),
    "low": (0.1, 1.0),
    "cap_min": (0.0, 0.5),
}


def accepted(dialect: ModuleType, *more: str) -> dict[str, tuple[RunConfig, dict[str, Any]]]:
    """Combinations that our own checks and the dialect's export take, by a name that says what they are, each with a batch. Fixed seeds."""
    rng, found = np.random.default_rng(7), dict[str, tuple[RunConfig, dict[str, Any]]]()
    base = compose_run(["algorithm=grpo", *ONE_BATCH, *more])
    for number in range(CANDIDATES):
        config = taken(rng, base, dialect)
        if config is not None:
            found[f"{number}: {said(config)}"] = config, tensors(number, GAPS[number % len(GAPS)])
    assert len(found) > CANDIDATES // 3
    assert len({config.algorithm.surrogate.kind for config, _ in found.values()}) >= 4
    return found


def taken(rng: np.random.Generator, base: RunConfig, dialect: ModuleType) -> RunConfig | None:
    """A combination that is allowed and expressible: what is refused is drawn again, a part at a time; None after many tries."""
    values = {part: draw(rng) for part, draw in PARTS.items()}
    for _ in range(TRIES):
        config = copy.deepcopy(base)
        for part, value in values.items():
            setattr(config.algorithm, part, value)
        try:
            check_combinations(config)
            refused = [line.partition("=")[0] for line in dialect.export(config).inexpressible]
        except ConfigError as error:
            refused = re.findall(r"algorithm\.[\w.]+", str(error))
        parts = sorted({name.split(".")[1] for name in refused} & PARTS.keys())
        if not refused:
            return config
        part = str(rng.choice(parts or sorted(PARTS)))
        values[part] = PARTS[part](rng)
    return None


def _member(family: str) -> Draw:
    def draw(rng: np.random.Generator) -> Any:
        kind = str(rng.choice(sorted(kinds(family))))
        return settings(rng, member(family, kind).Config, kind)

    return draw


def _kl(rng: np.random.Generator) -> Any:
    kind = str(rng.choice(sorted(kinds(KL))))
    drawn = settings(rng, member(KL, kind).Config, kind)
    return dataclasses.replace(drawn, coefficient=float(rng.choice([0.0, 0.05])), reset_every_steps=None)


def _overlong(rng: np.random.Generator) -> Any:
    drawn = settings(rng, OverlongConfig, "", often=0.6)
    return dataclasses.replace(drawn, buffer_fraction=float(rng.choice([0.25, 0.3])))


def _correction(rng: np.random.Generator) -> Any:
    if rng.random() < 0.4:
        return EngineCorrectionConfig()
    kind = str(rng.choice([one for one in CORRECTIONS if one != "none"]))
    cap, floor = float(rng.choice([1.2, 2.0])), float(rng.choice([0.0, 0.8]))
    return EngineCorrectionConfig(kind=kind, cap=cap, floor=floor, old_log_probs="recomputed")


def _one_of(*values: Any) -> Draw:
    return lambda rng: values[rng.integers(len(values))]


# Corrections that both exporters take: all but geometric_mask.
TAKEN = {"none", "token", "token_mask", "sequence", "sequence_mask"}
PARTS: Mapping[str, Draw] = {
    "advantage": _member(ADVANTAGE),
    "surrogate": _member(SURROGATE),
    "aggregation": _member(AGGREGATION),
    "kl": _kl,
    "importance_ratio": _one_of("token", "token", "sequence"),
    "overlong": _overlong,
    "engine_correction": _correction,
    "entropy_coefficient": _one_of(0.0, 0.0, 0.01),
    "top_entropy_fraction": _one_of(1.0, 1.0, 0.317),
    "off_policy_mask_nats": _one_of(None, None, 0.05),
    "advantage_sign": _one_of("both", "both", "both", "positive"),
}


def settings(rng: np.random.Generator, kind_of: Any, kind: str, often: float = 0.0) -> Any:
    """A section with choices and switches at random and numbers near their defaults; each at its default with probability ``often``."""
    values: dict[str, Any] = {"kind": kind} if kind else {}
    for item in dataclasses.fields(kind_of):
        limit, default = item.metadata.get("limit"), item.default
        choices = getattr(limit, "keywords", {}).get("choices")
        if item.name == "kind" or rng.random() < often:
            continue
        if item.name in NUMBERS:
            values[item.name] = NUMBERS[item.name][rng.integers(len(NUMBERS[item.name]))]
        elif choices:
            values[item.name] = choices[rng.integers(len(choices))]
        elif isinstance(default, bool):
            values[item.name] = bool(rng.integers(2))
        elif isinstance(default, float) and rng.random() < 0.5:
            bounds = getattr(limit, "keywords", {"low": -np.inf, "high": np.inf})
            values[item.name] = float(np.clip(default * rng.uniform(0.5, 1.5), bounds.get("low"), bounds.get("high")))
    try:
        return kind_of(**values)
    except ConfigError:  # numbers that do not go together
        return kind_of(**({"kind": kind} if kind else {}))


def said(config: RunConfig) -> str:
    """The members of a combination; its number and the fixed seed give the rest."""
    algorithm = config.algorithm
    parts = (algorithm.surrogate, algorithm.advantage, algorithm.aggregation, algorithm.kl, algorithm.engine_correction)
    return ", ".join(part.kind for part in parts)
