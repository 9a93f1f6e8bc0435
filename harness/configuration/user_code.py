"""Members of one's own: Python files of a folder that `--config-dir` names, beside its YAML.

The folder mirrors the package: `FOLDER/objective/advantage/median.py` is the member `median` of `harness.objective.advantage`. A member is
one file. Its content is part of a run's identity: its `Config` gets a field `code`, which stored configurations hold, so that other code is
another run, and runs are read without the file. Loading a member checks that it defines what its family asks.
A member should read no file: its code and its configuration decide a run.
`FILE.py:NAME` in a configuration names a single function, whose file's content counts alike.
"""

import ast
import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.configuration.error import ConfigError

_PREFIX = "own_member_"
# Family and kind to the file; of a name in several folders that of the newest command.
FILES: dict[tuple[str, str], Path] = {}


def own_files(folder: Path, families: Iterable[str]) -> dict[tuple[str, str], Path]:
    """Return the members in a folder: family and kind to their files."""
    return {
        (family, path.stem): path
        for family in families
        for path in sorted((folder / Path(*family.split(".")[1:])).glob("[!_]*.py"))
    }


def register(folders: Iterable[Path], families: Iterable[str], shipped_kinds: Callable[[str], Iterable[str]]) -> None:
    """Make the members of these folders known in this process. Raises `ConfigError` for two of one name, or the name of a shipped one."""
    paths: dict[tuple[str, str], Path] = {}
    for folder in folders:
        for key, path in own_files(folder, families).items():
            if key in paths:
                raise ConfigError(f"{path} and {paths[key]} are two members of one name; rename one of them")
            if key[1] in shipped_kinds(key[0]):
                raise ConfigError(f"{path} has the name of a shipped member; rename it")
            paths[key] = path
    FILES.update(paths)


def own_member(family: str, kind: str) -> ModuleType | None:
    """Return a user's member as its file is now; None where there is none. Raises `ConfigError` that names file and line."""
    path = FILES.get((family, kind))
    return None if path is None or not path.exists() else _load(family, path, code_of(path))


def code_of(path: Path) -> str:
    """16 hexadecimal digits of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def module_of(config: Any) -> ModuleType | None:
    """Return the user's module of a `Config`, None for a shipped member."""
    name = type(config).__module__
    return sys.modules[name] if name.startswith(_PREFIX) else None


@functools.cache
def _load(family: str, path: Path, code: str) -> ModuleType:
    name = f"{_PREFIX}{code}_{family.replace('.', '_')}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = error.lineno if isinstance(error, SyntaxError) else _line(error, path)
        raise ConfigError(f"{path}, line {line}: {type(error).__name__}: {error}") from error
    config: Any = getattr(module, "Config", None)
    if not (isinstance(config, type) and dataclasses.is_dataclass(config)) or getattr(config, "kind", "") != path.stem:
        raise ConfigError(f"{path}: a member defines a dataclass Config with `kind: str = {path.stem!r}`")
    package = importlib.import_module(family)
    base: Any = getattr(package, "Member", None)
    if base is not None and not issubclass(config, base):
        raise ConfigError(f"{path}: its Config must inherit {base.__name__}: `from {family} import {base.__name__}`")
    absent = (
        {name for name in package.FUNCTIONS if not hasattr(module, name)}
        if base is None
        else config.__abstractmethods__
    )
    if absent:
        raise ConfigError(f"{path} defines no {' and no '.join(sorted(absent))}; {family} says what it asks")
    field = ("code", str, dataclasses.field(default=code))
    module.__dict__["Config"] = config_with_code = dataclasses.make_dataclass("Config", [field], bases=(config,))
    config_with_code.__module__ = name
    return module


def _line(error: Exception, path: Path) -> int | None:
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), None)


def parts_of(reference: str) -> tuple[Path, str]:
    """Return file and name of `FILE.py:NAME` or `package.module:NAME`. Raises `ConfigError` where there is no such function."""
    text, _, name = reference.rpartition(":")
    if not text or not name.isidentifier():
        raise ConfigError(f"{reference!r} names no function; write FILE.py:NAME or package.module:NAME")
    path = Path(text).expanduser() if text.endswith(".py") else _file_of(text)
    if not path.is_file():
        raise ConfigError(f"{reference!r}: there is no file {path}")
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{path} is no Python: {error}") from error
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name not in functions:
        raise ConfigError(f"{path} defines no function {name!r}; it has {', '.join(sorted(functions)) or 'none'}")
    return path, name


def _file_of(module: str) -> Path:
    """Return the file of a module; the packages around it are imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        raise ConfigError(f"there is no Python module {module!r}; write FILE.py:NAME or package.module:NAME")
    return Path(spec.origin)


def source_hash(reference: str) -> str:
    """Return 16 hexadecimal digits of a file's content and the name. Raises ConfigError as `parts_of`."""
    path, name = parts_of(reference)
    return hashlib.sha256(path.read_bytes() + b"\0" + name.encode()).hexdigest()[:16]
