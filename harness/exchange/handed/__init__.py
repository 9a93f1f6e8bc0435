"""What people hand over for their trainer: YAML, Hydra overrides, shell scripts, Python files, launchers' configurations.

`read(path, ...)` returns the settings of one file, whatever it is; a dialect knows what they mean.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.configuration.compose import parse_overrides
from harness.configuration.error import ConfigError
from harness.configuration.flat import flatten
from harness.exchange.handed.shell import commands_of, inner_script

Yaml = Callable[[str, str], Any]
_PINNED = r"\b{name}(?:\[[\w,\s-]*\])?\s*(?:==|@v|~=)\s*v?(\d+\.\d+)"
_PIN_FILES = ("setup.py", "pyproject.toml", "requirements.txt", "requirements-dev.txt", "environment.yml")
_NEGATIVE = re.compile(r"-\.?\d")
_RUNS = re.compile(r"(^|[\s/])(python[\d.]*|uv|accelerate|torchrun|deepspeed|trl|ray)\s|(^|\s)-m\s")
_ASSIGNMENT = re.compile(r"[+~]{0,2}[\w./@-]+=", re.DOTALL)


@dataclass
class Handed:
    """Settings as their trainer spells them, and what is known beside them.

    Attributes:
        values: dotted keys.
        devices: processes that train, if a launcher says.
        program: the module or file that a script runs.
        lost: lines on what could not be read and may change the method.
        notes: further lines for the user.
    """

    values: dict[str, Any] = field(default_factory=dict)
    devices: int | None = None
    program: str | None = None
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, other: Handed) -> None:
        """Take another file's settings on top."""
        self.values |= other.values
        self.devices = other.devices or self.devices
        self.program = other.program or self.program
        self.lost += other.lost
        self.notes += other.notes


def read(
    path: Path,
    load: Yaml,
    command: int | None = None,
    section: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> Handed:
    """Return what a file says.

    Args:
        path: YAML, TOML or JSON (settings, Hydra overrides, accelerate's or DeepSpeed's), a shell script, or Python.
        load: reads a YAML text; its second argument names the text.
        command: which of a script's training commands, from 1 on; None: the only one.
        section: the dotted place of the settings inside the file.
        variables: of a shell script's environment.

    Raises:
        ConfigError: it cannot be read, or says nothing.
    """
    if not path.is_file():
        raise ConfigError(f"no file {path}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: byte 0x{text_byte(error):02x} at {error.start}") from error
    if path.suffix == ".py":
        from harness.exchange.handed.python import settings_of

        values, lost = settings_of(text, path, command)
        return Handed(values, lost=lost)
    if path.suffix == ".toml":
        try:
            return _mapping(tomllib.loads(text), path, load, section)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path} is no TOML: {error}") from error
    if path.suffix in (".yaml", ".yml", ".json"):
        return _above(_mapping(_content(text, path, load), path, load, section), path, load, section)
    return _command(_chosen(commands_of(text, path, variables or {}), path, command), path, load)


def _content(text: str, path: Path, load: Yaml) -> Any:
    try:
        return json.loads(text)  # tabs are no YAML
    except json.JSONDecodeError:
        return load(text, str(path))


def text_byte(error: UnicodeDecodeError) -> int:
    """Return the byte that is not UTF-8."""
    return error.object[error.start]


def _mapping(content: Any, path: Path, load: Yaml, section: str | None) -> Handed:
    if isinstance(content, dict) and "_wandb" in content:  # as wandb keeps a run's settings
        content = {
            key: row["value"] for key, row in content.items() if key != "_wandb" and isinstance(row, dict)
        }
    beside: list[str] = []
    for part in (section or "").split("."):
        if part and not (isinstance(content, dict) and part in content):
            raise ConfigError(f"{path} has no section {section!r}")
        beside += [key for key in content if key != part] if part else []
        content = content[part] if part else content
    lost = [f"{', '.join(beside)}: stand outside section={section} and are not read"] if beside else []
    if isinstance(content, list) and all(
        isinstance(item, str) and ("=" in item or item.startswith("~")) for item in content
    ):
        return Handed(hydra_values(content, load))
    if not isinstance(content, dict) or not content:
        raise ConfigError(f"{path} holds no mapping of settings, and no list of overrides")
    if "distributed_type" in content and "machine_rank" in content:  # accelerate's
        return Handed(devices=content.get("num_processes"))
    if "train_micro_batch_size_per_gpu" in content or "zero_optimization" in content:
        return _deepspeed(content, path)
    return Handed(flatten(content), lost=lost)


def _above(found: Handed, path: Path, load: Yaml, section: str | None) -> Handed:
    """Put the files that `defaults: FILE` names (NeMo-RL's way to inherit) under a file's own settings."""
    named = found.values.get("defaults")
    files = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    if not files or not all(isinstance(name, str) and name.endswith((".yaml", ".yml")) for name in files):
        return found
    del found.values["defaults"]
    whole = Handed()
    for name in files:
        if (path.parent / name).is_file():
            whole.add(read(path.parent / name, load, section=section))
        else:
            whole.notes.append(
                f"{name}, which {path.name} builds on, is not here: the release's defaults stand for it"
            )
    whole.values = {key: value for key, value in whole.values.items() if not _replaced(key, found.values)}
    whole.add(found)
    return whole


def _replaced(key: str, by: Collection[str]) -> bool:
    """Say if a setting has no place beside others: one of them is a value where it has a section, or the other way round."""
    parts = key.split(".")
    return any(".".join(parts[:length]) in by for length in range(1, len(parts)))


def _deepspeed(content: Mapping[str, Any], path: Path) -> Handed:
    keys = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    batch, micro, accumulated = (content.get(key) for key in keys)
    if not all(isinstance(number, int) for number in (batch, micro, accumulated)):
        return Handed(notes=[f"{path.name} says no number of devices (its batch sizes are auto)"])
    if batch % (micro * accumulated):  # type: ignore[operator]
        raise ConfigError(f"{path}: train_batch_size={batch} is no multiple of {micro} x {accumulated}")
    return Handed(devices=batch // (micro * accumulated))  # type: ignore[operator]


def hydra_values(items: Sequence[str], load: Yaml) -> dict[str, Any]:
    """Return `key=value` overrides as a mapping; `+` and `++` add, `~` takes away."""
    values: dict[str, Any] = {}
    for item in items:
        key, _, text = item.partition("=")
        if key.startswith("~"):
            values.pop(key.lstrip("~"), None)
            continue
        try:
            found = parse_overrides([item])[0].value()
        except ConfigError:  # an address, a path with a blank: Hydra itself would ask for quotes
            found = text
        name = key.lstrip("+")
        # YAML reads 1e-6 as Hydra does and keeps what Hydra wraps in classes of its own.
        value = (
            load(text, item)
            if isinstance(found, str | int | float | bool)
            and not text.startswith(("'", '"'))
            and _plain(text)
            else found
        )
        values |= flatten({name: _bare(value)})
    return values


def _plain(text: str) -> bool:
    return re.fullmatch(r"[\w.+-]*", text) is not None


def _bare(value: Any) -> Any:
    """Return Hydra's value without its classes: quoted strings as strings, in lists and mappings, too."""
    if isinstance(value, Mapping):
        return {str(_bare(key)): _bare(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_bare(item) for item in value]
    return getattr(value, "text", value)


def _chosen(commands: list[list[str]], path: Path, number: int | None) -> list[str]:
    found = [words for words in commands if _RUNS.search(" ".join(words)) and _settings_in(words)]
    found = [
        words for words in found if not inner_script(words)
    ] or found  # what a wrapper runs stands beside it
    distinct = [words for index, words in enumerate(found) if words not in found[:index]]
    onward = [words[1] for words in commands if words[0] == "bash" and len(words) > 1]
    if not distinct and onward:
        raise ConfigError(
            f"{path} hands its settings on to {onward[0]}: give file={onward[0]} and the settings after it"
        )
    if not distinct:
        raise ConfigError(f"{path} runs no command with settings (key=value, --flags or --config FILE)")
    most = max(len(_settings_in(words)) for words in distinct)
    likely = [words for words in distinct if 2 * len(_settings_in(words)) > most]
    if number is None and len(likely) > 1:
        shown = "; ".join(f"{index}: {_title(words)}" for index, words in enumerate(likely, 1))
        raise ConfigError(
            f"{path} runs {len(likely)} commands with settings; choose with command=N ({shown})"
        )
    if number is not None and not 1 <= number <= len(likely):
        raise ConfigError(f"command={number}: {path} has {len(likely)}")
    words = likely[(number or 1) - 1]
    if inner_script(words):
        raise ConfigError(
            f"{path} hands {words[0]} a script in which nothing trains as it stands; give what its conditions ask for as NAME=VALUE, "
            "such as SLURM_PROCID=1"
        )
    return words


def _title(words: Sequence[str]) -> str:
    return " ".join(words)[:60]


def _settings_in(words: Sequence[str]) -> list[str]:
    return [
        word
        for word in words
        if (_ASSIGNMENT.match(word) and "." in word.partition("=")[0]) or word.startswith("--")
    ]


def _command(words: Sequence[str], path: Path, load: Yaml) -> Handed:
    """Read the words of one training command; behind a launcher's bare `--` stands the command that it runs."""
    all_flags = _flags(words, load)
    words = words[max((place for place, word in enumerate(words) if word == "--"), default=-1) + 1 :]
    flags = _flags(words, load)
    devices = all_flags.get("num_processes") or all_flags.get("num_gpus")
    if all_flags.get("nproc_per_node"):
        devices = int(all_flags["nproc_per_node"]) * int(all_flags.get("nnodes") or 1)
    modules = [after for word, after in pairwise(words) if word == "-m"]
    program = next(
        (word for word in [*modules[-1:], *words] if word in modules or word.endswith(".py")), None
    )
    after = words[words.index(program) + 1 :] if program else words  # a variable may stand before the program
    hydra = [word for word in after if _ASSIGNMENT.match(word) and not word.startswith("-")]
    if not any("." in word.partition("=")[0] for word in hydra):
        hydra = []
    out = Handed(devices=devices if isinstance(devices, int) else None, program=program)
    if hydra:
        name = flags.get("config-name")
        if name is not None:
            out.add(_named(str(name), str(flags.get("config-path") or "."), path, load))
        out.values |= hydra_values(hydra, load)
        return out
    for key in ("config_file", "config", "deepspeed"):
        if isinstance(flags.get(key), str):
            out.add(_beside(flags.pop(key), path, load, required=key == "config"))
    launch = re.compile(
        r"num_(processes|gpus|machines)|nproc_per_node|nnodes|(machine|node)_rank|(master|main_process|rdzv)_.*"
    )
    out.values |= {key: value for key, value in flags.items() if not launch.fullmatch(key)}
    return out


def _beside(name: str, path: Path, load: Yaml, required: bool) -> Handed:
    """Read a file that a script names: from here, or from a folder above the script."""
    for folder in (Path(), *path.resolve().parents):
        if name and (folder / name).is_file():
            return read(folder / name, load)
    if required:
        raise ConfigError(f"{path} takes its settings from {name}, which is not here; give it: file={name}")
    return Handed(notes=[f"{name}, which the script names, is not here"])


def _named(name: str, folder: str, path: Path, load: Yaml) -> Handed:
    """Read the configuration that Hydra's --config-name chooses; the trainer's own are its defaults."""
    if name.removesuffix(".yaml") in ("ppo_trainer", "ppo_megatron_trainer"):
        return Handed()
    found = _beside(f"{folder}/{name.removesuffix('.yaml')}.yaml", path, load, required=False)
    found.lost, found.notes = [*found.lost, *found.notes], []
    found.values = {
        key: value for key, value in found.values.items() if not key.startswith(("defaults", "hydra."))
    }
    return found


def _flags(words: Sequence[str], load: Yaml) -> dict[str, Any]:
    """`--key value ...`, `--key=value` and `--key` of a command."""
    found: dict[str, Any] = {}
    key = ""
    for word in words:
        if word.startswith("--"):
            key, equals, text = word.removeprefix("--").partition("=")
            key = key if key.startswith("config-") else key.replace("-", "_")
            found[key] = _value(text, load) if equals else True
            key = "" if equals else key
        elif word.startswith("-") and not _NEGATIVE.match(word):
            key = ""  # a short option: what follows is its own
        elif key:
            value = _value(word, load)
            before = found[key]
            found[key] = (
                value if before is True else [*(before if isinstance(before, list) else [before]), value]
            )
            if key in (
                "config_file",
                "num_processes",
                "nproc_per_node",
                "config",
                "config-path",
                "config-name",
            ):
                key = ""  # one value; what follows is the script
    return found


def _value(text: str, load: Yaml) -> Any:
    try:
        return json.loads(text) if text.startswith(("[", "{")) else load(text, text)
    except (ValueError, ConfigError):
        return text


def own_defaults(path: Path, name: str, load: Yaml) -> dict[str, Any]:
    """Return what the trainer's own configuration says in the checkout that a file stands in; values that refer to others are left out."""
    for folder in path.resolve().parents:
        for inside in (name, f"{name}/{name}"):
            for file in ("_generated_ppo_trainer.yaml", "ppo_trainer.yaml"):
                found = folder / inside / "trainer" / "config" / file
                content = load(found.read_text(encoding="utf-8"), str(found)) if found.is_file() else {}
                if content and "defaults" not in content:
                    return {key: value for key, value in flatten(content).items() if "${" not in str(value)}
        if (folder / ".git").exists():
            break
    return {}


def pinned(path: Path, name: str) -> str | None:
    """Return the release of a package that a file beside `path`, or in a folder above it, asks for."""
    for folder in path.resolve().parents:
        own = folder / name / "version" / "version"
        if own.is_file():
            return ".".join(own.read_text().split(".")[:2])
        for file in _PIN_FILES:
            if (folder / file).is_file():
                found = re.search(
                    _PINNED.format(name=name), (folder / file).read_text(encoding="utf-8", errors="replace")
                )
                if found:
                    return found[1]
        if (folder / ".git").exists():
            break
    return None
