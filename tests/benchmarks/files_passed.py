"""Files of ours that one command passes through: `python tests/benchmarks/files_passed.py [KEY=VALUE ...]`.

Runs `harness run experiment=dapo_ladder` in this process, on two seeds and two steps, and counts the files of `harness/` and `analysis/` in
which a function ran. Code at module level does not count, and neither do the workers, which are processes of their own. The goal is 80.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
GOAL = 80
SMALL = (
    "experiment=dapo_ladder",
    "experiment.name=files_passed",
    "experiment.seeds=[0,1]",
    "training.steps=2",
    "training.evaluate_every=2",
    "evaluation.samples_per_problem=2",
    "evaluation.benchmarks.arithmetic_heldout.problems=16",
)


class Files:
    """A profile function that remembers files, not times."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        # Not the body of a module or class.
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            self.names.add(frame.f_code.co_filename)

    def ours(self) -> list[str]:
        """Paths relative to the project, sorted."""
        paths = [Path(name) for name in self.names if name.startswith(str(ROOT))]
        relative = (path.relative_to(ROOT) for path in paths)
        return sorted(str(path) for path in relative if path.parts[0] in ("harness", "analysis"))


def main() -> int:
    """Run the command and print its files by package."""
    os.environ.setdefault("PYTHONPATH", str(ROOT))
    from harness.cli import main as command

    files = Files()
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["run", *SMALL, f"runtime.results={folder}/results", *sys.argv[1:]]
        threading.setprofile(files)
        sys.setprofile(files)
        try:
            code = command(arguments)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    passed = files.ours()
    packages = Counter("/".join(Path(name).parts[:2]) for name in passed if name.startswith("harness"))
    packages |= Counter("analysis" for name in passed if name.startswith("analysis"))
    for name in passed:
        print(f"  {name}")
    for package, count in sorted(packages.items()):
        print(f"{package}: {count}")
    print(f"{len(passed)} files of ours (goal: {GOAL}); the command ended with {code}")
    return 0 if len(passed) <= GOAL and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
