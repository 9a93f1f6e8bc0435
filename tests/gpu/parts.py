"""What a first hour on a GPU runs, in independent parts of less than eight minutes each; every part leaves one small file in one folder.

    python tests/gpu/parts.py OUT [PART ...] [--minutes 9] [--device cuda]

Parts that have a result in OUT are skipped, one that does not fit into the minutes left is not started: repeat the command until it says
that nothing is left. `--device cpu` rehearses all of them with narrow models. `tests/gpu/README.md` says what to install.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
PACKAGES = ("torch", "transformers", "numpy", "vllm", "trl", "peft")
_SAID_LINES, _FAILED_LINES = 60, 2000  # of the output, kept beside the result
_GRACE_SECONDS = 10.0  # between asking a command to end and killing it
_SPARE_SECONDS = 20.0  # to write a result down before the command's own limit


@dataclass(frozen=True)
class Part:
    """Commands that are run one after the other, each `[SCRIPT, OPTIONS...]`; `{out}` becomes a file for what it measured."""

    name: str
    minutes: float
    commands: tuple[tuple[str, ...], ...]


def parts(device: str) -> list[Part]:
    """All of them, in the order in which they are worth their minutes."""
    cuda = device == "cuda"
    shape = ("--device", device, *(() if cuda else ("--tiny", "--response", "16", "--steps", "4")))
    steps = ("steps.py", *shape, "--out", "{out}")
    few = ("--steps", "5", "--response", "256") if cuda else ()
    # Each test by its name as it begins, and where it hangs: a command that is cut says what it was at.
    tests = ("-m", "pytest", "-v", "--tb=short", "-o", "faulthandler_timeout=120")
    # Without a GPU the tests for one are skipped; the rehearsal runs the same code on a pretend one. Two processes: an error of the device
    # ends every later test of its own.
    on_gpu = tuple(
        (*tests, "-m", "gpu", str(HERE / f"{name}.py")) for name in ("test_on_gpu", "test_training_on_gpu")
    )
    contract = on_gpu if cuda else ((*tests, str(HERE / "test_rehearsal.py")),)
    return [
        Part("contract", 6, contract),
        Part("native", 7, ((*steps, "--seconds", "120"), (*steps, "--seconds", "120", "--checkpointing"))),
        Part("ladder", 7.5, (("ladder.py", "--device", device, "--out", "{out}"),)),
        Part("resume", 5, (("killed_run.py", "--device", device, "--out", "{out}"),)),
        Part("transformers", 6, ((*steps, "--engine", "transformers", *few),)),
        Part("trl", 7, (("trl_steps.py", *shape, *few, "--out", "{out}"), (*steps, *few))),
        Part(
            "vllm",
            7.5,
            (
                (*steps, "--engine", "vllm"),
                (*steps, "--engine", "vllm", *few, "--override", "engine.enforce_eager=true"),
            ),
        ),
    ]


def run_part(part: Part, out: Path, device: str) -> bool:
    """Run a part and write `OUT/NAME.json`; whether all of its commands ended well."""
    begin, results, said, codes = time.monotonic(), [], "", []
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}
    # Packages that were brought along may stand there already.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as scratch:
        for number, (script, *options) in enumerate(part.commands):
            result = Path(scratch) / f"{number}.json"
            program = [script] if script.startswith("-") else [str(HERE / script)]
            command = [
                sys.executable,
                *program,
                *(str(result) if item == "{out}" else item for item in options),
            ]
            left = part.minutes * 60 - (time.monotonic() - begin)
            code, text = _run(command, environment, left, Path(scratch) / "output")
            if "pytest" in options and not code and not re.search(r"\d+ passed", text):
                code = 5  # skipped tests have shown nothing
            codes.append(code)
            kept = text.splitlines()[-(_FAILED_LINES if code else _SAID_LINES) :]
            said += f"$ {' '.join([script, *options])}\n" + "\n".join(kept) + "\n"
            if result.exists():
                results.append(json.loads(result.read_text()))
    good = not any(codes) and not any("failed" in result for result in results)
    record = {
        "part": part.name,
        "good": good,
        "exit": codes,
        "seconds": round(time.monotonic() - begin, 1),
        "results": results,
        **machine(device),
        "said": said,
    }
    (out / f"{part.name}.json").write_text(json.dumps(record, indent=1))
    return good


def _run(command: list[str], environment: dict[str, str], seconds: float, output: Path) -> tuple[int, str]:
    """Exit code (124 where the time ran out) and output. Nothing that it started is left on the device."""
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=PROJECT,
            start_new_session=True,
        )
        try:
            code = process.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_SECONDS)
            code = 124
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return code, output.read_text(errors="replace")


def machine(device: str) -> dict[str, Any]:
    """What the part ran on, without importing torch here."""
    versions = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        gpus = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip().splitlines()
    except FileNotFoundError:
        gpus = []
    return {
        "device": (gpus[0] if gpus else "a GPU")
        if device == "cuda"
        else f"cpu ({platform.machine()}), a rehearsal",
        "python": platform.python_version(),
        "packages": {name: versions[name] for name in PACKAGES if name in versions},
    }


def main(arguments: Sequence[str]) -> int:
    """0: every part has a good result; 1: one failed; 3: some are left, repeat the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("part", nargs="*")
    parser.add_argument("--minutes", type=float, default=9.0, help="of this command")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = parser.parse_intermixed_args(arguments)
    known = {part.name: part for part in parts(options.device)}
    if unknown := set(options.part) - set(known):
        parser.error(f"unknown parts {', '.join(sorted(unknown))}; choose of {', '.join(known)}")
    options.out.mkdir(parents=True, exist_ok=True)
    begin, left = time.monotonic(), []
    for part in [known[name] for name in options.part] or list(known.values()):
        if (options.out / f"{part.name}.json").exists():
            continue
        remaining = options.minutes * 60 - (time.monotonic() - begin) - _SPARE_SECONDS
        if remaining < part.minutes * 60:
            left.append(part.name)
            continue
        print(f"{part.name}: at most {part.minutes:g} min", flush=True)
        good = run_part(part, options.out, options.device)
        print(f"{part.name}: {'good' if good else 'FAILED, see ' + part.name + '.json'}", flush=True)
    if left:
        print(f"not started for lack of time: {', '.join(left)}; repeat the command")
        return 3
    records = [json.loads(path.read_text()) for path in options.out.glob("*.json")]
    return 0 if all(record["good"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
