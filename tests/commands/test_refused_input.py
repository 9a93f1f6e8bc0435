"""What a command would ignore, or cannot do, it refuses in one line; what it shows is what the store holds."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
from commands_support import EXPERIMENT, finish, plan

from harness.cli import main
from harness.commands._answer import answer_key, answer_stands, report_of, sign_answer
from harness.experiment.power import Power, seed_spread
from harness.statistics.intervals import comparison_level, minimum_detectable_difference
from harness.store import atomic


def test_a_malformed_command_is_one_line_that_names_its_help(capsys):
    for command in ([], ["merge"], ["status", "--foo"]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"see `{' '.join(['harness', *command[:1]])} --help`" in said


def test_power_of_independent_seeds_is_welchs(store):
    planned = plan(store, "experiment.paired=false", "experiment.seeds=[0,1]")
    for arm, accuracies in zip(planned.arms, [(0.5, 0.52), (0.6, 0.64)], strict=False):
        for seed, accuracy in zip(arm.runs, accuracies, strict=True):
            finish(store, arm.spec(seed), accuracy)
    found, (spread, _) = Power(planned), seed_spread(planned, store)
    sd = math.sqrt((2 * 0.01**2 + 2 * 0.02**2) / 2)
    assert spread == pytest.approx(sd)
    alpha = 1 - comparison_level(found.comparisons)
    assert found.resolvable(spread) == pytest.approx(minimum_detectable_difference(sd, 2, paired=False, alpha=alpha))


def test_an_answer_stands_until_the_question_or_its_finished_runs_are_others(store):
    """Modification times tell nothing: a clock may be set back."""
    planned = plan(store, "experiment.seeds=[0]")
    name, folder = planned.name, store.root / "experiments" / planned.name
    store.write_plan(name, planned.record())
    finish(store, planned.specs[0])
    (folder / "tables").mkdir()
    (folder / "tables" / "a.csv").touch()
    assert not answer_stands(store, name)  # interrupted before the page
    (folder / "report.html").write_text("<html></html>\n")
    sign_answer(store, name, answer_key(store, name))
    for path in (folder / "report.html", folder / "tables" / "a.csv"):
        os.utime(path, (4e9, 4e9))  # drawn while a clock was ahead
    assert answer_stands(store, name)
    store.write_plan(name, {**planned.record(), "command": "the same question, asked another time"})
    assert answer_stands(store, name)
    finish(store, planned.specs[1])
    assert not answer_stands(store, name)
    sign_answer(store, name, answer_key(store, name))
    store.write_plan(name, plan(store, "experiment.seeds=[0,1]").record())
    assert not answer_stands(store, name)


def test_a_new_answer_takes_the_files_of_the_old_one_away_and_nothing_else(store):
    planned = plan(store, "experiment.seeds=[0]", 'experiment.grid=["optimizer.learning_rate=1e-4"]')
    name, folder = planned.name, store.root / "experiments" / planned.name
    store.write_plan(name, planned.record())
    for spec in planned.specs:
        finish(store, spec)
    report_of(store, name, formats="svg")
    old_files = [folder / "figures" / "training" / "reward.pdf", folder / "tables" / f"{name}-answers.tex"]
    own_file = folder / "tables" / f"{name}-mine.tex"
    for path in (*old_files, own_file):
        atomic.write_file(path, b"")
    report_of(store, name, formats="svg")  # of the same question and runs: what was asked for in another command stays
    assert all(path.exists() for path in old_files)
    store.write_plan(name, planned.record() | {"title": "Another question"})
    report_of(store, name, formats="svg")
    assert not any(path.exists() for path in old_files)
    assert own_file.exists()


@pytest.mark.parametrize(
    ("part", "option"),
    [("table", "columns=score"), ("table", "out=x"), ("tables", "style=screen"), ("page", "tables=all")],
)
def test_a_report_refuses_options_that_its_part_does_not_use(store, said, part, option):
    planned = plan(store)
    store.write_plan(planned.name, planned.record())
    told = said("report", EXPERIMENT, f"only={part}", option, f"runtime.results={store.root}", code=2)
    assert f"only={part} has no use for {option.partition('=')[0]}=" in told


def test_status_lists_finished_runs_on_demand(store, said):
    spec = plan(store).arms[0].spec(0)
    finish(store, spec)
    assert spec.run_id not in said("status", f"runtime.results={store.root}")
    assert spec.run_id in said("status", "--runs", f"runtime.results={store.root}")
    assert "there is no folder /no/such" in said("status", "runtime.results=/no/such")


def test_a_reader_that_stops_reading_ends_a_command_quietly(store):
    command = f"{sys.executable} -m harness plan {EXPERIMENT} | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_a_results_root_under_a_file_is_one_line(tmp_path, said):
    (tmp_path / "file").write_text("x")
    under = f"runtime.results={tmp_path / 'file' / 'results'}"
    assert "cannot write" in said("run", "training.steps=1", under, code=2)


def test_a_run_without_its_configuration_is_one_line(store, said):
    spec = plan(store).arms[0].spec(0)
    finish(store, spec)
    (store.run(spec.run_id).path / "config.yaml").unlink()
    assert "config.yaml is missing" in said("status", spec.run_id, f"runtime.results={store.root}", code=2)
