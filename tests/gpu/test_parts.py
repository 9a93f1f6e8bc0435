"""The parts of a first hour on a GPU: skipped where a result stands, never started without time, one file each; a page from them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import parts
import pytest
import table
from parts import Part


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a second: one that measures, one that fails."""
    write = "import sys; open(sys.argv[1], 'w').write('{\"engine\": \"native\", \"step_seconds\": 1.5}'); print('said')"
    listed = [
        Part("native", 1, (("-c", write, "{out}"), ("-c", write, "{out}"))),
        Part("trl", 2, (("-c", "raise SystemExit(5)"),)),
    ]
    monkeypatch.setattr(parts, "parts", lambda device: listed)


@pytest.mark.usefixtures("two")
def test_each_part_leaves_one_file_and_is_not_repeated(tmp_path: Path) -> None:
    assert parts.main([str(tmp_path), "--device", "cpu", "native"]) == 0
    found = json.loads((tmp_path / "native.json").read_text())
    assert (found["good"], found["exit"], len(found["results"])) == (True, [0, 0], 2)
    assert "said" in found["said"]
    assert found["packages"]["torch"]
    (tmp_path / "native.json").write_text(json.dumps(found | {"seconds": -1}))
    assert parts.main([str(tmp_path), "--device", "cpu"]) == 1
    assert json.loads((tmp_path / "native.json").read_text())["seconds"] == -1
    assert json.loads((tmp_path / "trl.json").read_text())["exit"] == [5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["native.json", "trl.json"]


@pytest.mark.usefixtures("two")
def test_a_part_that_does_not_fit_is_left_for_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parts.main([str(tmp_path), "--device", "cpu", "--minutes", "1.5"]) == 3
    assert "not started for lack of time: trl" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["native.json"]


def test_a_command_ends_with_its_part_s_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps = Part("vllm", 0.02, (("-c", "import time; time.sleep(60)"), ("-c", "")))
    assert not parts.run_part(sleeps, tmp_path, "cpu")
    assert json.loads((tmp_path / "vllm.json").read_text())["exit"][0] == 124


def test_packages_that_were_brought_along_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "brought_along.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert parts.run_part(Part("native", 1, (("-c", "import brought_along, harness"),)), tmp_path, "cpu")


def test_the_page_names_every_package_to_bring_along() -> None:
    """A machine without network has what the page lists: our dependencies, and what tests import."""
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    needed = {re.split(r"[\[<>=]", line)[0] for line in project}
    text = (Path(__file__).parent / "README.md").read_text()
    assert {name for name in needed | {"pytest", "hypothesis", "peft"} if name not in text} == set()


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_every_part_is_under_eight_minutes_and_their_files_are_few(device: str) -> None:
    listed = parts.parts(device)
    assert all(part.minutes < 8 for part in listed)
    assert tuple(part.name for part in listed) == table.ORDER
    assert len(listed) < 8
    scripts = {script for part in listed for script, *_ in part.commands if not script.startswith("-")}
    assert all((parts.HERE / script).exists() for script in scripts)


def test_the_page_has_every_row_and_what_follows(tmp_path: Path) -> None:
    step = {
        "engine": "native",
        "response_tokens": 8,
        "step_seconds": 2.0,
        "update_tflops": 98.9,
        "peak_memory_gib": 10.0,
    }
    theirs = {"engine": "TRL GRPOTrainer", "response_tokens": 8, "step_seconds": 3.0}
    made = {
        "device": "NVIDIA H100 80GB HBM3, 580.1, 81559 MiB",
        "python": "3.12",
        "packages": {"torch": "2.11"},
        "good": True,
    }
    sweep = {"runs": 6, "at_once": 6, "seconds": 60.0, "exit": 0}
    for name, results in {
        "contract": [],
        "native": [step, {"engine": "native", "failed": "no | memory"}],
        "trl": [theirs, step],
        "vllm": [step | {"engine": "vllm", "overrides": ["enforce_eager=true"]}],
        "ladder": [{"rows": [sweep]}],
    }.items():
        record = made | {"results": results, "said": "3 passed in 2 s"}
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    page = table.page(tmp_path)
    assert "| native, 8 tokens | 2.00 |" in page
    assert "not run: no / memory" in page
    assert "the update runs at 10% of the bfloat16 peak" in page
    assert "TRL / native, 8 tokens: 1.50" in page
    assert "6 runs, 6 at once: 60.0 s" in page
    assert "| vllm, enforce_eager=true, 8 tokens | 2.00 |" in page
    assert "Not run: resume, transformers." in page
