"""One configuration file: what it says, where its values belong, which files it is made of. Each file is read once a process."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


class NotPlainError(Exception):
    """Something that plain composing does not know: Hydra composes it, or says what is wrong with it."""


@dataclass(frozen=True)
class Default:
    """One entry of a defaults list: `_self_`, a file (`path`), or a choice of a group (`group`, `value`).

    `package` is what follows an `@`; `overrides` marks `override group: value`.
    """

    path: str | None = None
    group: str | None = None
    value: str | tuple[str, ...] | None = None
    package: str | None = None
    overrides: bool = False


@dataclass(frozen=True)
class File:
    """`package`: of the header `# @package`, null without one. `values` belong to the cache: copy before writing."""

    package: str | None
    defaults: tuple[Default, ...]
    values: dict[str, Any]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml where PyYAML has it
    """YAML as OmegaConf reads it: `1e-4` is a number, dates are text, a key stands once in a mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value if key.tag == "tag:yaml.org,2002:str"]
        if len(set(keys)) < len(keys):
            raise NotPlainError(f"a key stands twice in line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep=deep)


# omegaconf/_utils.py: get_yaml_loader. PyYAML follows YAML 1.1, where 1e-4 is text for want of a point.
_FLOAT = re.compile(
    r"""^(?:
         [-+]?[0-9]+(?:_[0-9]+)*\.[0-9_]*(?:[eE][-+]?[0-9]+)?
        |[-+]?[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+)
        |\.[0-9]+(?:_[0-9]+)*(?:[eE][-+][0-9]+)?
        |[-+]?[0-9]+(?:_[0-9]+)*(?::[0-5]?[0-9])+\.[0-9_]*
        |[-+]?\.(?:inf|Inf|INF)
        |\.(?:nan|NaN|NAN))$""",
    re.X,
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
_Loader.yaml_implicit_resolvers = {
    first: [(tag, shape) for tag, shape in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_ENTRY = re.compile(
    r"(?P<override>override )?(?P<name>/?[\w-]+(?:/[\w-]+)*)(?:@(?P<package>[a-z]\w*(?:\.[a-z]\w*)*))?"
)


@functools.lru_cache(maxsize=4096)
def read(folder: str, path: str) -> File:
    """The file `path` (without `.yaml`) of a configuration folder.

    Raises:
        NotPlainError: it is absent, is not YAML, or says something that only Hydra understands.
    """
    try:
        text = (Path(folder) / f"{path}.yaml").read_text(encoding="utf-8")
        values = yaml.load(text, Loader=_Loader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise NotPlainError(str(error)) from error
    values = {} if values is None else values
    if not isinstance(values, dict):
        raise NotPlainError(f"{path} is no mapping")
    defaults = values.pop("defaults", [])
    if not isinstance(defaults, list):
        raise NotPlainError(f"{path}: defaults are no list")
    _check(values)
    return File(_package(text), tuple(map(_default, defaults)), values)


@functools.lru_cache(maxsize=4096)
def is_group(folder: str, name: str) -> bool:
    """Whether a configuration folder has a group of this name."""
    return (Path(folder) / name).is_dir()


def _package(text: str) -> str | None:
    """The package of the header: comment lines that begin with an @, before anything else (hydra/plugins/config_source.py)."""
    found = None
    for line in map(str.strip, text[:512].splitlines()):
        if line and re.match(r"#\s*@", line) is None:
            break
        words = line.lstrip("#").split()
        if words and (len(words) != 2 or words[0] != "@package"):
            raise NotPlainError(f"header {line!r}")
        found = words[1] if words else found
    return found


def _default(item: Any) -> Default:
    if isinstance(item, str):
        entry = _ENTRY.fullmatch(item)
        if entry and not entry["override"] and entry["package"] is None:
            return Default(path=item)
    elif isinstance(item, dict) and len(item) == 1:
        ((key, value),) = item.items()
        entry = _ENTRY.fullmatch(str(key))
        chosen = tuple(value) if isinstance(value, list) else value
        names = chosen if isinstance(chosen, tuple) else (chosen or "none",)
        if entry and all(isinstance(name, str) and re.fullmatch(r"[\w-]+", name) for name in names):
            return Default(
                group=entry["name"],
                value=chosen,
                package=entry["package"],
                overrides=bool(entry["override"]),
            )
    raise NotPlainError(f"defaults entry {item!r}")


def _check(value: Any) -> None:
    """Raises `NotPlainError` for values that are no plain data, keys that are no text, and mandatory values."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise NotPlainError(f"key {key!r}")
            _check(item)
    elif isinstance(value, list):
        for item in value:
            _check(item)
    elif not (value is None or isinstance(value, str | bool | int | float)) or value == "???":
        raise NotPlainError(f"value {value!r}")
