"""What a Hydra user types: it does what Hydra does, or is refused by name."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from small_runs import FEW
from verbs import Said, harness_here, python

from harness.commands._experiment_run import run_value
from harness.configuration.identity import run_id
from harness.configuration.schema import dump, load
from harness.experiment.declaration import as_file
from harness.experiment.planning import make_plan
from harness.store import ResultStore

SMALL = [*FEW, "sampling.max_response_tokens=12", "runtime.linear_kernel=torch"]
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


def test_cfg_hydra_names_sweeper_and_launcher(said: Said) -> None:
    for given in ([], ["claim=cispo"]):
        shown = yaml.safe_load(said("run", "--cfg", "hydra", *given))["hydra"]
        assert "DesignSweeper" in shown["sweeper"]["_target_"]
        assert "ProcessLauncher" in shown["launcher"]["_target_"]
        assert shown["mode"] == "MULTIRUN"
        assert "%S-%f" in shown["sweep"]["dir"], "sweeps that start in the same second have a folder each"
    assert said("run", "-c", "job", "--package", "optimizer.learning_rate", "--resolve").strip() == "0.0002"


def test_the_shell_completes_overrides(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", "harness run algorithm=dapo_mi")
    assert said("-sc", "query=bash").split() == ["algorithm=dapo_microbatch"]
    assert "complete -o nospace" in said("run", "-sc", "install=bash")


def test_one_run_and_many_end_in_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m harness.train` is `harness run`; a finished run is skipped by a multirun; callbacks of others hear of each job."""
    assert "harness run" in python(tmp_path, "-m", "harness.train", "--help")
    harness_here(tmp_path, "run", "algorithm=dapo", "seed=1", *TWO)
    (tmp_path / "heard.py").write_text(HEARD)
    callback = ["+hydra.callbacks.mine._target_=heard.Heard"]
    given = ["run", "-m", "algorithm=grpo,dapo", "seed=0,1", *TWO, "hydra.sweep.dir=there", *callback]
    monkeypatch.syspath_prepend(tmp_path)
    words = harness_here(tmp_path, *given)
    assert "4 runs: 3 finished, 1 finished before" in words
    assert (tmp_path / "there" / "multirun.yaml").exists()
    store = ResultStore(tmp_path / "results")
    assert len(store.run_ids()) == 4
    heard = [line.split() for line in (tmp_path / "heard.txt").read_text().splitlines()]
    assert heard[0] == ["multirun_start"]
    assert heard[-1] == ["multirun_end"]
    begun, ended = ([line[1:] for line in heard if line[0] == name] for name in ("job_start", "job_end"))
    assert sorted(line[0] for line in begun) == ["0", "1", "2"]
    assert {line[1] for line in begun} < set(store.run_ids())
    assert sorted(line[:2] for line in ended) == sorted(begun)
    assert all(float(line[2]) >= 0 for line in ended)
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


HEARD = """
from pathlib import Path
from hydra.experimental.callback import Callback

def say(*words):
    with open("heard.txt", "a") as file:
        print(*words, file=file)

class Heard(Callback):
    def on_multirun_start(self, config, **_):
        say("multirun_start")
    def on_multirun_end(self, config, **_):
        say("multirun_end")
    def on_job_start(self, config, **_):
        say("job_start", config.hydra.job.num, Path(config.hydra.runtime.output_dir).name)
    def on_job_end(self, config, job_return, **_):
        say("job_end", config.hydra.job.num, Path(config.hydra.runtime.output_dir).name, job_return.return_value)
"""


def test_a_sweep_in_batches_is_one_experiment(tmp_path: Path) -> None:
    given = ["-m", "algorithm=grpo,dapo", "seed=0,0,2", *TWO]
    words = harness_here(tmp_path, "run", "hydra/sweeper=basic", "hydra.sweeper.max_batch_size=2", *given)
    assert "4 runs: 4 finished" in words
    assert words.count("check [unequal cost] dapo") == 1
    store = ResultStore(tmp_path / "results")
    (name,) = store.plans()
    assert {label["experiment"] for label in labels(store)} == {name}
    assert "all 4 runs were finished already" in harness_here(tmp_path, "run", *given)


def labels(store: ResultStore) -> list[dict[str, str]]:
    return [(store.run(run_id).manifest() or {})["labels"] for run_id in store.run_ids()]


def test_a_range_downwards_is_taken() -> None:
    assert list(make_plan(["seed=range(4,-1,-2)"], multirun=True).arms[0].runs) == [4, 2, 0]


def test_a_launcher_that_an_experiments_file_chooses_is_honoured(said: Said, tmp_path: Path) -> None:
    text = as_file("name: mine\narms: [{name: a, overrides: [algorithm=grpo]}]\n")
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        text.replace("_self_]", "{override /hydra/launcher: joblib}, _self_]")
    )
    for more, launcher in (([], "JoblibLauncher"), (["hydra/launcher=basic"], "BasicLauncher")):
        shown = said(
            "run", "--config-dir", str(tmp_path), "experiment=mine", *more, "--cfg", "hydra", "-p", "hydra.launcher"
        )
        assert launcher in shown
    mine = tmp_path / "experiment" / "mine.yaml"
    mine.write_text(mine.read_text().replace("joblib", "typo"))
    assert "hydra/launcher/typo" in said("plan", "--config-dir", str(tmp_path), "experiment=mine", code=2)
