"""One rank of a run, started by torchrun: `python -m harness.training.rank RUN_DIRECTORY ATTEMPT`."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

import yaml

from harness.configuration.schema import load
from harness.store import RunDir
from harness.training.parent_death import die_with
from harness.training.run import train_run
from harness.training.torchrun import ERROR, RESULT, STOP


def main(run_path: Path, attempt: int) -> int:
    """Train as this rank; rank 0 leaves the result, the first rank that fails its error."""
    die_with(
        os.getppid()
    )  # torchrun gives ranks a session of their own, where the supervisor's signals do not reach
    run = RunDir(run_path)
    folder = run.path / "attempts" / f"{attempt:03d}"
    try:
        complete = train_run(load(yaml.safe_load(run.config())), run, (folder / STOP).exists, attempt)
    except Exception as error:
        traceback.print_exc()
        if not (folder / ERROR).exists():
            (folder / ERROR).write_text(
                f"rank {os.environ.get('RANK', '0')}: {type(error).__name__}: {error}"
            )
        return 1
    if os.environ.get("RANK", "0") == "0":
        (folder / RESULT).write_text(json.dumps({"complete": complete}))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
