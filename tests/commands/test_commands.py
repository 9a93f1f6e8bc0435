"""The verbs over a store of finished, failed and running runs: what they show, change and keep, and how they refuse."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
from planned_runs import EXPERIMENT, GRID, finish, overrides, plan

from harness.cli import main
from harness.commands import doctor
from harness.commands._answer import answer_key, answer_stands, report_of, sign_answer
from harness.configuration.compose import compose_run
from harness.configuration.identity import arm_id
from harness.execution.supervisor import Summary
from harness.experiment.history import History
from harness.experiment.plan import Plan
from harness.experiment.planning import STEP_LIMIT_FACTOR
from harness.experiment.power import Power, power_line, seed_spread
from harness.statistics.intervals import comparison_level, minimum_detectable_difference
from harness.store import atomic

# ---- plan --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 60])
def test_plan_has_a_block_an_arm_by_labels_that_fits_a_terminal(width, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["plan", "experiment=dapo_ladder", f"runtime.results={tmp_path}"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    assert "\n+ clip-higher  8 new\n" in text
    assert "\n  algorithm.surrogate.clip_high: 0.2 → 0.28\n" in text


def test_plan_tells_status_cost_and_power_and_runs_nothing(store, said):
    specs = plan(store).arms[0].spec
    for seed, accuracy in ((0, 0.50), (1, 0.54)):
        finish(store, specs(seed), accuracy)
    before = sorted(store.root.rglob("*"))
    text = " ".join(said("plan", *overrides(store)).split())
    assert "36 runs, 2 finished, 34 to run" in text
    assert "2 finished, 1 new" in text
    assert "expected for 34 of them" in text
    assert "2 runs of similar arms; 2 runs of the same arm" in text
    assert "34.0k generated tokens" in text
    assert "3 seeds resolve a difference of" in text
    assert "taken as unpaired" in text
    assert sorted(store.root.rglob("*")) == before


def test_planning_looks_at_no_file_of_finished_runs(store, said, monkeypatch):
    for seed in (0, 1):
        finish(store, plan(store).arms[0].spec(seed))

    def look(run):
        raise AssertionError("each sample part would be looked at")

    monkeypatch.setattr("harness.store.layout.report_files", look)
    assert "2 finished" in said("plan", *overrides(store))


def test_cost_of_other_arms_comes_from_runs_of_the_same_class(store):
    planned = plan(store).arms
    finish(store, planned[0].spec(0))
    history = History(store)
    cost = history.expect(planned[5].config, arm_id(planned[5].config))
    assert (cost.seconds, cost.generated_tokens, cost.gpu_hours) == (100.0, 1000.0, 0.0)
    twice = compose_run(["training.steps=200"])
    assert history.expect(twice, "other").seconds == 200.0
    budget = compose_run(["training.generated_tokens=500"])
    assert history.expect(budget, "other").generated_tokens == 500.0
    assert history.expect(compose_run(["algorithm.responses_per_prompt=4"]), "other") is None


def finish_two_arms(store, scores, *more):
    """The base and the wider clip, finished with these two scores a seed."""
    planned = {one.name: one for one in plan(store, *more).arms}
    for seed, pair in enumerate(scores):
        for clip, score in zip((0.2, 0.28), pair, strict=True):
            finish(store, planned[f"clip_high={clip}_learning_rate=0.0002"].spec(seed), score)


def test_power_prefers_paired_differences_and_says_so(store):
    finish_two_arms(store, ((0.50, 0.55), (0.40, 0.46), (0.60, 0.67)))
    text = power_line(plan(store), store)
    assert "seeds differ by 1.0 points (standard deviation, paired differences of 1 comparison)" in text
    alpha = 1 - 0.95 ** (1 / (GRID - 1))
    needed = minimum_detectable_difference(0.01, 3, paired=True, alpha=alpha)
    assert f"3 seeds resolve a difference of {100 * needed:.1f} points or more" in text
    assert f"5 % level, together over {GRID - 1} comparisons" in text


def test_seeds_of_one_base_policy_are_one_replicate_in_spread_and_power(store):
    """Seeds 0 and 2 start from one policy, 1 and 3 from the other: differences of 5, 7 and of 6, 10 points have means 6 and 8."""
    shared = ("experiment.seeds=[0,1,2,3]", "model.bases.count=2")
    assert "unknown" in power_line(plan(store, *shared), store)
    finish_two_arms(store, ((0.50, 0.55), (0.40, 0.46), (0.60, 0.67), (0.30, 0.40)), *shared)
    told = power_line(plan(store, *shared), store)
    assert "base policies differ by 1.4 points (standard deviation of the means of" in told
    found, (sd, _) = Power(plan(store, *shared)), seed_spread(plan(store, *shared), store)
    assert sd == pytest.approx(0.02 / math.sqrt(2))  # of 6 and 8 points
    assert (len(found.seeds), found.replicates, found.bases) == (4, 2, 2)
    alpha = 1 - 0.95 ** (1 / (GRID - 1))
    needed = minimum_detectable_difference(0.02 / math.sqrt(2), 2, paired=True, alpha=alpha)
    assert found.resolvable(sd) == pytest.approx(needed)
    assert needed > 1  # more than all points
    assert "4 seeds from 2 base policies resolve nothing" in told
    two = plan(store, "experiment.seeds=[0,1]", "model.bases.count=2")
    alone, (sd, _) = Power(two), seed_spread(two, store)
    assert sd == pytest.approx(0.01 / math.sqrt(2))  # of 5 and 6 points: each seed has its own
    assert (alone.replicates, alone.shares_bases) == (2, False)


def test_matched_tokens_wait_for_the_reference_and_then_share_its_budget(store, said):
    waiting = plan(store, "match=tokens")
    assert waiting.first is not None
    assert [arm.name for arm in waiting.first.plan.arms] == [waiting.arms[0].name]
    assert waiting.first.settle(store) is None
    (part,) = Plan.read(waiting.record()).parts
    assert (part.name, part.experiment, part.settings) == ("match=tokens", waiting.name, None)
    assert [spec.run_id for spec in waiting.specs] == list(plan(store).arms[0].runs.values())
    for seed, tokens in ((0, 900), (1, 1000), (2, 1100)):
        finish(store, waiting.arms[0].spec(seed), tokens=tokens)
    matched = plan(store, "match=tokens")
    assert matched.first is None
    (part,) = Plan.read(matched.record()).parts
    budget = ["++training.generated_tokens=1000", f"++training.steps={100 * STEP_LIMIT_FACTOR}"]
    assert part.settings == {arm.name: budget for arm in matched.arms[1:]}
    assert matched == waiting.first.then(waiting.first.settle(store))
    for one, word in ((waiting, "sets"), (matched, "has set")):
        store.write_plan(one.name, one.record())
        told = " ".join(said("status", f"experiment={one.name}", f"runtime.results={store.root}").split())
        assert f"{one.name}: match=tokens {word} the budget of the other arms, which is what" in told
    told = " ".join(said("plan", *overrides(store, "match=tokens")).split())
    assert f"match=tokens has set {matched.arms[1].name}: training.generated_tokens=1000 training.steps=2000" in told
    training = matched.arms[1].config.training
    assert (training.generated_tokens, training.steps) == (1000, 100 * STEP_LIMIT_FACTOR)
    assert matched.arms[0].config.training.generated_tokens is None  # the reference keeps its steps and runs
    assert len(matched.specs) == 3 * GRID


def test_an_explicit_budget_holds_for_every_arm(store):
    matched = plan(store, "match=tokens", "experiment.match_budget=5000")
    assert {planned.config.training.generated_tokens for planned in matched.arms} == {5000}


def test_a_run_is_shown_and_what_differs_is_named(store, said):
    first, second = plan(store).arms[0].spec(0), plan(store).arms[4].spec(0)
    finish(store, first, 0.5)
    finish(store, second, 0.6)
    text = said("status", first.run_id[:8], f"runtime.results={store.root}")
    assert "optimizer.learning_rate" in text
    assert "packages.torch" in text
    assert "avg on arithmetic_heldout, cap 32, step 100" in text
    text = said("status", first.run_id, second.run_id[:6], f"runtime.results={store.root}", code=1)
    assert "provenance: the same" in text
    assert "algorithm.surrogate.clip_high" in text
    said("status", first.run_id, first.run_id, f"runtime.results={store.root}")


@pytest.mark.parametrize("outcome", ["finished", "failed"])
def test_a_stop_while_the_last_runs_end_begins_no_others_and_asks_for_the_command_again(
    store, launched, said, monkeypatch, outcome
):
    monkeypatch.setattr("harness.commands._experiment_run.ExperimentRun.answer", lambda _: None)
    batches = []

    def launch(work):
        batches.append([spec.run_id for spec in work.specs])
        for spec in work.specs:
            finish(store, spec, status=outcome)
        return Summary(**{outcome: batches[-1]}, stopped_by=15)

    launched(launch)
    told = said("run", *overrides(store, "match=tokens"), code=75)
    assert len(batches) == 1, "the other arms wait for the budget"
    assert "run the same command again to finish the rest" in told


def test_doctor_finds_a_usable_store_and_an_absent_package(store, said, monkeypatch):
    monkeypatch.setitem(doctor._PACKAGES, "no-such-package", "no_such_extra")
    text = said("doctor", f"runtime.results={store.root}")
    assert "writable, has file locks" in text
    assert "absent: pip install -e '.[no_such_extra]'" in text


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
