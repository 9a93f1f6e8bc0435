"""The architecture that can be seen: dependencies one way, rooms of one purpose, nothing heavy where it must not be."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import import_graph
import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("harness/**/*.py"), *ROOT.glob("analysis/**/*.py")])
HEAVY = {"torch", "transformers", "vllm", "ray", "wandb"}
ENTRIES = {"harness", "cli", "train", "__main__"}  # they may import every room


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


def the_map() -> dict[str, set[str]]:
    """Room → the rooms it may import, as the map in harness/README.md says; the rooms stand from the top of the house down."""
    text = (ROOT / "harness" / "README.md").read_text().partition("## The map")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|$", text, flags=re.MULTILINE)
    return {room: set(re.findall(r"\w+", targets)) - {"nothing"} for room, targets in rows}


def test_the_map_names_every_room_and_only_rooms() -> None:
    packages = {path.parent.name for path in (ROOT / "harness").glob("*/__init__.py")}
    assert the_map().keys() == packages | {"analysis"}
    assert {path.stem for path in (ROOT / "harness").glob("*.py")} == ENTRIES - {"harness"} | {"__init__"}


@pytest.mark.parametrize("room", the_map())
def test_every_room_says_what_lives_there_and_what_it_may_import(room: str) -> None:
    package = ROOT / "analysis" if room == "analysis" else ROOT / "harness" / room
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    sentence, _, rest = text.partition("May import:")
    assert len(sentence.strip()) > 20, f"{package}: say in one sentence what lives there"
    told = set(re.findall(r"\w+", rest.partition(".")[0])) - {"nothing", "of", "ours"}
    assert told == the_map()[room], f"{package}/__init__.py and the map in harness/README.md differ"


def test_rooms_import_what_the_map_allows() -> None:
    allowed = the_map()
    between = import_graph.room_arrows(import_graph.imports())
    offending = [
        f"{source} may not import {target}: {module} imports {imported}"
        for (source, target), pairs in sorted(between.items())
        if source not in ENTRIES and target not in allowed[source]
        for module, imported in pairs
    ]
    assert not offending, "\n".join(offending)
    used = {(source, target) for source, target in between}
    unused = [f"{source} → {t}" for source, targets in allowed.items() for t in targets if (source, t) not in used]
    assert not unused, f"the map in harness/README.md allows what nobody imports: {', '.join(unused)}"


def test_the_map_goes_down_only() -> None:
    rooms = list(the_map())
    for room, targets in the_map().items():
        above = [target for target in targets if target in rooms and rooms.index(target) <= rooms.index(room)]
        assert not above, f"{room} imports {above}, which stand above it in the map"


def test_there_are_no_import_circles() -> None:
    assert import_graph.circles(import_graph.imports()) == []


@pytest.mark.parametrize(
    ("part", "allowed"),
    [
        ("harness.evaluation.metrics", "harness.evaluation.metrics"),
        ("harness.verify.read", "harness.verify.read"),
        ("harness.statistics", "harness.statistics"),
    ],
)
def test_inner_rooms_of_pure_functions_import_nothing_else_of_ours(part: str, allowed: str) -> None:
    for name, targets in import_graph.imports().items():
        if name.startswith(part):
            assert [target for target in targets if not target.startswith(allowed)] == [], name


def test_configuration_members_import_nothing_heavy_at_the_top() -> None:
    families = ["objective/advantage", "objective/surrogate", "objective/aggregation", "sampling/curriculum"]
    families += ["rollout/engine", "base_policy", "problems/benchmarks", "backends", "commands"]
    for family in families:
        folder = ROOT / "harness" / family
        for path in [*folder.glob("[!_]*.py"), *folder.glob("[!_]*/__init__.py")]:
            heavy = {name.split(".")[0] for name, at_import in imports(path) if at_import} & HEAVY
            assert not heavy, f"{path.relative_to(ROOT)} imports {heavy} when the configuration is loaded"


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("harness.store, harness.cli, harness.train, harness.commands.translate", "sympy trl"),
        ("harness.execution.supervisor, harness.execution.progress, harness.exchange.logs", "trl"),
        ("analysis", "matplotlib"),
        ("analysis.html.page, harness.problems.benchmarks.arithmetic, harness.problems.benchmarks.dataset", ""),
    ],
)
def test_what_starts_often_loads_nothing_heavy(modules: str, heavy: str) -> None:
    code = f"import sys, {modules}; sys.exit(', '.join({HEAVY | set(heavy.split())} & {{*sys.modules}}) or 0)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# What each verb may load, of packages that take time: answers to an empty folder, without what is asked of tables or a policy.
CONFIGURATION = "antlr4 hydra omegaconf yaml numpy"
PICTURES = "PIL fontTools kiwisolver matplotlib mpl_toolkits pyparsing"
TABLES = f"scipy rich analysis cloudpickle dateutil jinja2 pandas pyarrow {PICTURES}"
POLICY = "rich torch torchgen dill tqdm"
NEVER = "accelerate datasets joblib math_verify optuna ray safetensors submitit sympy tokenizers transformers trl vllm wandb"
MAY_LOAD = {
    "--help": "", "pack experiment=dapo_ladder": "", "merge nowhere": "", "keys optimizer": "scipy", "translate from=verl": "scipy",
    "new x": "scipy", "status": "scipy rich", "plan experiment=dapo_ladder": "scipy rich", "report only=table": "scipy rich",
    "doctor": "scipy rich", "judge scores.csv": TABLES, "view port=none": TABLES, "explain rewards=[1,0] lengths=[2,3]": POLICY,
}  # fmt: skip


@pytest.mark.parametrize("command", MAY_LOAD)
def test_a_verb_loads_what_it_may(command: str, tmp_path: Path) -> None:
    """Loading a configuration imports no engine; what a verb answers to an empty folder, it answers soon."""
    code = (
        "import atexit, sys; from harness.cli import main\n"
        "atexit.register(lambda: print(*sys.modules, file=open('loaded', 'w')))\n"
        f"main({command.split()})"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, check=False)
    loaded, verb = (tmp_path / "loaded").read_text().split(), command.split()[0]
    assert b"Traceback" not in done.stderr, done.stderr
    assert verb == "--help" or f"harness.commands.{verb}" in loaded
    heavy = {*f"{TABLES} {POLICY} {NEVER}".split()} - {*f"{CONFIGURATION} {MAY_LOAD[command]}".split()}
    assert not heavy & {name.partition(".")[0] for name in loaded}


def test_functions_stay_small() -> None:
    functions = [
        (path, node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [f"{path}: {node.name}" for path, node in functions if node.end_lineno - node.lineno + 1 > 60] == []


@pytest.mark.parametrize(
    ("folders", "most_lines"), [(("harness", "analysis", "hydra_plugins"), 39_500), (("tests",), 26_000)]
)
def test_the_house_does_not_grow(folders: tuple[str, ...], most_lines: int) -> None:
    lines = sum(len(path.read_text().splitlines()) for folder in folders for path in (ROOT / folder).rglob("*.py"))
    assert lines <= most_lines, "what comes in takes something out"


def test_there_is_no_room_for_everything() -> None:
    assert not [path for path in SOURCES if path.stem in ("utils", "util", "helpers", "misc", "common")]


def test_paths_of_the_project_are_its_root() -> None:
    """Workers and verl import `harness` from here, whatever directory they run in."""
    from harness.backends.verl import overrides
    from harness.execution import workers

    assert (overrides._ROOT / "harness" / "__init__.py").exists()
    assert (workers._PROJECT / "harness" / "__init__.py").exists()
