"""How a process ends that is not taken apart: everything a usual end does for its user happens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def ended(action: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """A process whose life is `action`, with its output in pipes (so that it is buffered)."""
    code = f"import sys\nfrom harness.process import end_process\n{before}\ndef action():\n    {action}\nend_process(action)"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


def in_shell(line: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HARNESS": f"{sys.executable} -m harness",
        "PYTHONUNBUFFERED": "",
    }
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60, env=environment
    )


@pytest.mark.parametrize(
    ("action", "code", "said"),
    [
        ("return 0", 0, ""),
        ("return 75", 75, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('a reason')", 1, "a reason\n"),
    ],
)
def test_the_code_is_that_of_the_action(action: str, code: int, said: str) -> None:
    done = ended(action)
    assert (done.returncode, done.stderr) == (code, said)


def test_an_error_is_a_traceback_and_code_1() -> None:
    done = ended("raise ValueError('broken')")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ValueError: broken\n")


def test_buffers_threads_executors_and_exit_functions_are_brought_to_their_end() -> None:
    before = (
        "import atexit, tempfile, threading, time\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from pathlib import Path\n"
        "folder = tempfile.TemporaryDirectory()\n"
        "executor = ThreadPoolExecutor(1)\n"
        "executor.submit(lambda: (time.sleep(0.2), print('executor')))\n"
        "threading.Thread(target=lambda: (time.sleep(0.4), print('thread'))).start()\n"
        "atexit.register(lambda: print('exit function'))"
    )
    done = ended("print(folder.name); return 0", before)
    assert done.returncode == 0, done.stderr
    folder, *rest, last = done.stdout.splitlines()
    assert sorted(rest) == ["executor", "thread"]
    assert last == "exit function"
    listed = subprocess.run(["ls", folder], capture_output=True, check=False)
    assert listed.returncode, "a temporary folder goes with its process"


def test_an_interrupt_ends_with_the_code_that_shells_know() -> None:
    done = ended("raise KeyboardInterrupt")
    assert done.returncode == 130
    assert done.stderr.endswith("KeyboardInterrupt\n")


def test_a_tracker_hears_code_and_error() -> None:
    before = (
        "import atexit\nheard = []\nusual = sys.exit\n"
        "def told(code=None): heard.append(code); usual(code)\n"
        "sys.exit = told\n"
        "sys.excepthook = lambda kind, *_: heard.append(kind.__name__)\n"
        "atexit.register(lambda: print(heard))"
    )
    assert ended("return 3", before).stdout == "[3]\n"
    assert ended("raise ValueError", before).stdout == "['ValueError', 1]\n"


def test_a_reader_that_has_gone_is_no_error_to_read_about() -> None:
    for arguments in ("--help", "run --help"):
        done = in_shell(f"$HARNESS {arguments} | true; echo ${{PIPESTATUS[0]}}")
        assert done.stderr == ""
        assert done.stdout in ("0\n", "141\n")  # 0: it was written before the reader went


def test_a_closed_stream_and_a_full_disk() -> None:
    assert in_shell("$HARNESS --version 2>&-").returncode == 0
    if Path("/dev/full").exists():
        assert in_shell("$HARNESS --version >/dev/full").returncode == 120


def test_a_profiler_gets_its_turn(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from harness.process import end_process\nend_process(lambda: 0)\n")
    done = subprocess.run(
        [sys.executable, "-m", "cProfile", str(script)],
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "function calls" in done.stdout, done.stderr


def test_the_module_loads_nothing_heavy() -> None:
    code = "import sys, harness.process; print(len(sys.modules), 'numpy' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(said[0]) < 150
    assert said[1] == "False"
