"""A finished run that lost a file is named by every verb, with the file, and counted by none."""

from __future__ import annotations

import tarfile

import pytest
from planned_runs import EXPERIMENT, finish, plan

from harness.commands._answer import answered_runs
from harness.configuration.sections import RuntimeConfig
from harness.experiment.history import mixed_devices_note
from harness.store.layout import run_dir

NAME = "clip_lr_grid"
PART = "samples/arithmetic_heldout/step-000100/part-000.parquet"


@pytest.fixture
def arms(store):
    """Two arms of two seeds, as they finish."""
    planned = plan(store, "experiment.seeds=[0,1]", 'experiment.grid=["optimizer.learning_rate=1e-4,2e-4"]')
    store.write_plan(NAME, planned.record())
    for number, spec in enumerate(planned.specs):
        finish(store, spec, 0.4 + 0.1 * number)
        run = store.run(spec.run_id)
        run.write_manifest(run.seal_manifest(run.manifest()))
    return planned.specs


def test_every_verb_names_it_and_none_counts_it(store, arms, said, tmp_path):
    here = f"runtime.results={store.root}"
    assert "incomplete" not in said("report", EXPERIMENT, "only=table", here)
    assert "4 of 4 runs list their files" in said("doctor", "store=true", here)
    lost = arms[-1].run_id
    (run_dir(store.root, lost) / PART).unlink()
    told = said("report", EXPERIMENT, "only=table", here)
    assert f"{PART} is missing" in told
    changed = store.run(arms[0].run_id)
    (changed.checkpoints()[-1][1] / "state").write_text("y" * 1000)
    looked = " ".join(said("doctor", "store=true", here, code=1).split())
    assert f"{PART} is missing" in looked
    assert "state has other content" in looked
    pack = tmp_path / "pack.tar.xz"
    told = said("pack", EXPERIMENT, f"out={pack}", here, code=1)
    assert "3 runs of 4" in told
    assert f"{PART} is missing" in told
    with tarfile.open(pack) as archive:
        assert not [name for name in archive.getnames() if lost in name]


def test_one_torn_manifest_ends_no_sweep(store, arms, said):
    """The commands around the supervisor read the manifests of all runs, and leave it to the supervisor to name the torn one."""
    torn = store.run(arms[0].run_id).path / "manifest.json"
    torn.write_text(torn.read_text()[:200])
    runtime = RuntimeConfig(device="cuda")
    assert mixed_devices_note(store, [spec.run_id for spec in arms], runtime) == mixed_devices_note(
        store, [spec.run_id for spec in arms[1:]], runtime
    )
    assert answered_runs(store, NAME) == {spec.run_id for spec in arms[1:]}
    for verb in (["report", EXPERIMENT, "only=table"], ["status"]):
        assert "manifest.json" in said(*verb, f"runtime.results={store.root}")
    told = said("pack", EXPERIMENT, f"out={store.root / 'pack'}", f"runtime.results={store.root}", code=1)
    assert "3 runs of 4" in told
    (store.run(arms[1].run_id).path / "manifest.json").unlink()
    told = said("pack", EXPERIMENT, f"out={store.root / 'pack'}", f"runtime.results={store.root}", code=1)
    assert "2 runs of 4" in told
    assert f"{store.run(arms[1].run_id).path} has no manifest.json" in told
