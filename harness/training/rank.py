"""One rank of a run, started by torchrun: `python -m harness.training.rank RUN_DIRECTORY ATTEMPT`."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from harness.store import RunDir
from harness.store.atomic import write_file
from harness.store.layout import attempt_dir
from harness.training.parent_death import die_with


def main(run_path: Path, attempt: int) -> int:
    """Train as this rank; rank 0 leaves the result once all are through, the first rank that fails its error.

    Ranks end together: none leaves its groups before the result is written. One that fails leaves at once, since the others may
    wait for it in an operation that it will not join.
    """
    die_with(
        os.getppid()
    )  # torchrun gives ranks a session of their own, where the supervisor's signals do not reach
    from harness.configuration.schema import load
    from harness.configuration.user_code import blamed
    from harness.model.ranks import Ranks, close_groups
    from harness.training.run import train_run
    from harness.training.torchrun import ERROR, RESULT, STOP

    run = RunDir(run_path)
    folder = attempt_dir(run.path, attempt)
    try:
        with blamed():
            complete = train_run(load(run.settings()), run, (folder / STOP).exists, attempt)
        ranks = Ranks.join()
        ranks.gather(None)  # all are through
        if ranks.first:
            write_file(folder / RESULT, json.dumps({"complete": complete}).encode())
        ranks.from_first(None)  # it is written
        close_groups()
    except Exception as error:
        traceback.print_exc()
        if not (folder / ERROR).exists():
            (folder / ERROR).write_text(
                f"rank {os.environ.get('RANK', '0')}: {type(error).__name__}: {error}\n"
            )
        return 1
    return 0


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of torch's libraries can live on; destroying them with the interpreter aborts the process now and then.
    os._exit(code)
