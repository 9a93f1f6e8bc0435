"""The architecture that can be seen: dependencies one way, rooms of one purpose, nothing heavy where it must not be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("harness/**/*.py"), *ROOT.glob("analysis/**/*.py")])
HEAVY = {"torch", "transformers", "vllm", "ray", "wandb"}
# What each part may import of the harness, from leaves to the command line. A module belongs to its longest prefix.
MAY_IMPORT = {
    "analysis": {"analysis", "harness.store", "harness.evaluation", "harness.verify"},
    "harness.store": {"harness.store"},
    "harness.verify": {"harness.verify"},
    "harness.evaluation.metrics.exact": {"harness.evaluation"},
}


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module, and whether the import runs when the file is imported (not inside a function or TYPE_CHECKING)."""
    tree = ast.parse(path.read_text())
    guarded: set[ast.AST] = set()
    for node in ast.walk(tree):
        inside_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        type_checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if inside_function or type_checking:
            guarded |= set(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node not in guarded) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node not in guarded


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_nothing_imports_analysis() -> None:
    offenders = [
        module_name(path)
        for path in SOURCES
        if path.is_relative_to(ROOT / "harness")
        and any(name.split(".")[0] == "analysis" for name, _ in imports(path))
    ]
    assert not offenders


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_dependencies_point_one_way(part: str) -> None:
    allowed = MAY_IMPORT[part]
    for path in SOURCES:
        name = module_name(path)
        if name != part and not name.startswith(f"{part}."):
            continue
        for imported, _ in imports(path):
            ours = imported.split(".")[0] in ("harness", "analysis")
            inside = any(imported == a or imported.startswith(f"{a}.") for a in allowed)
            assert not ours or inside, f"{name} imports {imported}"


def test_the_objective_knows_no_engine_store_or_loop() -> None:
    for path in SOURCES:
        if module_name(path).startswith("harness.objective"):
            for imported, _ in imports(path):
                assert not re.match(
                    r"harness\.(training|store|rollout|evaluation|execution|commands)", imported
                ), path


def test_configuration_members_import_nothing_heavy_at_the_top() -> None:
    families = ("objective/advantage", "objective/surrogate", "objective/aggregation", "objective/kl")
    families += (
        "sampling/curriculum",
        "rollout/engine",
        "base_policy",
        "problems/benchmarks",
        "backends",
        "commands",
    )
    for family in families:
        for path in (ROOT / "harness" / family).glob("*.py"):
            heavy = {name.split(".")[0] for name, at_import in imports(path) if at_import} & HEAVY
            assert not heavy, f"{path.relative_to(ROOT)} imports {heavy} when the configuration is loaded"


def test_files_and_functions_stay_small() -> None:
    long_files, long_functions = [], []
    for path in SOURCES:
        text = path.read_text()
        if text.count("\n") > 400:
            long_files.append(module_name(path))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                if node.end_lineno - node.lineno + 1 > 60:
                    long_functions.append(f"{module_name(path)}.{node.name}")
    assert not long_files
    assert not long_functions


def test_there_is_no_room_for_everything() -> None:
    assert not [path for path in SOURCES if path.stem in ("utils", "util", "helpers", "misc", "common")]
