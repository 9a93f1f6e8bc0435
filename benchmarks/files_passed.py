"""Files of ours that one command passes through: `python benchmarks/files_passed.py [KEY=VALUE ...]`.

Runs `harness run experiment=dapo_ladder` in this process, on two seeds and two steps, and counts the files of `harness/` and `analysis/` in
which a function ran: before the first worker starts, and from the end of the last one to the answer. Code at module level does not count,
and neither do the workers, which are processes of their own. The goal is 60 in each.
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

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
GOAL = 60
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
    """A profile function that remembers files, not times. `before`: those before the first worker; `names`: those since the last one."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.before: set[str] | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        # Not the body of a module or class.
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            self.names.add(frame.f_code.co_filename)

    def watch(self) -> None:
        """Tell the start of a worker, and the end of one."""
        from harness.execution.attempt import Attempt
        from harness.execution.workers import Workers

        start, end = Workers.start, Attempt.end

        def first_start(*arguments: Any, **options: Any) -> Any:
            self.before = self.before or set(self.names)
            return start(*arguments, **options)

        def last_end(*arguments: Any, **options: Any) -> Any:
            outcome = end(*arguments, **options)
            self.names.clear()
            return outcome

        Workers.start, Attempt.end = first_start, last_end  # type: ignore[method-assign]


def ours(names: set[str]) -> list[str]:
    """Paths relative to the project, sorted."""
    paths = [Path(name) for name in names if name.startswith(str(ROOT))]
    relative = (path.relative_to(ROOT) for path in paths)
    return sorted(str(path) for path in relative if path.parts[0] in ("harness", "analysis"))


def main() -> int:
    """Run the command and print its files by package."""
    os.environ.setdefault("PYTHONPATH", str(ROOT))
    from harness.cli import main as command

    files = Files()
    files.watch()
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["run", *SMALL, f"runtime.results={folder}/results", *sys.argv[1:]]
        threading.setprofile(files)
        sys.setprofile(files)
        try:
            code = command(arguments)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    counts = []
    for phase, names in (("before the first worker", files.before or set()), ("after the last worker", files.names)):
        passed = ours(names)
        packages = Counter("/".join(Path(name).parts[:2]) for name in passed if name.startswith("harness"))
        packages |= Counter("analysis" for name in passed if name.startswith("analysis"))
        print("\n".join(f"  {name}" for name in passed))
        print("\n".join(f"{package}: {count}" for package, count in sorted(packages.items())))
        print(f"{len(passed)} files of ours {phase} (goal: {GOAL})")
        counts.append(len(passed))
    print(f"the command ended with {code}")
    return 0 if max(counts) <= GOAL and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
