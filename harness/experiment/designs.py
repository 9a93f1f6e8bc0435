"""How a ladder becomes arms: cumulative, leave-one-out, one-factor, factorial, random orders.

A *patch* is one YAML under `conf/patch` that changes a few keys; a *rung* is the previous rung plus exactly one patch. Designs are
expanded from a base and a list of patches; two patches that write the same key are refused, since in Hydra the last one would silently
win and the order would decide the result.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.compose import patch_values
from harness.configuration.error import ConfigError, require
from harness.configuration.own_folder import folders_of
from harness.experiment.patches import Changes, patch_changes

DESIGNS = ("arms", "cumulative", "leave_one_out", "one_factor", "factorial", "shapley")


@dataclass(frozen=True)
class Arm:
    """One configuration of an experiment: overrides on the base configuration, and how it relates to the others.

    `seeds` are training seeds of its own, where it must not share those of the experiment (an A/A comparison).
    """

    name: str
    overrides: tuple[str, ...]
    label: str = ""
    parent: str | None = None
    patch: str | None = None
    patches: tuple[str, ...] = ()
    published: Mapping[str, Any] | None = None
    group: str | None = field(default=None)
    seeds: tuple[int, ...] = ()


def design_arms(
    design: str,
    base: Sequence[str],
    patches: Sequence[str],
    orders: int = 8,
    seed: int = 0,
    together: Mapping[str, Sequence[str]] | None = None,
) -> list[Arm]:
    """Expand a design into arms, base first.

    Args:
        design: cumulative (each patch on top of the ones before), leave_one_out (all patches, and all but each), one_factor
            (base and each patch alone), factorial (all subsets), shapley (all prefixes of `orders` random orders).
        base: overrides of the base arm.
        patches: patch names in order.
        orders: random orders for shapley.
        seed: of the random orders.
        together: patch that stands for several of `patches` in an arm that has them all (they may then write the same key).

    Raises:
        ConfigError: an unknown design, no patches, a factorial of more than eight patches, conflicting patches, or a combination
            that cannot be.
    """
    require("experiment.design", design, DESIGNS)
    if design == "arms":
        choices = ", ".join(name for name in DESIGNS if name != "arms")
        raise ConfigError(
            f"experiment.design=arms needs experiment.arms; for experiment.patches choose one of: {choices}"
        )
    if not patches:
        raise ConfigError(f"experiment.design={design} needs experiment.patches")
    combined = {name: tuple(parts) for name, parts in (together or {}).items()}
    check_conflicts(base, patches, combined)
    subsets = {"cumulative": _cumulative, "one_factor": _one_factor, "leave_one_out": _leave_one_out}.get(
        design
    )
    chosen = subsets(patches) if subsets else _unordered(design, patches, orders, seed)
    return [
        Arm(
            name=arm_name(subset),
            overrides=(*base, f"patch=[{','.join(_written(subset, combined))}]") if subset else tuple(base),
            label=_label(design, subset, patches),
            parent=parent,
            patches=subset,
            patch=subset[-1] if subset and design in ("cumulative", "one_factor") else None,
        )
        for subset, parent in {(): None, **chosen}.items()
    ]


_Subsets = dict[
    tuple[str, ...], str | None
]  # patches of an arm, in the declared order -> its parent arm's name


def _cumulative(patches: Sequence[str]) -> _Subsets:
    return {tuple(patches[:count]): arm_name(patches[: count - 1]) for count in range(1, len(patches) + 1)}


def _one_factor(patches: Sequence[str]) -> _Subsets:
    return {(patch,): arm_name(()) for patch in patches}


def _leave_one_out(patches: Sequence[str]) -> _Subsets:
    full = tuple(patches)
    return {full: None} | {tuple(p for p in patches if p != left): arm_name(full) for left in patches}


def _unordered(design: str, patches: Sequence[str], orders: int, seed: int) -> _Subsets:
    """Factorial: all subsets. Shapley: every prefix of the random orders."""
    if design == "factorial":
        if len(patches) > 8:
            raise ConfigError(
                f"a factorial of {len(patches)} patches has {2 ** len(patches)} arms; use at most 8 patches"
            )
        sizes = range(1, len(patches) + 1)
        return {subset: None for count in sizes for subset in itertools.combinations(patches, count)}
    prefixes = [
        set(order[:count])
        for order in random_orders(patches, orders, seed)
        for count in range(1, len(order) + 1)
    ]
    return {tuple(p for p in patches if p in prefix): None for prefix in prefixes}


def random_orders(patches: Sequence[str], orders: int, seed: int) -> list[tuple[str, ...]]:
    """Distinct random orders of the patches (all of them where there are no more than asked for), each followed by its reverse.

    Pairing an order with its reverse (antithetic sampling) lowers the variance of Shapley estimates at no cost.
    """
    every = 1
    for number in range(2, len(patches) + 1):
        every *= number
    if every <= orders:
        return list(itertools.permutations(patches))
    rng, chosen = random.Random(f"orders/{seed}"), dict[tuple[str, ...], None]()
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
    base: Sequence[str], patches: Sequence[str], together: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Changes]:
    """Each patch's changes against the base; refuse patches that change nothing or write the same key.

    Two that write the same key may stand in one design if a patch is declared for both (`together`).

    Raises:
        ConfigError: naming the patches, the key and the fix.
    """
    combined = together or {}
    _check_together(combined, folders_of(base))
    deltas = {patch: patch_changes(patch, base) for patch in patches}
    for patch, delta in deltas.items():
        if not delta:
            raise ConfigError(
                f"patch {patch!r} changes nothing on this base; take it out of experiment.patches"
            )
    for first, second in itertools.combinations(patches, 2):
        shared = deltas[first].keys() & deltas[second].keys()
        if shared and not any({first, second} <= set(parts) for parts in combined.values()):
            raise ConfigError(
                f"patches {first!r} and {second!r} both write {', '.join(sorted(shared))}; the order would decide: keep one of "
                "them, or write the combination as a patch of its own and name it in experiment.together"
            )
    return deltas


def _check_together(together: Mapping[str, Sequence[str]], folders: Sequence[Path]) -> None:
    """Raises `ConfigError` for a combination of fewer than two patches, of unknown ones, or of one that another combination has."""
    seen = dict[str, str]()
    for combination, parts in together.items():
        where = f"experiment.together.{combination}={list(parts)}"
        if len(set(parts)) < 2:
            raise ConfigError(f"{where}: it needs two patches or more")
        for part in parts:
            patch_values(part, folders)  # it exists
            if part in seen:
                raise ConfigError(f"{where}: {part!r} is in {seen[part]!r} already")
            seen[part] = combination


def against(names: Mapping[str, str | None], design: str) -> dict[str, str | None]:
    """Say what each arm (name to declared parent) is compared with: its parent, else the base, the first arm without one.

    The full recipe of a leave-one-out is compared with nothing: the others are compared with it.
    """
    base = next((name for name, parent in names.items() if parent is None), next(iter(names)))
    inherited = None if design == "leave_one_out" else base
    return {
        name: parent if parent is not None else (None if name == base else inherited)
        for name, parent in names.items()
    }


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
