"""Read another trainer's experiment as overrides of ours: harness import dialect=trl file=grpo_config.yaml version=0.18.

harness import dialect=verl file=run_grpo.sh rows=7473 out=mine/experiment/grpo.yaml   a script; writes an experiment for `harness plan`
harness import dialect=trl file=train.py file=accelerate.yaml          a `GRPOConfig(...)`; a launcher's file says the devices
harness import dialect=verl actor_rollout_ref.actor.clip_ratio_high=0.28    settings may stand on the command line, too

file: YAML or JSON settings, a list of Hydra overrides, a shell script, Python; several add up. section=NAME: where they stand in the file.
command=N: which of a script's commands. NAME=VALUE in capitals: a variable that the script wants; 1=VALUE: its first argument.
version: the trainer's release; else pinned beside the file, else guessed from its keys. devices=N: processes that train. rows=N: problems
of the data set. for=testbed: the method alone, with the testbed's model, rates and lengths. out=FILE: an experiment instead of lines; a
file that was edited since, or is of something else, is written over only with overwrite=true.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
from collections import defaultdict
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.commands._arguments import read_yaml
from harness.commands.export import FAMILY, dialect
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError, require
from harness.configuration.registry import kinds, member
from harness.exchange import handed
from harness.exchange.dialects import Beside, Translation
from harness.exchange.dialects._release import releases
from harness.store.atomic import write_file

_OPTIONS = ("version", "devices", "rows", "command", "section", "for", "out", "overwrite")
# Before the digest of the lines above it, by which a file that was edited is known.
_SEAL = "# as harness import wrote it: "
# What the testbed keeps for itself: its model and data, and the rates, lengths and sizes that fit them.
_TESTBED_KEEPS = re.compile(
    r"(\+\+)?(model|task|engine|verifier|evaluation|optimizer|sampling|training|seed)\b(?!\.(temperature|top_|lag_))|algorithm\.(prompts_per_step|"
    r"updates_per_step|aggregation\.(constant_tokens|micro_batch_responses))"
)
_HELP = "dialect=NAME (trl, verl, ...), then file=FILE and key=value settings; version=, devices=, rows=, for=testbed, out=FILE"
ARGUMENTS = {"settings": {"nargs": "+", "help": _HELP}}


def run(options: argparse.Namespace) -> int:
    name, module, rest = dialect(options.settings)
    translation, chosen = translate(name, module, rest)
    overrides = translation.overrides()
    config = compose_run(overrides)  # what is printed can be run
    remarks = list(_remarks(translation))
    if "out" in chosen:
        out = Path(chosen["out"])
        require("overwrite", chosen.get("overwrite", "false"), ("true", "false"))
        if chosen.get("overwrite") != "true":
            _require_unedited(out)
        write_file(out, _sealed(_experiment(out.stem, overrides, config.seed, remarks)).encode())
        print(f"wrote {out}; {_how_to_plan(out)}")
    else:
        print("\n".join(_shell_word(line) for line in overrides))
    print("\n".join(remarks))
    return 0


def _sealed(text: str) -> str:
    return f"{text}{_SEAL}{hashlib.sha256(text.encode()).hexdigest()[:16]}\n"


def _require_unedited(out: Path) -> None:
    """Raises `ConfigError` for a file that is there and not as an import left it."""
    text = out.read_text(encoding="utf-8", errors="replace") if out.is_file() else None
    if text is not None and text != _sealed(text.rpartition(_SEAL)[0]):
        raise ConfigError(
            f"out={out} was edited since harness import wrote it, or is of something else; name another file, or say overwrite=true"
        )


def _how_to_plan(out: Path) -> str:
    folder = out.resolve().parent
    if folder.name == "experiment":
        return f"harness plan config_dir={os.path.relpath(folder.parent)} experiment={out.stem}"
    return (
        f"move it to FOLDER/experiment/{out.name}, then harness plan config_dir=FOLDER experiment={out.stem}"
    )


def translate(name: str, module: ModuleType, items: list[str]) -> tuple[Translation, dict[str, str]]:
    """Return the translation of files and `key=value` items, and the options among them.

    Raises:
        ConfigError: a file that cannot be read, an argument that is no `key=value`, or nothing that the dialect knows.
    """
    pairs = [item.partition("=") for item in items]
    for item, (_, equals, _) in zip(items, pairs, strict=True):
        if not equals:
            raise ConfigError(f"{item!r} is no key=value")
    chosen = {key: text for key, _, text in pairs if key in _OPTIONS}
    found, paths = _read(name, pairs, chosen)
    told = {key for key, _, _ in pairs}  # the command line tells what a file leaves open
    found.lost = [line for line in found.lost if line.partition("=")[0] not in told]
    _require_told(name, found, module)
    _require_known(name, found.values, module)
    _require_dialect(name, found.values)
    pins = [pin for path in paths if (pin := handed.pinned(path, name))]
    numbers = {key: _count(key, chosen[key]) for key in ("devices", "rows") if key in chosen}
    beside = Beside(
        chosen.get("version"),
        pins[0] if pins else None,
        next(filter(None, (handed.own_defaults(path, name, read_yaml) for path in paths)), {}),
        program=found.program,
        **{"devices": found.devices} | numbers,
    )
    translation = module.overrides(found.values, beside)
    _require_meant(name, [key for key, _, _ in pairs if key not in beside.own], translation, module)
    translation.inexpressible = [*found.lost, *translation.inexpressible]
    translation.notes = [*found.notes, *translation.notes]
    if "for" in chosen:
        require("for", chosen["for"], ("testbed",))
        kept = {key: value for key, value in translation.settings.items() if not _TESTBED_KEEPS.match(key)}
        translation.settings = kept
        translation.notes.append("for=testbed: model, data, rates, lengths and batch sizes are the testbed's")
    return translation, chosen


def _read(
    name: str, pairs: list[tuple[str, str, str]], chosen: dict[str, str]
) -> tuple[handed.Handed, list[Path]]:
    found, paths = handed.Handed(), []
    number = _count("command", chosen["command"]) if "command" in chosen else None
    variables = {key: text for key, _, text in pairs if re.fullmatch(r"[A-Z][A-Z0-9_]*|[1-9]", key)}
    settings = []
    for key, _, text in pairs:
        if key == "file":
            paths.append(Path(text))
            found.add(handed.read(Path(text), read_yaml, number, chosen.get("section"), variables))
        elif key not in (*_OPTIONS, *variables):
            settings.append((key, text))
    for key, text in settings:  # the command line comes last
        found.values[key.lstrip("+")] = read_yaml(text, f"{key}={text}")
    return found, paths


def _keys(name: str, module: ModuleType) -> set[str]:
    return {key for release in releases(name).values() for key in release.defaults} | set(module.ALSO)


def _known(name: str, values: dict[str, Any], module: ModuleType) -> list[str]:
    keys = _keys(name, module)
    return [key for key in values if key in keys]


def _require_meant(name: str, given: list[str], translation: Translation, module: ModuleType) -> None:
    """Refuse a setting of the command line that nothing reads and no release has: it is mistyped. `+KEY=` says that it is not."""
    unread = {
        line.partition("=")[0] for line in translation.inexpressible if line.endswith(": not read")
    } - _keys(name, module)
    for key in given:
        if key in unread:
            close = get_close_matches(key, [*_OPTIONS, "file", *_keys(name, module)], n=1)
            hint = f"did you mean {close[0]}=?" if close else f"say +{key}= if your copy of the trainer does"
            raise ConfigError(f"{name} has no setting {key!r}; {hint}")


def _require_dialect(name: str, values: dict[str, Any]) -> None:
    """Refuse settings of which another dialect knows twice as many."""
    counts = {one: len(_known(one, values, member(FAMILY, one))) for one in kinds(FAMILY)}
    other = max(counts, key=lambda one: counts[one])
    if counts[other] >= max(2, 2 * counts[name]):
        raise ConfigError(
            f"dialect={name} knows {counts[name]} of these settings, {other} {counts[other]}: give dialect={other}"
        )


def _require_known(name: str, values: dict[str, Any], module: ModuleType) -> None:
    """Refuse settings of which the dialect knows none, or fewer than stand in a section of the file."""
    known = len(_known(name, values, module))
    sections: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, value in values.items():
        for dot in re.finditer(r"\.", key):
            sections[key[: dot.start()]][key[dot.end() :]] = value
    counted = {section: len(_known(name, inside, module)) for section, inside in sections.items()}
    fullest = max(counted, key=lambda section: counted[section], default="")
    if counted.get(fullest, 0) > known:
        raise ConfigError(f"most settings of {name} stand under {fullest}: give section={fullest}")
    if not known:
        if not values:
            raise ConfigError(f"give file=FILE, or settings of {name} as key=value")
        _require_dialect(name, values)
        raise ConfigError(f"nothing of {name} was read: its keys are {', '.join(list(values)[:5])}")


def _require_told(name: str, found: handed.Handed, module: ModuleType) -> None:
    """Refuse a file most of whose settings only running it would tell; `**more` may hold any of them."""
    lines = {line.partition("=")[0]: None for line in found.lost}
    untold = [
        *_known(name, lines, module),
        *(line.partition(":")[0] for line in found.lost if line.startswith("**")),
    ]
    if len(untold) > len(_known(name, found.values, module)) or any(key.startswith("**") for key in untold):
        raise ConfigError(
            f"only running the file tells {', '.join(untold)}: give the settings as KEY=VALUE, or as a file of their own"
        )


def _count(key: str, text: str) -> int:
    if not text.isdigit() or not int(text):
        raise ConfigError(f"{key}={text} is no count; give an integer from 1 on")
    return int(text)


def _remarks(translation: Translation) -> list[str]:
    """What is said of an import, one line each: the release, what changes the method, what was assumed, notes, infrastructure."""
    lines = [f"# {translation.release}"]
    if translation.inexpressible:
        lines += ["# changes the method, since it cannot be said here:"]
        lines += [f"#   {line}" for line in translation.inexpressible]
    if translation.assumed:
        lines += ["# assumed, the release's defaults of what is not given:"]
        lines += [f"#   {key}={value}" for key, value in translation.assumed.items()]
    lines += [f"# note: {note}" for note in translation.notes]
    if translation.infrastructure:
        shown = ", ".join(translation.infrastructure[:3])
        lines.append(
            f"# not read: {len(translation.infrastructure)} settings of infrastructure, such as {shown}"
        )
    return [" ".join(line.splitlines()) for line in lines]


def _shell_word(line: str) -> str:
    """Return an override as it stands on one line of a shell."""
    if re.fullmatch(r"[\w./=+,:@-]+", line):
        return line
    if "\n" in line:
        return "$'" + line.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
    return "'" + line.replace("'", "'\\''") + "'"


def _experiment(name: str, overrides: list[str], seed: int, remarks: list[str]) -> str:
    benchmark = list(compose_run(overrides).evaluation.benchmarks)[-1]
    lines = [json.dumps(line, ensure_ascii=False) for line in overrides if not line.startswith("seed=")]
    head = [
        "# @package experiment",
        *remarks,
        f"name: {name}",
        "design: arms",
        f"seeds: [{seed}]",
        f"benchmark: {benchmark}",
    ]
    arm = ["arms:", f"  - name: {name}", "    overrides:", *(f"      - {line}" for line in lines)]
    return "\n".join([*head, *arm]) + "\n"
