"""Python of one's own that a configuration names, `FILE.py:NAME` or `package.module:NAME`; its content is part of a run's identity."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from pathlib import Path

from harness.configuration.error import ConfigError


def parts_of(reference: str) -> tuple[Path, str]:
    """Return file and name of `FILE.py:NAME`, and those of `package.module:NAME` for a module that Python finds.

    Raises:
        ConfigError: it is written otherwise, there is no such file or module, or the file is no Python or defines no such name.
    """
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
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name not in defined:
        raise ConfigError(
            f"{path} defines no function {name!r}; it has {', '.join(sorted(defined)) or 'none'}"
        )
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
