"""Arms from patches and rungs: cumulative, leave-one-out, one-factor, factorial (also of factors with levels).

A *patch* is one YAML under `conf/patch` that changes a few keys; a *rung*, one under `conf/rung`, is the rung below plus exactly one
patch. Two patches of a design that write the same key are refused: in Hydra the last one would silently win and the order would decide.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

import yaml

from harness.configuration.compose import compose_run, config_directory, file_of, options, parse_overrides, sets_a_value
from harness.configuration.error import ConfigError
from harness.configuration.identity import difference
from harness.configuration.registry import nearest
from harness.experiment.plan import Arm
from harness.statistics.attribution import NONE, Crossing

MOST_ARMS = 256
DESIGNS = ("arms", "cumulative", "leave_one_out", "one_factor", "factorial")
Changes = Mapping[str, tuple[Any, Any]]


def design_arms(
    design: str,
    base: Sequence[str],
    crossing: Crossing,
    together: Mapping[str, Sequence[str]] | None = None,
    common: Sequence[str] = (),
) -> list[Arm]:
    """Expand a design into arms, base first.

    `crossing` has the factors; patches are factors with the levels off and on. `together`: a patch for several, in an
    arm that has them all. `common`: overrides that all arms get later. Raises `ConfigError`.
    """
    if design == "arms":
        choices = ", ".join(name for name in DESIGNS if name != "arms")
        raise ConfigError(f"experiment.design=arms needs experiment.arms; for patches choose one of: {choices}")
    if not crossing.factors:
        raise ConfigError(f"experiment.design={design} needs experiment.patches")
    together = together or {}
    check_factors(crossing)
    patches = tuple(level for levels in crossing.factors.values() for level in levels if level != NONE)
    subsets = _subsets(design, patches, crossing)
    check_conflicts([*common, *base], crossing, together)
    return [
        Arm(
            name=arm_name(subset),
            overrides=(*base, f"patch=[{','.join(_merge_patches(subset, together))}]") if subset else tuple(base),
            label=_label(design, subset, patches),
            parent=parent,
            patches=subset,
            patch=subset[-1] if subset and design in ("cumulative", "one_factor") else None,
        )
        for subset, parent in subsets.items()
    ]


def _subsets(design: str, patches: tuple[str, ...], crossing: Crossing) -> dict[tuple[str, ...], str | None]:
    """The patches of each arm, in the declared order, and the name of its parent."""
    if design == "factorial":
        count = math.prod(map(len, crossing.factors.values()))
        if count > MOST_ARMS:
            raise ConfigError(f"experiment.design=factorial has {count} arms, more than {MOST_ARMS}: take out patches")
        return {tuple(level for level in cell if level != NONE): None for cell in crossing.cells}
    sizes = range(1, len(patches) + 1)
    base: dict[tuple[str, ...], str | None] = {(): None}
    if design == "cumulative":
        return base | {patches[:size]: arm_name(patches[: size - 1]) for size in sizes}
    if design == "one_factor":
        return base | {(patch,): arm_name(()) for patch in patches}
    others = (tuple(patch for patch in patches if patch != omitted_patch) for omitted_patch in patches)
    return base | {patches: None} | dict.fromkeys(others, arm_name(patches))  # leave_one_out


def _merge_patches(subset: Sequence[str], together: Mapping[str, Sequence[str]]) -> list[str]:
    """The patches of an arm as they are applied: each combination that is complete in place of its parts, at the place of the first."""
    names = list(subset)
    for combination, parts in together.items():
        if set(parts) <= set(names):
            names[names.index(next(name for name in names if name in parts))] = combination
            names = [name for name in names if name not in parts]
    return names


def check_factors(crossing: Crossing) -> None:
    """Raises `ConfigError` for factors that cannot be crossed, whatever their levels write."""
    factor_of_level: dict[str, str] = {}
    for name, levels in crossing.factors.items():
        where = f"experiment.factors.{name}={list(levels)}"
        if len(levels) < 2 or NONE in levels[1:]:
            raise ConfigError(f"{where}: a factor has two levels or more, and {NONE} (the base) comes first")
        for level in levels:
            if level in factor_of_level and level != NONE:
                raise ConfigError(f"{where}: {level!r} is a level of {factor_of_level[level]!r} already")
            factor_of_level[level] = name


def check_conflicts(base: Sequence[str], crossing: Crossing, together: Mapping[str, Sequence[str]]) -> None:
    """Raise `ConfigError` for levels that are equal or that the base overrides, and for factors that write one key."""
    _check_together(together)
    changes: list[dict[str, Changes]] = []
    for name, levels in crossing.factors.items():
        changes.append({level: {} if level == NONE else patch_changes(level, base) for level in levels})
        for level in changes[-1].keys() - {NONE}:
            if keys := _overridden_keys(level, base):
                raise ConfigError(f"{', '.join(keys)}: an override of all arms and patch {level!r} write it; drop one")
        _check_levels(name, changes[-1])
    factors = itertools.combinations([levels.items() for levels in changes], 2)
    for pair in itertools.chain.from_iterable(itertools.product(*both) for both in factors):
        (first, ours), (second, theirs) = pair
        shared_keys = ours.keys() & theirs.keys()
        if shared_keys and not any({first, second} <= set(parts) for parts in together.values()):
            raise ConfigError(
                f"patches {first!r} and {second!r} both write {', '.join(sorted(shared_keys))}; keep one of them, or name a patch for both "
                "in experiment.together"
            )


def _check_together(together: Mapping[str, Sequence[str]]) -> None:
    """Raises `ConfigError` for a combination of fewer than two patches, or of one that there is not or that is in another combination."""
    combination_of_part: dict[str, str] = {}
    known = options("patch")
    for combination, parts in together.items():
        where = f"experiment.together.{combination}={list(parts)}"
        if len(set(parts)) < 2:
            raise ConfigError(f"{where}: it needs two patches or more")
        for part in parts:
            if part not in known:
                raise ConfigError(f"{where}: there is no patch {part!r}{nearest(part, known)}")
            if part in combination_of_part:
                raise ConfigError(f"{where}: {part!r} is in {combination_of_part[part]!r} already")
            combination_of_part[part] = combination


def _check_levels(name: str, changes: Mapping[str, Changes]) -> None:
    """Raises `ConfigError` unless the levels of a factor are different configurations."""
    for first, second in itertools.combinations(changes, 2):
        if changes[first] == changes[second]:
            where = "patches" if name == second else f"factors.{name}"
            if first == NONE:
                raise ConfigError(f"experiment.{where}: {second!r} changes nothing on this base; take it out")
            raise ConfigError(f"experiment.factors.{name}: {first!r} and {second!r} are one configuration; drop one")


def _overridden_keys(patch: str, base: Sequence[str]) -> list[str]:
    """Return the keys that a patch writes and that a value among the base's overrides sets in its stead."""
    values = [item for item in parse_overrides(base) if sets_a_value(item)]
    value_lines = {item.key_or_group: item.input_line for item in values}
    files = [line for line in base if line not in value_lines.values()]
    changes = patch_changes(patch, files)
    return sorted(key for key in changes if any(f"{key}.".startswith(f"{value}.") for value in value_lines))


def arm_name(patches: Sequence[str]) -> str:
    return "+".join(patches) if patches else "base"


def _label(design: str, subset: Sequence[str], patches: Sequence[str]) -> str:
    if not subset:
        return "base"
    if design == "cumulative":
        return f"+ {subset[-1].replace('_', ' ')}"
    if design == "leave_one_out":
        missing_patches = [patch for patch in patches if patch not in subset]
        return f"without {missing_patches[0].replace('_', ' ')}" if missing_patches else "all patches"
    return " + ".join(patch.replace("_", " ") for patch in subset)


def patch_changes(patch: str, overrides: Sequence[str]) -> Changes:
    """Dotted key → (before, after) of a patch that is applied after those that `overrides` name. Raises `ConfigError`."""
    return difference(compose_run(overrides), compose_run(with_patch(overrides, patch)))


def patches_of(overrides: Sequence[str]) -> list[str]:
    values = [item.value() for item in parse_overrides(overrides) if item.key_or_group == "patch"]
    return [name for names in values for name in (names if isinstance(names, list) else [names])]


def with_patch(overrides: Sequence[str], patch: str) -> list[str]:
    """The overrides with one patch more, after those that they name."""
    others = [item for item in overrides if not item.startswith(("patch=", "+patch="))]
    return [*others, f"patch=[{','.join([*patches_of(overrides), patch])}]"]


def lower_rungs(overrides: Sequence[str]) -> dict[tuple[str, ...], str]:
    """The same overrides on each rung below theirs, the nearest first, with the patch that the rung above it adds."""
    rungs_below: dict[tuple[str, ...], str] = {}
    index = next((n for n, item in enumerate(overrides) if item.startswith("rung=")), None)
    rung = None if index is None else overrides[index].removeprefix("rung=")
    while rung in (rungs := options("rung")):
        text = file_of("rung", rung).read_text(encoding="utf-8")
        entries = [item for item in (yaml.safe_load(text) or {}).get("defaults", []) if isinstance(item, str)]
        rung = next((item for item in entries if item in rungs), None)
        patch = next((item.removeprefix("/patch/") for item in entries if item.startswith("/patch/")), "")
        if rung is not None and index is not None:
            rungs_below[*overrides[:index], f"rung={rung}", *overrides[index + 1 :]] = patch
    return rungs_below


def as_a_ladder(arms: Sequence[Arm]) -> list[Arm]:
    """The listed arms of a cumulative design: each is compared with the one before, and changes it by the patch that it has more."""
    ladder, arms_by_name = list(arms[:1]), {arm.name: arm for arm in arms}
    for previous, arm in itertools.pairwise(arms):
        parent = arms_by_name.get(arm.parent or "", previous)
        previous_patches = _all_patches(parent.overrides)
        added_patches = [name for name in _all_patches(arm.overrides) if name not in previous_patches]
        patch = arm.patch or (added_patches[0] if len(added_patches) == 1 else None)
        patches = (patch,) if patch else ()
        ladder.append(replace(arm, parent=arm.parent or parent.name, patch=patch, patches=patches))
    return ladder


def _all_patches(overrides: Sequence[str]) -> list[str]:
    return [*lower_rungs(overrides).values(), *patches_of(overrides)]


_OTHER_SECTIONS = ("seed", "runtime", "tracker", "checks", "hydra")
_TERMS = {"learning_rate": "lr"}  # the field's own short forms
_VAGUE_KEYS = {"alpha", "cap", "coefficient", "count", "floor", "rank"}  # of what, says the part before
_SEPARATOR = " · "


def short_names(jobs: Sequence[Sequence[str]]) -> list[str]:
    """One name a job, a list of overrides: `clip_high 0.2 · lr 2e-4`, or `dapo` where a group's member is chosen.

    Only what differs between the jobs is named. Where nothing does, it is what the job asks for: the members it chooses, else its values,
    else `defaults`. Two jobs have one name only if they differ in nothing but seed and `runtime`.
    """
    settings = [_settings(job) for job in jobs]
    keys = list(dict.fromkeys(key for job in settings for key in job))
    varying_keys = [key for key in keys if len({job.get(key) for job in settings}) > 1]
    if not varying_keys:
        varying_keys = [key for key in keys if _is_choice(key)] or keys
    for whole in (False, True):
        names = [_SEPARATOR.join(_parts(job, varying_keys, whole=whole)) or "defaults" for job in settings]
        if len(set(names)) == len({tuple(sorted(job.items())) for job in settings}):
            break
    return names


def _settings(job: Sequence[str]) -> dict[str, str]:
    """Key → value of what makes the arm; the last of a repeated key counts, as in Hydra."""
    pairs = (item.lstrip("+~").partition("=") for item in job)
    return {key: value for key, _, value in pairs if re.split("[./]", key)[0] not in _OTHER_SECTIONS}


def _parts(settings: Mapping[str, str], varying_keys: Sequence[str], *, whole: bool) -> list[str]:
    """`whole`: with keys and values as they were written."""
    keys = [key for key in varying_keys if key in settings]
    if whole:
        return [f"{key}={settings[key]}" for key in keys]
    return [
        # `[a,b]` of `patch=[a,b]` as `a+b`.
        "+".join(part.strip() for part in settings[key].strip("[]").split(",")) or "none"
        if _is_choice(key)
        else f"{_short_key(key, varying_keys)} {_short_value(settings[key])}"
        for key in keys
    ]


def _is_choice(key: str) -> bool:
    """Say if the key chooses a member of a group (`algorithm`, `algorithm/kl`); the member's name says enough."""
    return (config_directory() / key).is_dir() and bool(options(key))


def _short_key(key: str, others: Sequence[str]) -> str:
    """Return as many last parts of a dotted key as tell it from the others."""
    parts = key.split(".")
    for count in range(2 if parts[-1] in _VAGUE_KEYS else 1, len(parts)):
        last = parts[-count:]
        if not any(other != key and other.split(".")[-count:] == last for other in others):
            return ".".join([*last[:-1], _TERMS.get(last[-1], last[-1])])
    return key


def _short_value(value: str) -> str:
    """A number in the shorter of its notations (`2e-4`, `0.28`; a drawn one: four digits); of a path its last part; else as it is."""
    try:
        number = Decimal(value).normalize()
    except InvalidOperation:
        return value.rstrip("/").rpartition("/")[2] or value
    if not number.is_finite():
        return value
    number = Decimal(f"{number:.4g}").normalize() if len(number.as_tuple().digits) > 8 else number
    plain, scientific = format(number, "f"), f"{number:E}".lower().replace("e+", "e")
    whole = number == number.to_integral_value() and abs(number) < 100_000
    return plain if whole or len(plain) <= len(scientific) else scientific
