"""What a Hydra user types: it does what Hydra does, or is refused by name."""

from __future__ import annotations

import math
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from omegaconf import OmegaConf
from small_runs import SMALL
from verbs import Said, harness, python

from harness.commands._sweep import _job_return, run_value
from harness.configuration.identity import run_id
from harness.configuration.schema import dump, load
from harness.experiment.planning import make_plan
from harness.store import ResultStore, StoreError

TWO = [*SMALL, "training.steps=1", "training.evaluate_every=1", "--no-answer"]


def test_cfg_job_is_the_configuration_that_is_planned(said: Said) -> None:
    plan = make_plan(["experiment=dapo_ladder", "training.steps=7"])
    for arm in (plan.arms[0], plan.arms[-1]):
        composed = yaml.safe_load(
            said("run", "--cfg", "job", "--resolve", *arm.overrides, "training.steps=7", "seed=3")
        )
        config = load(composed)
        assert run_id(config) == arm.runs[3]
        assert dump(config) == {**dump(arm.config), "seed": 3}


def test_cfg_hydra_names_sweeper_launcher_and_callback(said: Said) -> None:
    alone, sweep = (yaml.safe_load(said("run", "--cfg", "hydra", *more))["hydra"] for more in ([], ["claim=cispo"]))
    assert "DesignSweeper" in sweep["sweeper"]["_target_"]
    assert (alone["mode"], sweep["mode"]) == (None, "MULTIRUN")
    assert "ProcessLauncher" in alone["launcher"]["_target_"]
    assert alone["callbacks"]["answer"]["write"] is True
    assert said("run", "-c", "job", "--package", "optimizer.learning_rate", "--resolve").strip() == "0.0002"
    assert "%S-%f" in sweep["sweep"]["dir"], "sweeps that start in the same second have a folder each"


def test_hydras_files_of_a_run_that_cannot_be_written_are_one_line(tmp_path: Path) -> None:
    run = ResultStore(tmp_path).run("a" * 16)
    run.path.mkdir(parents=True)
    (run.path / ".hydra").touch()
    config = OmegaConf.create({"hydra": {"output_subdir": ".hydra"}})
    sweep, spec = Mock(store=ResultStore(tmp_path)), Mock(run_id=run.run_id, config_yaml="")
    sweep.plan.arms = sweep.plan.metrics = []
    with pytest.raises(StoreError, match=r"cannot write .*\.hydra/config\.yaml"):
        _job_return(config, sweep, spec, ["seed=0"])


def test_the_shell_completes_overrides(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", "harness run algorithm=dapo_mi")
    assert said("-sc", "query=bash").split() == ["algorithm=dapo_microbatch"]
    assert "complete -o nospace" in said("run", "-sc", "install=bash")


def test_one_run_and_many_end_in_the_same_store(tmp_path: Path) -> None:
    """`python -m harness.train` is `harness run`; a finished run is skipped by a multirun, and each has its `.hydra/`."""
    python(tmp_path, "-m", "harness.train", "algorithm=dapo", "seed=1", *TWO)
    callback = ["+hydra.callbacks.mine._target_=hydra.experimental.callback.Callback"]
    words = harness(tmp_path, "run", "-m", "algorithm=grpo,dapo", "seed=0,1", *TWO, "hydra.sweep.dir=there", *callback)
    assert "4 runs: 3 finished, 1 finished before" in words
    assert (tmp_path / "there" / "multirun.yaml").exists()
    store = ResultStore(tmp_path / "results")
    for name in store.run_ids():
        folder = store.run(name).path / ".hydra"
        assert "training.steps=1" in yaml.safe_load((folder / "overrides.yaml").read_text())
        composed = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"), resolve=True)
        assert isinstance(composed, dict)
        assert run_id(load(composed)) == name
        assert "hydra" in OmegaConf.load(folder / "hydra.yaml")
    assert len(store.run_ids()) == 4
    batches = harness(
        tmp_path, "run", "-m", "algorithm=grpo,dapo", "seed=0,0,2", *TWO, "hydra.sweeper.max_batch_size=2"
    )
    assert "4 runs: 2 finished, 2 finished before" in batches
    # What a sweeper gets of a finished run: the declared metrics, one or several; NaN of one that is not there.
    asked = ["algorithm=dapo", "seed=1", *SMALL, "training.steps=1", "training.evaluate_every=1"]
    one = make_plan([*asked, f"runtime.results={store.root}"])
    (name,) = (spec.run_id for spec in one.specs)
    accuracy = 100 * store.run(name).accuracies("arithmetic_heldout", 1)[12]
    assert run_value(store, one, name) == accuracy
    both = make_plan([*asked, f"runtime.results={store.root}", "experiment.metric=[avg,length]"])
    values = run_value(store, both, name)
    assert isinstance(values, list)
    assert values[0] == pytest.approx(accuracy)
    assert 0 < values[1] <= 12
    absent = make_plan(["algorithm=cispo", *SMALL, f"runtime.results={store.root}"])
    assert math.isnan(run_value(store, absent, absent.specs[0].run_id))  # type: ignore[arg-type]
