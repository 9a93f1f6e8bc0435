"""Arms from patches and rungs: cumulative, leave-one-out, one-factor, factorial, random orders.

A *patch* is one YAML under `conf/patch` that changes a few keys; a *rung*, one under `conf/rung`, is the rung below plus exactly one
patch. Two patches of a design that write the same key are refused: in Hydra the last one would silently win and the order would decide.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from harness.configuration.compose import (
    compose_run,
    config_directory,
    options,
    parse_overrides,
    sets_a_value,
)
from harness.configuration.error import ConfigError
from harness.configuration.identity import difference

DESIGNS = ("arms", "cumulative", "leave_one_out", "one_factor", "factorial", "shapley")
Changes = Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Arm:
    """One configuration of an experiment: overrides on the base configuration, and how it relates to the others.

    `seeds` are training seeds of its own, where it must not share those of the experiment (an A/A comparison).
    """

    name: str
    overrides: Sequence[str] = ()
    label: str = ""
    parent: str | None = None
    patch: str | None = None
    patches: Sequence[str] = ()
    published: Mapping[str, Any] | None = None
    group: str | None = None
    seeds: Sequence[int] = ()


def design_arms(
    design: str,
    base: Sequence[str],
    patches: Sequence[str],
    orders: int = 8,
    together: Mapping[str, Sequence[str]] | None = None,
    every: Sequence[str] = (),
) -> list[Arm]:
    """Expand a design into arms, base first.

    Args:
        design: cumulative (each patch on top of the ones before), leave_one_out (all patches, and all but each), one_factor
            (base and each patch alone), factorial (all subsets), shapley (all prefixes of `orders` random orders).
        base: overrides of the base arm.
        patches: patch names in order.
        orders: random orders for shapley.
        together: patch that stands for several of `patches` in an arm that has them all (they may then write the same key).
        every: overrides that come to every arm later; `config_dir=` among them says where patches of one's own lie.

    Raises:
        ConfigError: an unknown design, no patches, a factorial of more than eight patches, conflicting patches, or a combination
            that cannot be.
    """
    if design == "arms":
        choices = ", ".join(name for name in DESIGNS if name != "arms")
        raise ConfigError(
            f"experiment.design=arms needs experiment.arms; for experiment.patches choose one of: {choices}"
        )
    if not patches:
        raise ConfigError(f"experiment.design={design} needs experiment.patches")
    together = together or {}
    check_conflicts([*every, *base], patches, together)
    return [
        Arm(
            name=arm_name(subset),
            overrides=(*base, f"patch=[{','.join(_written(subset, together))}]") if subset else tuple(base),
            label=_label(design, subset, patches),
            parent=parent,
            patches=subset,
            patch=subset[-1] if subset and design in ("cumulative", "one_factor") else None,
        )
        for subset, parent in {(): None, **_subsets(design, tuple(patches), orders)}.items()
    ]


def _subsets(design: str, patches: tuple[str, ...], orders: int) -> dict[tuple[str, ...], str | None]:
    """The patches of each arm, in the declared order, and the name of its parent."""
    sizes = range(1, len(patches) + 1)
    if design == "cumulative":
        return {patches[:size]: arm_name(patches[: size - 1]) for size in sizes}
    if design == "one_factor":
        return {(patch,): arm_name(()) for patch in patches}
    if design == "leave_one_out":
        others = (tuple(patch for patch in patches if patch != left) for left in patches)
        return {patches: None} | dict.fromkeys(others, arm_name(patches))
    if design == "factorial":
        if len(patches) > 8:
            raise ConfigError(
                f"a factorial of {len(patches)} patches has {2 ** len(patches)} arms; use at most 8 patches"
            )
        return {subset: None for size in sizes for subset in itertools.combinations(patches, size)}
    prefixes = (set(order[:size]) for order in random_orders(patches, orders) for size in sizes)
    return {tuple(patch for patch in patches if patch in prefix): None for prefix in prefixes}


def random_orders(patches: Sequence[str], orders: int) -> list[tuple[str, ...]]:
    """Distinct random orders of the patches (all of them where there are no more than asked for), each followed by its reverse.

    Pairing an order with its reverse (antithetic sampling) lowers the variance of Shapley estimates at no cost.
    """
    if math.factorial(len(patches)) <= orders:
        return list(itertools.permutations(patches))
    rng, chosen = random.Random("orders/0"), dict[tuple[str, ...], None]()
    while len(chosen) < orders:
        order = tuple(rng.sample(list(patches), len(patches)))
        chosen.setdefault(order)
        chosen.setdefault(order[::-1])
    return list(chosen)[:orders]


def _written(subset: Sequence[str], together: Mapping[str, Sequence[str]]) -> list[str]:
    """The patches of an arm as they are applied: each combination that is complete in place of its parts, at the place of the first."""
    names = list(subset)
    for combination, parts in together.items():
        if set(parts) <= set(names):
            names[names.index(next(name for name in names if name in parts))] = combination
            names = [name for name in names if name not in parts]
    return names


def check_conflicts(
    base: Sequence[str], patches: Sequence[str], together: Mapping[str, Sequence[str]]
) -> None:
    """Refuse patches that change nothing on the base or are overridden by it, or that write one key without a patch declared for both.

    Raises:
        ConfigError: naming the patches, the key and the fix.
    """
    claimed: dict[str, str] = {}
    for combination, parts in together.items():
        where = f"experiment.together.{combination}={list(parts)}"
        if len(set(parts)) < 2:
            raise ConfigError(f"{where}: it needs two patches or more")
        for part in parts:
            if part in claimed:
                raise ConfigError(f"{where}: {part!r} is in {claimed[part]!r} already")
            claimed[part] = combination
    changes = {patch: patch_changes(patch, base) for patch in patches}
    for patch, changed in changes.items():
        if beaten := _beaten(patch, base):
            raise ConfigError(
                f"{', '.join(beaten)}: patch {patch!r} writes it, and so does an override of the base, which wins in every arm; take "
                "it out of experiment.base (or experiment.overrides), or out of the patch"
            )
        if not changed:
            raise ConfigError(
                f"patch {patch!r} changes nothing on this base; take it out of experiment.patches"
            )
    for first, second in itertools.combinations(patches, 2):
        shared = changes[first].keys() & changes[second].keys()
        if shared and not any({first, second} <= set(parts) for parts in together.values()):
            raise ConfigError(
                f"patches {first!r} and {second!r} both write {', '.join(sorted(shared))}; the order would decide: keep one of "
                "them, or write the combination as a patch of its own and name it in experiment.together"
            )


def _beaten(patch: str, base: Sequence[str]) -> list[str]:
    """Return the keys that a patch writes and that a value among the base's overrides sets in its stead."""
    values = [
        item for item in parse_overrides(base) if sets_a_value(item) and item.key_or_group != "config_dir"
    ]
    keys = {item.key_or_group: item.input_line for item in values}
    files = [line for line in base if line not in keys.values()]
    written = patch_changes(patch, files)
    return sorted(key for key in written if any(f"{key}.".startswith(f"{value}.") for value in keys))


def arm_name(patches: Sequence[str]) -> str:
    """The name of the arm with these patches on the base."""
    return "+".join(patches) if patches else "base"


def _label(design: str, subset: Sequence[str], patches: Sequence[str]) -> str:
    if not subset:
        return "base"
    if design == "cumulative":
        return f"+ {subset[-1].replace('_', ' ')}"
    if design == "leave_one_out":
        left = [patch for patch in patches if patch not in subset]
        return f"without {left[0].replace('_', ' ')}" if left else "all patches"
    return " + ".join(patch.replace("_", " ") for patch in subset)


# ---- patches and rungs that overrides name ----------------------------------------------------------------------------------


def patch_changes(patch: str, overrides: Sequence[str]) -> Changes:
    """Dotted key → (before, after) of a patch that is applied after those that `overrides` name.

    Raises:
        ConfigError: an unknown patch, or one that cannot stand on this configuration.
    """
    return difference(compose_run(overrides), compose_run(with_patch(overrides, patch)))


def patches_of(overrides: Sequence[str]) -> list[str]:
    """The patches that overrides name, in order."""
    chosen = [item.value() for item in parse_overrides(overrides) if item.key_or_group == "patch"]
    return [name for names in chosen for name in (names if isinstance(names, list) else [names])]


def with_patch(overrides: Sequence[str], patch: str) -> list[str]:
    """The overrides with one patch more, after those that they name."""
    rest = [item for item in overrides if not item.startswith(("patch=", "+patch="))]
    return [*rest, f"patch=[{','.join([*patches_of(overrides), patch])}]"]


def lower_rungs(overrides: Sequence[str]) -> dict[tuple[str, ...], str]:
    """The same overrides on each rung below theirs, the nearest first, with the patch that the rung above it adds."""
    found: dict[tuple[str, ...], str] = {}
    index = next((n for n, item in enumerate(overrides) if item.startswith("rung=")), None)
    rung = None if index is None else overrides[index].removeprefix("rung=")
    while rung in (known := options("rung")):
        text = (config_directory() / "rung" / f"{rung}.yaml").read_text(encoding="utf-8")
        entries = [item for item in yaml.safe_load(text)["defaults"] if isinstance(item, str)]
        rung = next((item for item in entries if item in known), None)
        patch = next((item.removeprefix("/patch/") for item in entries if item.startswith("/patch/")), "")
        if rung is not None and index is not None:
            found[*overrides[:index], f"rung={rung}", *overrides[index + 1 :]] = patch
    return found


def as_a_ladder(arms: Sequence[Arm]) -> list[Arm]:
    """The listed arms of a cumulative design: each is compared with the one before, and changes it by the patch that it has more."""
    ladder, named = list(arms[:1]), {arm.name: arm for arm in arms}
    for before, arm in itertools.pairwise(arms):
        parent = named.get(arm.parent or "", before)
        more = [name for name in _all_patches(arm.overrides) if name not in _all_patches(parent.overrides)]
        patch = arm.patch or (more[0] if len(more) == 1 else None)
        patches = (patch,) if patch else ()
        ladder.append(replace(arm, parent=arm.parent or parent.name, patch=patch, patches=patches))
    return ladder


def _all_patches(overrides: Sequence[str]) -> list[str]:
    return [*lower_rungs(overrides).values(), *patches_of(overrides)]
