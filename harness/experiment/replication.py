"""A second look at a decided claim: the same declaration on seeds and base policies that the first look did not use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash, identity
from harness.statistics.replication import shared

if TYPE_CHECKING:  # planning records what is here
    from harness.configuration.schema import RunConfig
    from harness.experiment.declaration import Experiment

SUFFIX = "_second"
START, STEP, MOST = 8, 4, 16  # looks of a second look
_PROTOCOL = (
    "metric", "margin", "checkpoint_rule", "dev_benchmark", "benchmark", "match", "match_reference", "match_budget", "paired",
)  # fmt: skip


def base_policy(config: RunConfig, seed: int) -> str:
    """Name the policy that a run of this seed starts from: the shipped one and its place, else the content of the model's section."""
    bases = getattr(config.model, "bases", None)
    if bases is not None and bases.set is not None:
        return f"{bases.set}/{bases.index(seed)}"
    warmup = getattr(config.model, "warmup", None)
    own = [seed] if warmup is not None and warmup.seed is None else []
    return content_hash(identity(config)["model"], *own)


def starts(configs: Sequence[RunConfig], seeds: Sequence[int]) -> dict[int, str]:
    """The base policy of every seed; where the arms start from several, their names are joined."""
    found = {seed: sorted({base_policy(config, seed) for config in configs}) for seed in seeds}
    return {seed: "+".join(names) for seed, names in found.items()}


def protocol(experiment: Experiment, configs: Sequence[RunConfig]) -> str:
    """16 hexadecimal digits of all that two looks must have in common to be pooled.

    That is the arms without seeds and base policies, metric, margin, checkpoint rule, benchmark and what is predicted. A matched budget is
    that of each look's own reference runs.
    """
    arms = []
    for config in configs:
        values = identity(config)
        del values["seed"]
        if hasattr(config.model, "bases"):
            model = values["model"] = dict(values["model"])
            model["bases"] = config.model.bases.set
            model["warmup"] = {key: value for key, value in model["warmup"].items() if key != "seed"}
        if experiment.match != "steps":
            own = ("steps", "generated_tokens", "seconds")
            values["training"] = {key: value for key, value in values["training"].items() if key not in own}
        arms.append(values)
    declared = {key: getattr(experiment, key) for key in _PROTOCOL}
    return content_hash(declared, experiment.claim.expects if experiment.claim else None, arms)


def terms(experiment: Experiment, configs: Sequence[RunConfig], seeds: Sequence[int]) -> dict[str, Any]:
    """What a second look at a claim is held against, for the stored plan: what must be the same, what another; nothing without a claim."""
    if experiment.claim is None:
        return {}
    own = {str(seed): name for seed, name in starts(configs, seeds).items()}
    return {"protocol": protocol(experiment, configs), "starts": own}


def overrides(name: str, config: RunConfig, used: Mapping[int, str], given: Sequence[str]) -> list[str]:
    """Overrides that make the first look's declaration a second one: its name, whom it repeats, and fresh seeds.

    Claims share runs where they share arms, so all begin in the second half of the shipped base policies.

    Args:
        name: of the experiment whose first look is repeated.
        config: of an arm of it.
        used: seeds and base policies of its first look.
        given: overrides of the command line; `experiment.seeds` among them takes the place of the fresh seeds.

    Raises:
        ConfigError: no base policy is left that the first look did not use.
    """
    made = [f"experiment.name={name}{SUFFIX}", f"++experiment.replicates={name}"]
    if any(item.lstrip("+").startswith("experiment.seeds") for item in given):
        return made
    model: Any = config.model
    bases = getattr(model, "bases", None)
    if bases is None:
        raise ConfigError(
            f"{name} starts every seed from one policy ({model.kind}), and a second look needs another: choose it, and seeds that were "
            "not used, yourself (model=... 'experiment.seeds={first: 16, start: 8, step: 4, most: 16}')"
        )
    policies = bases.count if bases.set is not None else 2 * MOST
    first = max(policies // 2, max(used) + 1)
    left = policies - first
    if left < START:
        raise ConfigError(
            f"{name}: its first look used seeds up to {max(used)} of {policies} base policies; {max(left, 0)} are left, and a second look "
            f"needs {START}"
        )
    looks = f"{{first: {first}, start: {START}, step: {STEP}, most: {min(MOST, left)}}}"
    apart = bases.set is not None or model.warmup.seed is None  # another seed is another base policy
    own = [] if apart else [f"model.warmup.seed={model.warmup.seed + 1}"]
    return [*made, f"experiment.seeds={looks}", *own]


def refuse_shared(name: str, first: Mapping[int, str], second: Mapping[int, str]) -> None:
    """Raise `ConfigError` where the looks have a seed or a base policy in common."""
    if both := shared(first, second):
        raise ConfigError(
            f"{name}: a second look must not share what the first one used, and they share {both}; choose others, for example "
            "'experiment.seeds={first: 16, start: 8, step: 4, most: 16}'"
        )
