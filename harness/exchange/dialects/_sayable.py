"""What each dialect can say, tried in both directions: one setting at a time is changed, exported, and read back."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

from harness.configuration.families import ADVANTAGE, AGGREGATION, KL, SURROGATE
from harness.configuration.registry import kinds, member
from harness.configuration.schema import RunConfig
from harness.exchange.dialects._declared import of

FAMILY = "harness.exchange.dialects"
_BASE = {"algorithm.engine_correction.old_log_probs": "recomputed", "algorithm.updates_per_step": 1}
# What a trainer's estimator always has besides, so that the table tells of the estimator and not of its epsilon.
_ELSEWHERE = (
    "epsilon",
    "ddof",
    "whiten_over",
    "constant_tokens",
    "micro_batch_tokens",
    "micro_batch_responses",
    "cap",
    "cap_min",
)


# Trainers tie some settings to others (TRL's cispo is a token mean, DPPO's ratio is to the sampler): one of these beside it is enough.
_COMPANY: tuple[dict[str, Any], ...] = (
    {},
    {"algorithm.aggregation.kind": "batch_token_mean"},
    {"algorithm.engine_correction.old_log_probs": "sampler"},
    {"algorithm.importance_ratio": "sequence"},
)


def changes() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every setting that is tried: what the table calls it, and our dotted keys, kinds of a family first."""
    for family, key in ((ADVANTAGE, "advantage"), (SURROGATE, "surrogate"), (AGGREGATION, "aggregation")):
        for kind in kinds(family):
            if (key, kind) != ("advantage", "group"):
                yield f"`{key}={kind}`", {f"algorithm.{key}.kind": kind}
    for scale in member(ADVANTAGE, "group").SCALES:
        more = {"others_std": {"baseline": "leave_one_out"}, "batch_whiten": {"whiten_over": "tokens"}}.get(
            scale, {}
        )
        said = "".join(f", {name} {value}" for name, value in more.items())
        yield f"`advantage.scale={scale}`{said}", of("algorithm.advantage", scale=scale, **more)
    yield (
        "`advantage.baseline=leave_one_out`, no scale",
        {"algorithm.advantage.baseline": "leave_one_out", "algorithm.advantage.scale": "none"},
    )
    yield "`importance_ratio=sequence`", {"algorithm.importance_ratio": "sequence"}
    for kind in kinds(KL):
        yield f"`kl={kind}` in the loss", {"algorithm.kl.kind": kind, "algorithm.kl.coefficient": 0.01}
    yield (
        "`kl=k1` in the reward",
        {"algorithm.kl.kind": "k1", "algorithm.kl.coefficient": 0.01, "algorithm.kl.placement": "reward"},
    )
    for kind in ("token", "token_mask", "sequence", "sequence_mask", "geometric_mask"):
        yield (
            f"`engine_correction={kind}`",
            {
                "algorithm.engine_correction.kind": kind,
                "algorithm.engine_correction.floor": 0.5 * kind.endswith("mask"),
            },
        )
    yield "`old_log_probs=sampler`", {"algorithm.engine_correction.old_log_probs": "sampler"}
    for policy in ("wrong", "mask", "soft"):
        yield f"`overlong={policy}`", {"algorithm.overlong.policy": policy, "algorithm.reward.wrong": 0.0}
    for policy in ("drop", "refill"):
        yield (
            f"`dead_groups={policy}`",
            {"algorithm.dead_groups.policy": policy, "algorithm.dead_groups.metric": "reward"},
        )
    yield (
        "`dead_groups=refill`, by accuracy",
        {"algorithm.dead_groups.policy": "refill", "algorithm.dead_groups.metric": "accuracy"},
    )
    yield "several updates a step", {"algorithm.updates_per_step": 4}
    yield "several epochs a step", {"algorithm.epochs_per_step": 2}
    yield "entropy bonus", {"algorithm.entropy_coefficient": 0.001}
    yield "likelihood of right responses", {"algorithm.positive_nll_coefficient": 0.1}
    yield "high-entropy tokens", {"algorithm.top_entropy_fraction": 0.2}
    yield "off-policy mask", {"algorithm.off_policy_mask_nats": 0.1}
    yield "sampler one step behind", {"sampling.lag_steps": 1}


def says(dialect: str, base: RunConfig, change: Mapping[str, Any]) -> bool:
    """Say if a dialect exports a change, in some company, without naming it, and reads it back as it was."""
    return any(_says(dialect, base, change, company) for company in _COMPANY)


def _says(dialect: str, base: RunConfig, change: Mapping[str, Any], company: Mapping[str, Any]) -> bool:
    module = member(FAMILY, dialect)
    exported, plain = (module.export(changed(base, {**company, **more})) for more in (change, {}))
    lines = [
        line for line in exported.inexpressible if line.partition("=")[0].rpartition(".")[2] not in _ELSEWHERE
    ]
    section = next(iter(change)).rpartition(".")[0]
    inside = () if section in ("algorithm", "sampling") else (f"{section}.", f"{section}=")
    own = (*change, *inside)
    if set(lines) - set(plain.inexpressible) or any(line.startswith(own) for line in lines):
        return False
    returned = module.overrides(exported.settings)
    found = {
        key.replace("algorithm/", "algorithm.") + ".kind" * ("/" in key): value
        for key, value in returned.settings.items()
    }
    new = set(returned.inexpressible) - set(module.overrides(plain.settings).inexpressible)
    return not new and all(found.get(key, attrgetter(key)(base)) == value for key, value in change.items())


def changed(base: RunConfig, change: Mapping[str, Any]) -> RunConfig:
    """Return a copy of a configuration with other values; another kind comes with its own defaults."""
    config = copy.deepcopy(base)
    for key, value in {**_BASE, **change}.items():
        section, _, name = key.rpartition(".")
        if name == "kind" and section != "algorithm.engine_correction":
            owner, _, field = section.rpartition(".")
            made = member(f"harness.objective.{field}", value).Config()
            made.kind = value
            setattr(attrgetter(owner)(config), field, made)
        else:
            setattr(attrgetter(section)(config), name, value)
    return config


def table(base: RunConfig) -> str:
    """Return a markdown table: a setting a row, a dialect a column."""
    names = sorted(kinds(FAMILY))
    lines = [f"| | {' | '.join(names)} |", f"|{'---|' * (len(names) + 1)}"]
    for name, change in changes():
        lines.append(
            f"| {name} | {' | '.join('yes' if says(dialect, base, change) else '–' for dialect in names)} |"
        )
    return "\n".join(lines)
