"""A published claim that an experiment decides, declared before its runs, and the second look at it.

A second look is the same declaration on seeds and base policies that the first look did not use (`harness audit replicate=true`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harness.configuration.error import ConfigError, require
from harness.configuration.identity import content_hash, identity, without_neutral
from harness.configuration.registry import retired_keys
from harness.configuration.sections import of_machine
from harness.statistics.sequential import overlap_text
from harness.store import ResultStore, layout
from harness.store.atomic import write_file

if TYPE_CHECKING:
    from harness.configuration.schema import RunConfig

EXPECTS = ("higher", "lower", "equivalent", "not_higher", "not_lower")
START, STEP, MOST = 8, 4, 16  # seeds at the looks of a second look's design
_BUDGET = ("steps", "generated_tokens", "seconds")


@dataclass
class Claim:
    """The prediction that the only comparison of the experiment is held against.

    Attributes:
        statement: the claim in a sentence.
        source: paper and section, and how much of it was read.
        setting: the source's models and data.
        expects: what the source predicts of arm minus reference: higher, lower, equivalent (within the margin), not_higher or not_lower
            (by the margin or more).
        differs: which difference between the source's setting and this one could explain another result.
    """

    statement: str
    source: str
    setting: str
    expects: str
    differs: str

    def __post_init__(self) -> None:
        require("experiment.claim.expects", self.expects, EXPECTS)
        for name in ("statement", "source", "setting", "differs"):
            if not getattr(self, name).strip():
                raise ConfigError(f"experiment.claim.{name} is empty; a claim says it before it is run")


def check_claim(claim: Claim, arms: list[dict[str, Any]], metrics: list[str], margin: object) -> None:
    """Raise `ConfigError` unless one comparison in one metric decides the claim, with a margin."""
    if len(arms) != 2:
        raise ConfigError(f"experiment.claim: one comparison decides a claim, so two arms; there are {len(arms)}")
    if len(metrics) != 1:
        raise ConfigError("experiment.claim: one metric decides a claim; declare another claim for the other")
    if margin is None:
        raise ConfigError(
            f"experiment.claim: expects={claim.expects} needs experiment.margin, below which nothing matters"
        )


def fingerprint(experiment: Any, overrides: Sequence[str] = ()) -> str:
    """Hash the whole declaration of an `Experiment` with a claim, and the overrides of all arms but those of the machine, to 16 digits."""
    declaration = without_neutral(experiment)
    arm_overrides = sorted(item for item in overrides if not of_machine(item))
    return content_hash([declaration, arm_overrides] if arm_overrides else declaration)


def remember(store: ResultStore, name: str, declaration: str) -> None:
    """Store the declaration's fingerprint at the first run only, so that a later declaration is known as such."""
    path = layout.plan_file(store.root, name).parent / layout.DECLARATION
    if not path.exists():
        timestamp = datetime.now(UTC).isoformat(timespec="seconds")
        write_file(path, json.dumps({"declaration": declaration, "first_run_at": timestamp}).encode())


def base_policies(configs: Sequence[RunConfig], seeds: Sequence[int]) -> dict[int, str]:
    """Map each seed to the policy that its runs start from; where the arms start from several, their names are joined."""
    return {seed: "+".join(sorted({_base_policy(config, seed) for config in configs})) for seed in seeds}


def _base_policy(config: RunConfig, seed: int) -> str:
    """Name the policy: the shipped set and its index there, else the content of the model's section, with the number of a cold start."""
    model: Any = config.model
    values = identity(config)["model"]
    if _has_cold_start(config):
        values.pop("bases", None)
        return content_hash(values, model.bases.index(seed))
    if model.kind == "testbed" and model.bases.set is not None:
        return f"{model.bases.set}/{model.bases.index(seed)}"
    warmup = getattr(model, "warmup", None)
    warmup_seed = [seed] if warmup is not None and warmup.seed is None else []
    return content_hash(values, *warmup_seed)


def _has_cold_start(config: RunConfig) -> bool:
    recipe = getattr(config.model, "cold_start", None)
    return recipe is not None and recipe.steps > 0


def protocol(experiment: Any, configs: Sequence[RunConfig]) -> str:
    """Hash what two looks must share to be pooled: arms without seeds and base policies, metric, margin, benchmark, prediction.

    A matched budget is left out: each look takes it from its own reference runs.
    """
    arms = []
    for config in configs:
        values = identity(config)
        del values["seed"]
        model = values["model"] = dict(values["model"])
        if config.model.kind == "pretrained":
            model.pop("bases", None)
        elif hasattr(config.model, "bases"):
            model["bases"] = config.model.bases.set
            model["warmup"] = {key: value for key, value in model["warmup"].items() if key != "seed"}
        if experiment.match != "steps":
            values["training"] = {k: value for k, value in values["training"].items() if k not in _BUDGET}
        arms.append(values)
    keys = ("metric", "margin", "benchmark", "match", "match_reference", "match_budget", "paired")
    # A protocol never had these.
    retired_items = retired_keys(type(experiment)).items()
    retired_values = {
        key: value for key, (value, hashed) in retired_items if hashed and key not in ("reference", "orders")
    }
    declaration = retired_values | {key: getattr(experiment, key) for key in keys}
    return content_hash(declaration, experiment.claim.expects if experiment.claim else None, arms)


def second_look(name: str, config: RunConfig, first_look: Mapping[int, str], overrides: Sequence[str]) -> list[str]:
    """Overrides that turn a first look's declaration into a second one: its name, what it repeats, and fresh seeds.

    `first_look`: seed to base policy of the first look. `experiment.seeds` of the command line replaces the fresh seeds. All claims begin
    in the second half of the shipped base policies, so they share runs; cold starts are made anew. Raises `ConfigError` where none is left.
    """
    other_look = [f"experiment.name={name}_second", f"++experiment.replicates={name}", *_fresh_policies(config)]
    if any(is_seeds(item) for item in overrides):
        return other_look
    bases: Any = getattr(config.model, "bases", None)
    if _has_cold_start(config):
        looks = f"{{first: {max(first_look) + 1}, start: {START}, step: {STEP}, most: {MOST}}}"
        return [*other_look, f"experiment.seeds={looks}"]
    if bases is None or config.model.kind == "pretrained":
        raise ConfigError(
            f"{name} starts every seed from one policy, and a second look needs another: choose it, and seeds that were not used, yourself "
            "(model=... 'experiment.seeds={first: 16, start: 8, step: 4, most: 16}')"
        )
    count = bases.count if bases.set is not None else 2 * MOST
    first = max(count // 2, max(first_look) + 1)
    if count - first < START:
        raise ConfigError(
            f"{name}: its first look used seeds up to {max(first_look)} of {count} base policies; {max(count - first, 0)} are left, and a "
            f"second look needs {START}"
        )
    looks = f"{{first: {first}, start: {START}, step: {STEP}, most: {min(MOST, count - first)}}}"
    return [*other_look, f"experiment.seeds={looks}"]


def _fresh_policies(config: RunConfig) -> list[str]:
    """The override that gives a second look other base policies, where other seeds would start from those of the first."""
    model: Any = config.model
    if _has_cold_start(config):
        return [f"model.bases.first={model.bases.first + model.bases.count}"]
    one_warmup = model.kind == "testbed" and model.bases.set is None and model.warmup.seed is not None
    return [f"model.warmup.seed={model.warmup.seed + 1}"] if one_warmup else []


def is_seeds(override: str) -> bool:
    """Whether an override of the command line chooses the experiment's seeds."""
    return override.lstrip("+").startswith("experiment.seeds")


def refuse_shared(name: str, first: Mapping[int, str], second: Mapping[int, str]) -> None:
    """Raise `ConfigError` where the looks have a seed or a base policy in common."""
    if overlap := overlap_text(first, second):
        fix = "choose others, for example 'experiment.seeds={first: 16, start: 8, step: 4, most: 16}'"
        if len({*first.values(), *second.values()}) == 1:
            fix = "every seed starts from that policy, so name another one (model=...), and seeds that were not used"
        raise ConfigError(
            f"{name}: a second look must not share what the first one used, and they share {overlap}; {fix}"
        )
