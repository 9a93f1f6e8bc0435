"""A sequential experiment look by look, with workers that only write scores: the decisions are those of the real analysis."""

from __future__ import annotations

import json

import numpy as np
import pytest
from stored_runs import about, created, graded

from harness.commands._arguments import select
from harness.commands._experiment_run import ExperimentRun
from harness.commands.status import decisions_of
from harness.execution.supervisor import Summary
from harness.experiment.planning import plan_experiment
from harness.store import ResultStore

NAME = "dapo_equal_tokens"
# The second arm is far above the base, the third is not; their seeds differ by a few points.
LEVELS = {"naive_grpo": 0.30, "dynamic_sampling_alone": 0.70, "dapo": 0.31}


def make_plan(root):
    looks = "experiment.seeds={start: 3, step: 2, most: 7}"
    return plan_experiment([f"experiment={NAME}", "match=steps", looks, f"runtime.results={root}"])


def finish(store, spec):
    """A finished run whose score depends on its arm and seed alone."""
    noise = 0.04 * np.random.default_rng([spec.seed, len(spec.labels["arm"])]).normal()
    right = np.arange(200) < round(200 * (LEVELS[spec.labels["arm"]] + noise))
    run = store.run(spec.run_id)
    created(run, spec.config_yaml, about(spec, provenance={"git_commit": "abc"}, error=None))
    run.append_step({"step": 1, "generated_tokens_total": 10})
    run.write_samples("arithmetic_heldout", 1, 1, graded(right))


class Invocation(ExperimentRun):
    """One `harness run`: it is interrupted after `patience` runs; `stop`: a signal that comes while the last ones end."""

    def __init__(self, root, patience=1000, stop=None):
        self.store, self.left, self.swept, self.shown, self.stop = ResultStore(root), patience, [], [], stop
        self.plan, self.checks = make_plan(root), []
        self.decisions = self.bring_looks()

    def _show(self, decisions):
        self.shown.append(decisions)

    def bring(self, part):
        summary = Summary(stopped_by=self.stop)
        for spec in part.specs:
            if self.store.run(spec.run_id).status == "finished":
                summary.skipped.append(spec.run_id)
            elif self.left:
                self.left -= 1
                finish(self.store, spec)
                summary.finished.append(spec.run_id)
            else:
                summary.interrupted.append(spec.run_id)
        self.swept.append(len(part.specs))
        return summary


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    root = tmp_path_factory.mktemp("undisturbed")
    return root, Invocation(root)


def plan_text(root):
    return (root / "experiments" / NAME / "plan.json").read_text().replace(str(root), "")


def test_only_arms_of_open_comparisons_get_more_seeds(undisturbed):
    root, whole = undisturbed
    assert whole.swept == [9, 13, 17]  # two arms go on at the second and third look
    assert (len(whole.summary.finished), whole.summary.skipped, whole.summary.complete) == (17, [], True)
    runs = {arm["name"]: len(arm["runs"]) for arm in json.loads(plan_text(root))["arms"]}
    assert runs == {"naive_grpo": 7, "dynamic_sampling_alone": 3, "dapo": 7}
    assert whole.decisions.open == 0
    assert [decisions.headline() for decisions in whole.shown] == ["1 of 2 comparisons are closed"] * 2


def test_interrupted_at_any_run_and_repeated_it_ends_with_the_same_bytes(undisturbed, tmp_path):
    root, whole = undisturbed
    for patience in (2, 9, 3):  # within the first look, one run into the second, within the third
        stopped = Invocation(tmp_path, patience)
        assert not stopped.summary.complete
    resumed = Invocation(tmp_path)
    assert resumed.summary.complete
    assert plan_text(tmp_path) == plan_text(root)
    assert resumed.store.run_ids() == whole.store.run_ids()
    again = Invocation(tmp_path)
    assert (again.summary.finished, len(again.summary.skipped), again.shown) == ([], 17, [])


def test_a_stop_while_the_last_runs_of_a_look_end_begins_no_other_look(tmp_path):
    stopped = Invocation(tmp_path, stop=15)
    assert (stopped.swept, stopped.summary.complete, stopped.shown) == ([9], True, [])


def status_lines(root):
    line = "{arm} against {reference}: {state}; {text}".format
    return [line(**one) for one in decisions_of(select([f"experiment={NAME}", f"runtime.results={root}"]))]


def test_status_tells_what_is_decided_and_what_is_open(undisturbed):
    root, _ = undisturbed
    decided, open_ = status_lines(root)
    assert decided.startswith("dynamic_sampling_alone against naive_grpo: decided; +")
    assert decided.endswith("3 seeds), higher")
    assert open_.startswith("dapo against naive_grpo: open at the budget; ")
    assert open_.endswith("7 seeds), not resolved")


def test_status_looks_at_runs_that_have_finished_since_the_command(tmp_path):
    for spec in Invocation(tmp_path, patience=0).part.specs:  # jobs that end after the command has returned
        finish(ResultStore(tmp_path), spec)
    decided, open_ = status_lines(tmp_path)
    assert decided.endswith("3 seeds), higher")
    assert open_.endswith("3 seeds), not resolved; next look at 5 seeds")
