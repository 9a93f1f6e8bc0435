"""The testbed's ladder with one seed, then with as many runs at once as pay: runs a minute by runs on the device.

python tests/gpu/ladder.py --out ladder.json [--minutes 7]
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring import parser

RUNGS = 6
REHEARSAL = ("training.steps=2", "evaluation.samples_per_problem=2")


def sweep(results: Path, seeds: int, together: int, device: str, seconds: float) -> dict[str, Any]:
    """All rungs with so many seeds in a store of their own; `seconds` bounds it."""
    placed = f"runtime.runs_per_gpu={together}" if device == "cuda" else f"runtime.workers={min(together, 2)}"
    command = [sys.executable, "-m", "harness", "run", "--no-answer", "experiment=dapo_ladder"]
    command += [f"experiment.seeds={list(range(seeds))}".replace(" ", ""), f"runtime.device={device}", placed]
    command += [f"runtime.results={results}", *(() if device == "cuda" else REHEARSAL)]
    begin, output = time.monotonic(), results.with_suffix(".log")
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        try:
            code = process.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            process.terminate()
            code = 124
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
        finally:
            process.kill()  # its workers end with it
            process.wait()
    taken = time.monotonic() - begin
    if code:
        print("\n".join(output.read_text().splitlines()[-20:]), flush=True)
    return {"runs": RUNGS * seeds, "at_once": together, "exit": code, "seconds": round(taken, 1)}


def main() -> None:
    keys = parser(__doc__)
    keys.add_argument("--minutes", type=float, default=7.0)
    options = keys.parse_args()
    end, rows = time.monotonic() + options.minutes * 60, []
    # A run needs a core for what is not on the GPU.
    most = min(24, os.cpu_count() or 1) if options.device == "cuda" else 2
    tries = [(1, 1), *((max(1, n // RUNGS), n) for n in (6, 12, 18, 24) if n <= most)]
    with tempfile.TemporaryDirectory() as folder:
        for seeds, together in tries:
            left = end - time.monotonic()
            # The second sweep says whether several at once pay, and so is begun in any case; `left` bounds it.
            if len(rows) > 1 and left < rows[-1]["seconds"]:
                break
            rows.append(sweep(Path(folder) / f"{together}", seeds, together, options.device, left))
            options.out.write_text(json.dumps(outcome(rows), indent=1))
            if rows[-1]["exit"]:
                break
    print(json.dumps(outcome(rows)))


def outcome(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows and the best of them; `failed` where the first sweep did not end."""
    done = [row for row in rows if not row["exit"]]
    if not done:
        return {"rows": rows, "failed": f"the ladder ended with code {rows[0]['exit']}"}
    best = max(done, key=lambda row: row["runs"] / row["seconds"])
    return {"rows": rows, "at_once": best["at_once"], "runs_per_minute": 60 * best["runs"] / best["seconds"]}


if __name__ == "__main__":
    main()
