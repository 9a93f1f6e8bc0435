"""The import graph of the project, read from its source: rooms, arrows, circles.

Every import counts: at the top, inside a function, and for types only. Families are reached by name (`harness.configuration.registry`) and
leave no arrow.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path

import networkx

ROOT = Path(__file__).parents[1]
PACKAGES = ("harness", "analysis")


def modules() -> dict[str, Path]:
    """Dotted name → file of every module of the project."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


@functools.cache
def imports() -> dict[str, set[str]]:
    """Module → the project's modules that it imports."""
    known = modules()
    arrows: dict[str, set[str]] = {}
    for name, path in known.items():
        arrows[name] = {target for target in _imported(path, known) if target in known} - {name}
    return arrows


def _imported(path: Path, known: Mapping[str, Path]) -> Iterable[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else node.module


def room(module: str) -> str:
    """The room of a module: the package or file directly under `harness`; all of `analysis` is one."""
    first, _, rest = module.partition(".")
    return rest.partition(".")[0] or "harness" if first == "harness" else first


def room_arrows(arrows: Mapping[str, Iterable[str]]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """(room, room) → the imports that make this arrow."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for module, targets in arrows.items():
        for target in targets:
            if room(module) != room(target):
                found.setdefault((room(module), room(target)), []).append((module, target))
    return found


def circles(arrows: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Circles between files, and between packages beside each other in one package.

    `analysis` is a room like those in `harness`: it calls the store, and verbs call it. So the two packages are not held to one direction.
    """
    found = [sorted(part) for part in _strong((a, b) for a, targets in arrows.items() for b in targets)]
    packages = {name.rpartition(".")[0] for name in arrows} - {""}
    for package in sorted(packages):
        pairs = ((_child(package, a), _child(package, b)) for a, targets in arrows.items() for b in targets)
        found += [sorted(part) for part in _strong((a, b) for a, b in pairs if a and b and a != b)]
    return sorted(map(list, {tuple(part) for part in found}))


def _child(package: str, module: str) -> str:
    """The file or package directly inside `package` that holds `module`; empty if none does."""
    prefix = f"{package}." if package else ""
    if not module.startswith(prefix):
        return ""
    return prefix + module.removeprefix(prefix).partition(".")[0]


def _strong(edges: Iterable[tuple[str, str]]) -> Iterable[set[str]]:
    graph = networkx.DiGraph()
    graph.add_edges_from(edges)
    return (part for part in networkx.strongly_connected_components(graph) if len(part) > 1)
