"""Arms and seeds of runs that another trainer made: settings that differ make arms, seeds that differ repeat them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.exchange.dialects._release import infrastructure
from harness.exchange.importers._log import ForeignLogError
from harness.exchange.importers._trainer import path_safe

BY_NAME = "name"  # of `by=`: arms and seeds from the names of the runs
_ABSENT = "absent"
_SEED = re.compile(r"(?:.*[._/])?(?:\w+_)?seed")
_NAMED_SEED = re.compile(r"(?P<arm>.*?)[-_./ ]*(?:seed|sd|s)?[-_=]?(?P<seed>\d+)")
_PROBLEMS = re.compile(
    r"(?:.*[._])?(?:val|eval|validation|test)_?(?:files?|data\w*|path|split|problems|benchmarks?)"
)
_OF_THE_RUN = {  # names and places, never the method
    "_name_or_path", "default_hdfs_dir", "default_local_dir", "default_root_dir", "device", "entity", "exp_name", "experiment_name",
    "group", "group_name", "host", "hostname", "hub_model_id", "hub_token", "job_id", "local_rank", "log_dir", "logdir", "logging_dir",
    "master_addr", "master_port", "name", "notes", "output", "output_dir", "pid", "port", "project", "project_name", "push_to_hub",
    "report_to", "resume", "resume_from_checkpoint", "rollout_data_dir", "run_dir", "run_id", "run_name", "save_dir", "save_path",
    "slurm_job_id", "start_time", "tags", "timestamp", "validation_data_dir", "wandb_entity", "wandb_group", "wandb_name",
    "wandb_project", "wandb_run_id", "wandb_run_name",
}  # fmt: skip


@dataclass(frozen=True)
class Placed:
    """A run's place in the experiment: its arm, its seed, and the values of the settings that make the arm."""

    arm: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Grouping:
    """Runs by name in their places, those that have none with the reason and the fix, and what a reader of the result should know."""

    placed: dict[str, Placed] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


def group(
    configs: Mapping[str, Mapping[str, Any]], lengths: Mapping[str, int], by: Sequence[str]
) -> Grouping:
    """Return the places of runs, by their names.

    Args:
        configs: run -> its settings as dotted keys; empty where nothing tells them.
        lengths: run -> its last step; of two runs of one arm and seed the longer stays.
        by: the keys that make arms, `name` for the runs' names, none for all that differ.

    Raises:
        ForeignLogError: a key of `by` that no configuration has.
    """
    found = Grouping()
    if list(by) == [BY_NAME]:
        _by_name(configs, found)
    else:
        known = {name: config for name, config in configs.items() if config}
        for name in configs.keys() - known.keys():
            found.left[name] = (
                "no configuration beside it: put its config.yaml (or .hydra, or training_args.bin) there, take arms and seeds from the "
                "names with by=name, or import it alone with path= arm= seed="
            )
        _by_settings(_same_problems(known, found), list(by), found)
    _one_each(found, lengths)
    return found


def _by_name(configs: Mapping[str, Any], found: Grouping) -> None:
    for name in configs:
        match = _NAMED_SEED.fullmatch(name)
        if match is None or not match["arm"]:
            found.left[name] = (
                "by=name: it does not end in a seed, such as grpo_seed0; import it alone with path= arm= seed="
            )
        else:
            found.placed[name] = Placed(path_safe(match["arm"]), int(match["seed"]))


def _same_problems(configs: dict[str, Mapping[str, Any]], found: Grouping) -> dict[str, Mapping[str, Any]]:
    """Return the runs that most others share their evaluation's problems with; name the rest."""
    keys = sorted({key for config in configs.values() for key in config if _PROBLEMS.fullmatch(key.lower())})
    sets = {name: tuple(_text(config.get(key)) for key in keys) for name, config in configs.items()}
    counts = Counter(sets.values())
    if len(counts) < 2:
        return configs
    most = counts.most_common(1)[0][0]
    for name, own in sets.items():
        if own != most:
            key, theirs, here = next((k, a, b) for k, a, b in zip(keys, own, most, strict=True) if a != b)
            found.left[name] = (
                f"it was evaluated on other problems ({key}: {theirs}, the others: {here}); import it under another experiment="
            )
    return {name: config for name, config in configs.items() if sets[name] == most}


def _by_settings(configs: Mapping[str, Mapping[str, Any]], by: list[str], found: Grouping) -> None:
    keys = sorted({key for config in configs.values() for key in config})
    varying = [key for key in keys if len({_value(config, key) for config in configs.values()}) > 1]
    seeds = [key for key in varying if _SEED.fullmatch(key.lower())]
    method, beside = _method(varying, seeds)
    if by:
        unknown = [key for key in by if not any(_is(key, one) for one in keys)]
        if unknown:
            raise ForeignLogError(
                f"by={','.join(unknown)}: no configuration of these runs has that key; varying are {', '.join(varying) or 'none'}"
            )
        beside += [key for key in method if not any(_is(one, key) for one in by)]
        method = [key for key in keys if any(_is(one, key) for one in by)]
    if beside:
        found.said.append(
            f"differ as well, and make no arm: {', '.join(sorted(beside))}; by=KEY,KEY names the keys that do"
        )
    arms: dict[tuple[str, ...], list[str]] = {}
    for name, config in configs.items():
        arms.setdefault(tuple(_value(config, key) for key in method), []).append(name)
    names = _names(list(arms), method)
    for values, runs in arms.items():
        settings = {key: json.loads(value) for key, value in zip(method, values, strict=True)}
        for name, seed in _seeds({run: configs[run] for run in runs}, seeds, names[values], found).items():
            found.placed[name] = Placed(names[values], seed, settings)
    if method and len(arms) == len(configs) > 2:
        found.said.append(
            f"no arm has two runs: each differs from the others in {', '.join(method)}; by=KEY,KEY names the keys that make arms"
        )


def _method(varying: Sequence[str], seeds: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the varying keys that are of the method, and those of the machine; names and places of a run are neither."""
    rest = [
        key
        for key in varying
        if key not in seeds and re.split(r"[./]", key)[-1] not in _OF_THE_RUN and key[0] != "_"
    ]
    machine = [key for key in rest if any(infrastructure(dialect, key) for dialect in ("trl", "verl"))]
    return [key for key in rest if key not in machine], machine


def _seeds(
    configs: Mapping[str, Mapping[str, Any]], keys: Sequence[str], arm: str, found: Grouping
) -> dict[str, int]:
    """Return the seed of each run of an arm: the first key that tells them apart, else the one that all have, else their order."""
    every = keys or sorted(
        {key for config in configs.values() for key in config if _SEED.fullmatch(key.lower())}
    )
    told: dict[str, list[int]] = {}
    for key in sorted(every, key=lambda key: (key.count("."), key)):
        values = [config.get(key) for config in configs.values()]
        whole = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
        if len(whole) == len(values):
            told[key] = whole
    apart = max(told, key=lambda key: len(set(told[key])), default=None)
    if apart is not None and (len(configs) == 1 or len(set(told[apart])) > 1):
        return dict(zip(configs, told[apart], strict=True))
    said = f"the same {apart}" if apart else "no seed"
    found.said.append(
        f"arm {arm}: its configurations have {said}; its runs are numbered in the order of their names"
    )
    return {name: number for number, name in enumerate(configs)}


def _one_each(found: Grouping, lengths: Mapping[str, int]) -> None:
    """Leave one run for an arm and a seed, the longest; the others are named."""
    places: dict[tuple[str, int], list[str]] = {}
    for name, place in found.placed.items():
        places.setdefault((place.arm, place.seed), []).append(name)
    for (arm, seed), names in places.items():
        kept = max(names, key=lambda name: lengths[name])
        for name in names:
            if name != kept:
                del found.placed[name]
                found.left[name] = (
                    f"a second run of arm {arm}, seed {seed}, beside {kept}, which goes on to step {lengths[kept]}; if it is a replicate "
                    "of its own, import it with path= arm= and another seed="
                )


def _names(arms: Sequence[tuple[str, ...]], keys: Sequence[str]) -> dict[tuple[str, ...], str]:
    """Return short names: values of the keys that differ, `clip_ratio_high=0.28`; numbered where that is long or not unique."""
    if len(arms) == 1:
        return {arms[0]: "all"}
    names = {
        values: path_safe(
            "+".join(
                f"{re.split('[./]', key)[-1]}={_short(value)}"
                for key, value in zip(keys, values, strict=True)
            )
        )
        for values in arms
    }
    if len(set(names.values())) < len(arms) or any(len(name) > 60 for name in names.values()):
        return {values: f"arm-{number}" for number, values in enumerate(arms, 1)}
    return names


def _short(value: str) -> str:
    found = json.loads(value)
    return found.rpartition("/")[2] if isinstance(found, str) else value


def _is(asked: str, key: str) -> bool:
    return key == asked or key.endswith(f".{asked}")


def _value(config: Mapping[str, Any], key: str) -> str:
    return _text(config[key]) if key in config else json.dumps(_ABSENT)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
