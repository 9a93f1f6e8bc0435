"""Evaluate shipped base policies on the testbed's held-out problems: `python experiments/base_policies/accuracy.py [SET] [key=value ...]`.

Further arguments go to `harness evaluate`; `evaluation=testbed` is the protocol of the ladder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.cli import main
from harness.configuration.compose import compose_run
from harness.testbed.recipe import base_set


def evaluate_set(name: str, overrides: list[str]) -> int:
    """Put every policy of the set together in the results cache and evaluate all side by side; the command's exit code."""
    machine = [item for item in overrides if item.startswith("runtime.")]
    cache = Path(compose_run(machine).runtime.results) / "cache"
    base_policies = base_set(name)
    folders = [str(base_policies.checkpoint(index, cache)) for index in range(len(base_policies.weights))]
    protocol = [] if any(item.startswith("evaluation=") for item in overrides) else ["evaluation=testbed"]
    return main(["evaluate", f"model={','.join(folders)}", *protocol, *overrides])


if __name__ == "__main__":
    arguments = sys.argv[1:]
    name = arguments.pop(0) if arguments and "=" not in arguments[0] else "arithmetic-2"
    raise SystemExit(evaluate_set(name, arguments))
