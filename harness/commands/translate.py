"""Translate a configuration between ours and another trainer's: from=trl or from=verl reads theirs, to=trl or to=verl writes ours.

harness translate from=verl file=outputs/.hydra/config.yaml              overrides, and the list of what differs
harness translate from=trl file=training_args.json max_steps=500         settings on the command line come last
harness translate from=trl file=config.yaml out=mine/experiment/grpo.yaml    an experiment for `harness plan`
harness translate from=trl file=config.yaml task=NAME evaluation=NAME    and engine, model, verifier, algorithm.reward of ours
harness translate to=trl algorithm=dapo                                  the algorithm's part, in their names and units
harness translate to=verl experiment=dapo_ladder arm=dapo_5_dynamic_sampling    an arm of an experiment

file: the configuration that the trainer resolved (verl's .hydra/config.yaml or --cfg job, wandb's config.yaml, TRL's training arguments as
JSON or YAML), plain YAML, or a list of key=value; several add up. devices=N: processes that trained, where TRL's batch sizes do not say.
for=testbed: the method alone, with the testbed's model, rates and lengths. Logs are drawn: harness report logs=FILE.
What the other side cannot express, and how units or defaults differ, follow as comments.
"""

import argparse
import json
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.commands._arguments import split, take_values
from harness.configuration.compose import compose_run, refuse_second_choice
from harness.configuration.error import ConfigError, require
from harness.configuration.schema import RunConfig
from harness.exchange import trl, verl
from harness.exchange.dialect import Translation, load_table, read_assignments, read_config
from harness.experiment.declaration import as_file
from harness.experiment.planning import plan_experiment
from harness.store.atomic import write_file
from harness.store.foreign_text import visible
from harness.store.layout import safe_name

DIALECTS = {"trl": trl, "verl": verl}
_OPTIONS = ("devices", "for", "out")
# What no trainer's settings say: given in our keys.
_OURS = re.compile(r"(task|evaluation|model|engine|verifier|algorithm\.reward)[.=]")
# What the testbed keeps for itself: its model and data, and the rates, lengths and sizes that fit them.
_TESTBED_KEEPS = re.compile(
    r"(model|task|engine|verifier|evaluation|optimizer|sampling|training|seed)\b(?!\.(temperature|top_))|algorithm\.(prompts_per_step|"
    r"updates_per_step|aggregation\.(constant_tokens|micro_batch_responses))"
)
_HELP = "from=trl|verl with file=FILE and their settings, or to=trl|verl with Hydra overrides such as algorithm=dapo"
ARGUMENTS = {"settings": {"nargs": "+", "metavar": "key=value", "help": _HELP}}


def run(options: argparse.Namespace) -> int:
    sources, rest = split(options.settings, "from")
    targets, rest = split(rest, "to")
    if len(sources) + len(targets) != 1:
        raise ConfigError(f"name one trainer: from= reads its configuration, to= writes ours ({', '.join(DIALECTS)})")
    (name,) = sources or targets
    require("from" if sources else "to", name, list(DIALECTS))
    return _read(name, rest) if sources else _write(name, rest)


def _write(name: str, items: Sequence[str]) -> int:
    """Print our configuration in a trainer's names and units."""
    translation = DIALECTS[name].export(_configuration(items))
    if not {"algorithm", "rung", "patch", "experiment", "claim"} & {item.partition("=")[0] for item in items}:
        note = "this is naive GRPO (algorithm=grpo): nothing given chooses another; add algorithm=NAME or rung=NAME"
        translation.notes.insert(0, note)
    print(yaml.safe_dump(translation.settings, sort_keys=False), end="")
    if translation.inexpressible:
        print("\n".join([f"# {name} cannot express:", *(f"#   {line}" for line in translation.inexpressible)]))
    for note in (*translation.notes, *translation.deviations.values()):
        print(f"# note: {note}")
    return 0


def _configuration(items: Sequence[str]) -> RunConfig:
    """Return the configuration that overrides describe, or the arm of `experiment=` or `claim=` that `arm=` names. Raises `ConfigError`."""
    arms, rest = split(items, "arm")
    if not any(item.startswith(("experiment=", "claim=")) for item in rest):
        if arms:
            raise ConfigError(f"arm={arms[0]} needs experiment=NAME or claim=NAME")
        refuse_second_choice(rest)
        return compose_run(rest)
    configs = {arm.name: arm.config for arm in plan_experiment(rest).arms}
    if len(arms) != 1 and len(configs) > 1:
        raise ConfigError(f"an experiment has several arms; name one with arm=: {', '.join(configs)}")
    name = arms[0] if arms else next(iter(configs))
    require("arm", name, list(configs))
    return configs[name]


def _read(name: str, items: Sequence[str]) -> int:
    """Print what a trainer's configuration is here, or write it as an experiment."""
    ours = {item.partition("=")[0]: item for item in items if _OURS.match(item)}
    translation, chosen = translate(name, [item for item in items if item not in ours.values()])
    theirs = (item for item in translation.overrides() if item.partition("=")[0] not in ours)
    overrides = [*theirs, *ours.values()]
    try:
        config = compose_run(overrides)  # what is printed can be run
    except ConfigError as error:
        origins = [their for our, their in translation.origins.items() if re.search(rf"{re.escape(our)}\b", str(error))]
        raise ConfigError(f"{error}{f' (from {origins[-1]})' if origins else ''}") from error
    remarks = _remarks(name, translation)
    if "out" not in chosen:
        print("\n".join([*map(shlex.quote, overrides), *remarks]))
        return 0
    out = Path(chosen["out"])
    if out.exists():
        raise ConfigError(f"out={out} is there; name another file, or delete it")
    last = list(config.evaluation.benchmarks)[-1]
    try:
        safe_name(out.stem, "out")
    except ValueError as error:
        raise ConfigError(f"translate: {error}; it names a folder") from error
    write_file(out, _experiment(out.stem, overrides, last, config.seed, remarks).encode())
    folder = out.resolve().parent
    place = os.path.relpath(folder.parent) if folder.name == "experiment" else "FOLDER"
    move = "" if folder.name == "experiment" else f"move it to FOLDER/experiment/{out.name}, then "
    print("\n".join([f"wrote {out}; {move}harness plan --config-dir {place} experiment={out.stem}", *remarks]))
    return 0


def translate(name: str, items: Sequence[str]) -> tuple[Translation, dict[str, Any]]:
    """Return the translation of files and `key=value` items, and the options among them. Raises `ConfigError`."""
    for item in items:
        if "=" not in item:
            raise ConfigError(f"{item!r} is no key=value")
    options, rest = take_values(items, _OPTIONS, "translate", texts=("for", "out"))
    files = [Path(item.removeprefix("file=")) for item in rest if item.startswith("file=")]
    settings = [item for item in rest if not item.startswith("file=")]
    values: dict[str, Any] = {}
    for path in files:
        values |= read_config(path)
    values |= read_assignments(settings)
    table = load_table(name)
    if not any(key in table.rows or table.knows(key) for key in values):
        keys = f"its keys are {', '.join(list(values)[:5])}" if values else "give file=FILE, or settings as key=value"
        raise ConfigError(f"nothing of {name} was read: {keys}")
    devices = options.get("devices")
    if devices is not None and (not isinstance(devices, int) or devices < 1):
        raise ConfigError(f"devices={devices} is no count; give an integer from 1 on")
    translation = DIALECTS[name].translate(values, devices)
    if "for" in options:
        require("for", options["for"], ("testbed",))
        method = {key: value for key, value in translation.settings.items() if not _TESTBED_KEEPS.match(key)}
        translation.settings = method
        translation.notes.append("for=testbed: model, data, rates, lengths and batch sizes are the testbed's")
    return translation, options


def _remarks(name: str, translation: Translation) -> list[str]:
    table = load_table(name)
    lines = [f"# read as {table.trainer} {table.release} reads it"]
    if translation.inexpressible:
        lines += ["# differs, since it cannot be said here:", *(f"#   {line}" for line in translation.inexpressible)]
    if translation.missing:
        lines.append(f"# not in the file, so that the values here stand for them: {', '.join(translation.missing)}")
    lines += [f"# note: {note}" for note in translation.notes]
    return [visible(" ".join(line.splitlines())) for line in lines]


def _experiment(name: str, overrides: list[str], benchmark: str, seed: int, remarks: list[str]) -> str:
    lines = [f"      - {json.dumps(line, ensure_ascii=False)}" for line in overrides if not line.startswith("seed=")]
    json_name = json.dumps(name)  # `2024` is a number to YAML
    head = [f"name: {json_name}", f"seeds: [{seed}]", f"benchmark: {json.dumps(benchmark)}"]
    arms = ["arms:", f"  - name: {json_name}", "    overrides:", *lines]
    return as_file("\n".join([*head, *arms, ""]), remarks)
