"""Searches: the space in Hydra's grammar, trials as ordinary runs, resuming, several objectives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import optuna
import pytest
import stub_trial
from tables import table

from harness.configuration.error import ConfigError
from harness.configuration.sections import RuntimeConfig
from harness.execution.progress import Progress
from harness.execution.supervisor import RunBatch, Summary, supervise
from harness.experiment.declaration import Experiment
from harness.experiment.planning import plan_multirun
from harness.search.ask_and_tell import Search, best_lines
from harness.search.study import parse_space
from harness.store import ResultStore, RunClaimed

RATE = "optimizer.learning_rate=tag(log,interval(1e-5,1e-2))"
CLIP = "algorithm.surrogate.clip_high=interval(0.2,0.5)"
STEPS = "training.steps=4"


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, Path(__file__).parents[:2])))
    return ResultStore(tmp_path / "results")


def sweep(
    store: ResultStore, seeds: tuple[int, ...] = (0,), fixed: Sequence[str] = (STEPS,), **search: object
) -> Search:
    """A search; `match` and `benchmark` are the experiment's."""
    declared = {key: search.pop(key) for key in ("match", "benchmark") if key in search}
    values = {"space": [RATE, CLIP], "trials": 6, **search}
    experiment = Experiment(name="s", seeds=list(seeds), search=values, **declared)
    return Search(experiment, [*fixed, f"runtime.results={store.root}"], store, "harness run")


def dispatch(store: ResultStore, specs, workers: int) -> Summary:
    runtime = RuntimeConfig(device="cpu", workers=workers)
    batch = RunBatch(store.root.resolve(), specs, runtime, {}, "stub_trial:run")
    return supervise(batch, Progress(), poll_seconds=0.02)


def go(search: Search, workers: int = 2) -> Summary:
    return search.run(lambda specs: dispatch(search.store, specs, workers), workers)


def values(study: optuna.Study) -> list[tuple[int, list[float]]]:
    return [(trial.number, trial.values) for trial in study.trials]


def test_trials_are_runs_in_the_store_with_the_value_of_their_samples(store):
    feed = sweep(store, seeds=(0, 1), trials=3, sampler="random")
    summary = go(feed)
    assert len(summary.finished) == 6
    assert len(store.run_ids()) == 6
    for trial in feed.study.trials:
        rate, clip = trial.params["optimizer.learning_rate"], trial.params["algorithm.surrogate.clip_high"]
        expected = round(stub_trial.PROBLEMS * stub_trial.accuracy(rate, clip)) / stub_trial.PROBLEMS
        assert trial.value == pytest.approx(expected)
        point = [f"optimizer.learning_rate={rate!r}", f"algorithm.surrogate.clip_high={clip!r}"]
        (spec,) = plan_multirun([STEPS, *point, "seed=1"]).specs
        # the same content by another route is the same run
        assert store.run(spec.run_id).status == "finished"
    assert feed.plan.record()["arms"][2]["name"] == "trial_0002"
    assert "3 trials of a search (random) over optimizer.learning_rate=" in feed.plan.notes[-1]
    assert f"trial {feed.study.best_trial.number}: avg {100 * feed.study.best_value:.1f} %:" in "\n".join(
        best_lines(feed)
    )


def test_a_search_goes_on_to_a_total_and_never_proposes_the_same_points_again(store):
    go(sweep(store, trials=3))
    first = values(sweep(store, trials=3).study)
    again = sweep(store, trials=3)
    assert go(again).finished == []
    assert values(again.study) == first
    more = sweep(store, trials=6)
    assert len(go(more).finished) == 3
    assert values(more.study)[:3] == first
    points = [tuple(trial.params.values()) for trial in more.study.trials]
    assert len(set(points)) == 6


def test_a_stopped_search_asks_for_no_more_and_goes_on_later(store):
    stopped = sweep(store, trials=4, sampler="random")
    ids = []

    def stop(specs):
        ids.extend(spec.run_id for spec in specs)
        return Summary(interrupted=ids, stopped_by=15)

    assert stopped.run(stop, 2).stopped_by == 15
    assert (len(ids), stopped.trial_count, stopped.is_complete) == (2, 2, False)
    again = sweep(store, trials=4, sampler="random")
    assert set(ids) <= set(go(again).finished)
    assert again.is_complete


def test_a_search_waits_for_no_run_of_another_process(store):
    searching = sweep(store, trials=2)
    assert len(searching.run(lambda specs: Summary(elsewhere=[spec.run_id for spec in specs]), 2).elsewhere) == 2


def test_a_search_that_was_opened_before_another_ended_keeps_its_trials(store):
    late = sweep(store, trials=2)
    go(sweep(store, trials=4))
    assert go(late).finished == []
    assert [arm["name"] for arm in store.plan("s")["arms"]] == [f"trial_{number:04d}" for number in range(4)]


def test_several_objectives_give_a_pareto_front(store):
    feed = sweep(store, trials=6, objectives=["avg", "-generated_tokens_total"])
    go(feed)
    front = feed.study.best_trials
    assert front
    for trial in feed.study.trials:
        assert trial.values[1] == int(4 * 1000 * trial.params["algorithm.surrogate.clip_high"])
        assert not all(trial.values[0] > one.values[0] and trial.values[1] < one.values[1] for one in front)


def test_the_name_of_an_experiment_is_refused(store):
    store.write_plan("s", {"arms": [{"name": "grpo", "runs": {}}]})
    with pytest.raises(ConfigError, match=r"experiment\.name=s is another experiment"):
        sweep(store)


def test_the_space_is_hydras_grammar():
    rate, clip, size, system, whole = parse_space(
        [
            RATE,
            "algorithm.surrogate.clip_high=0.2,0.28",
            "algorithm.responses_per_prompt=range(4,17,4)",
            "algorithm=choice(grpo,dapo)",
            "sampling.top_k=int(interval(1,50))",
        ]
    )
    (decimals,) = parse_space(["sampling.temperature=range(0.8,1.1,0.1)"])
    assert decimals.edge_overrides == ["sampling.temperature=0.8", "sampling.temperature=1.0"]
    assert rate.edge_overrides == ["optimizer.learning_rate=1e-05", "optimizer.learning_rate=0.01"]
    assert clip.edge_overrides == ["algorithm.surrogate.clip_high=0.2", "algorithm.surrogate.clip_high=0.28"]
    assert (size.distribution.low, size.distribution.high, size.distribution.step) == (4, 16, 4)
    assert system.edge_overrides == ["algorithm=grpo", "algorithm=dapo"]
    assert whole.override(7) == "sampling.top_k=7"
    assert rate.override(0.0001) == "optimizer.learning_rate=0.0001"
    for parameter, value in ((rate, 0.00012345678901234567), (decimals, 0.9), (whole, 7), (system, "dapo")):
        assert parameter.value(parameter.override(value).partition("=")[2]) == value


@table(__file__, "refused", "search, says")
def test_a_search_that_makes_no_sense_is_refused_before_any_trial(store, search, says):
    with pytest.raises(ConfigError, match=says):
        sweep(store, **search)
    assert not store.plans()


@table(__file__, "changed", "changed")
def test_trials_of_another_declaration_are_refused(store, changed):
    begun = sweep(store, trials=2)
    begun.ask(2)
    begun.record()
    with pytest.raises(
        ConfigError, match=r"the search s was begun with another declaration: trial_0000 is no trial of it"
    ):
        sweep(store, **changed)


def test_another_total_objective_or_seed_keeps_the_trials(store):
    go(sweep(store, trials=2))
    again = sweep(store, trials=3, seeds=(0, 1), objectives=["-generated_tokens_total"], sampler="random")
    assert len(go(again).finished) == 4
    assert [trial.value for trial in again.study.trials] == [
        int(4 * 1000 * trial.params["algorithm.surrogate.clip_high"]) for trial in again.study.trials
    ]


def test_the_same_command_again_repeats_the_trials_whose_runs_failed(store):
    begun = sweep(store, trials=2, sampler="random")
    specs = begun.ask(2)
    begun.record()
    begun.tell(Summary(failed=[spec.run_id for spec in specs]))
    assert [trial.state.name for trial in begun.study.trials] == ["FAIL", "FAIL"]
    again = sweep(store, trials=2, sampler="random")
    assert {spec.run_id for spec in specs} == set(go(again).finished)
    assert (again.is_complete, again.has_failed) == (True, False)
    assert "2 complete" in best_lines(again)[0]
    assert "fail" not in best_lines(again)[0]


def test_a_run_that_cannot_be_read_fails_its_trial_and_not_the_search(store):
    (torn,) = sweep(store, trials=2, sampler="random").ask(1)
    store.run(torn.run_id).path.mkdir(parents=True)
    (store.run(torn.run_id).path / "manifest.json").write_text('{"schema_version": 1, "run_')
    search = sweep(store, trials=2, sampler="random")
    assert go(search, workers=1).failed == [torn.run_id]
    assert search.has_failed
    assert [trial.state.name for trial in search.study.trials] == ["FAIL", "COMPLETE"]


def test_a_combination_that_cannot_run_is_a_failed_trial_once_and_for_all(store):
    space = ["algorithm.prompts_per_step=choice(32)", "algorithm.updates_per_step=choice(15,16)"]
    fixed = [STEPS, "evaluation.caps=[32]"]
    search = sweep(store, space=space, fixed=fixed, trials=4, sampler="random")
    go(search)
    states = [trial.state.name for trial in search.study.trials]
    assert {*states} == {"FAIL", "COMPLETE"}
    again = sweep(store, space=space, fixed=fixed, trials=4, sampler="random")
    assert go(again).finished == []
    assert [trial.state.name for trial in again.study.trials] == states


def test_two_processes_are_not_at_one_search(store):
    search = sweep(store, trials=1)

    def dispatch_beside_another(specs):
        with pytest.raises(RunClaimed):
            go(sweep(store, trials=1))
        return Summary(interrupted=[spec.run_id for spec in specs], stopped_by=15)

    search.run(dispatch_beside_another, 1)
