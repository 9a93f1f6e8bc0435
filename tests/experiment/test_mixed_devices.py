"""A run's device: what the store says of it, and what is said when finished runs are of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stored_runs import about, created

from harness.configuration.sections import RuntimeConfig
from harness.execution import attempt
from harness.experiment.history import mixed_devices_note
from harness.model.system import InstalledGpu
from harness.store import ResultStore
from harness.store.reader import devices_of


@pytest.mark.parametrize(
    ("found", "devices"),
    [
        (about(attempts=[{"device": "cpu", "gpus": 0}]), ("cpu",)),
        (about(attempts=[{"device": "NVIDIA H100"}, {"device": "cpu"}]), ("NVIDIA H100", "cpu")),
        (about(attempts=[{"index": 0}]), ()),
        (None, ()),
    ],
)
def test_a_manifest_says_its_devices(found: dict[str, Any] | None, devices: tuple[str, ...]) -> None:
    assert devices_of(found) == devices


def test_the_leased_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    two = [InstalledGpu(str(n), f"GPU-{n}", f"NVIDIA {name}", "550.1") for n, name in enumerate(("H100", "A100"))]
    monkeypatch.setattr(attempt, "installed_gpus", lambda: two)
    assert [attempt.device_name(visible) for visible in ("", "1", "0,1", "GPU-3f9a")] == [
        "cpu",
        "NVIDIA A100",
        "NVIDIA H100",
        "NVIDIA H100",
    ]
    monkeypatch.setattr(attempt, "installed_gpus", list)
    assert attempt.device_name("0") == "gpu"


def test_finished_runs_of_another_device_are_named_with_the_flag_for_a_fresh_comparison(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    for number, device in enumerate(["cpu", "cpu", "NVIDIA H100"]):
        created(store.run(f"{number}" * 16), "", about(attempts=[{"device": device}]))
    created(store.run("3" * 16), "", about(None, "interrupted", attempts=[{"device": "cpu"}]))
    runs = [f"{number}" * 16 for number in range(5)]
    said = mixed_devices_note(store, runs, RuntimeConfig(device="cuda"))
    assert "not made on a GPU: 2 on cpu" in said
    assert f"runtime.results={tmp_path}/results-gpu" in said
    assert "1 on NVIDIA H100" in mixed_devices_note(store, runs, RuntimeConfig())
    assert mixed_devices_note(store, runs[:2], RuntimeConfig()) == ""
    assert mixed_devices_note(store, runs[2:3], RuntimeConfig(device="cuda")) == ""
