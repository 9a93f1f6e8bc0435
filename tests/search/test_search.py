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
from harness.search.ask_and_tell import Search, best_lines, open_search
from harness.search.study import parse_space
from harness.store import ResultStore, TornFile

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
    assert decimals.values == [0.8, 0.9, 1.0]
    assert rate.edge_overrides == ["optimizer.learning_rate=1e-05", "optimizer.learning_rate=0.01"]
    assert (rate.values, clip.values, size.values) == (None, ["0.2", "0.28"], [4, 8, 12, 16])
    assert system.edge_overrides == ["algorithm=grpo", "algorithm=dapo"]
    assert whole.values == list(range(1, 51))
    assert whole.override(7) == "sampling.top_k=7"
    assert rate.override(0.0001) == "optimizer.learning_rate=0.0001"


@table(__file__, "refused", "search, says")
def test_a_search_that_makes_no_sense_is_refused_before_any_trial(store, search, says):
    with pytest.raises(ConfigError, match=says):
        sweep(store, **search)
    assert "sampler" in search or not list(store.root.rglob("*.journal"))


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
    assert (len(ids), stopped.trial_count, stopped.running_count) == (2, 2, 2)
    again = sweep(store, trials=4, sampler="random")
    assert set(ids) <= set(go(again).finished)
    assert again.running_count == 0


def test_a_grid_visits_every_point_once(store):
    grid = ["optimizer.learning_rate=1e-4,3e-4", "algorithm.surrogate.clip_high=choice(0.2,0.3)"]
    feed = sweep(store, sampler="grid", trials=100, space=grid)
    assert len(go(feed).finished) == 4
    assert len({tuple(trial.params.values()) for trial in feed.study.trials}) == 4
    assert [*feed.study.best_params.values()] == ["0.0003", "0.3"]


def test_several_objectives_give_a_pareto_front(store):
    feed = sweep(store, trials=6, objectives=["avg", "-generated_tokens_total"])
    go(feed)
    front = feed.study.best_trials
    assert front
    for trial in feed.study.trials:
        assert trial.values[1] == int(4 * 1000 * trial.params["algorithm.surrogate.clip_high"])
        assert not all(trial.values[0] > one.values[0] and trial.values[1] < one.values[1] for one in front)


def test_the_same_command_again_repeats_the_trials_whose_runs_failed(store):
    begun = sweep(store, trials=2, sampler="random")
    first, _ = specs = begun.ask(2)
    begun.tell(Summary(failed=[spec.run_id for spec in specs]))
    assert begun.has_failed
    again = sweep(store, trials=2, sampler="random")
    assert (again.has_failed, again.trial_count) == (False, 0)
    assert len(go(again).finished) == 2
    assert (again.trial_count, again.is_complete, again.has_failed) == (2, True, False)
    assert first.run_id in store.run_ids()
    assert "2 complete" in best_lines(again)[0]
    assert "fail" not in best_lines(again)[0]


def test_the_name_of_an_experiment_is_refused(store):
    store.write_plan("s", {"arms": [{"name": "grpo", "runs": {}}]})
    with pytest.raises(ConfigError, match=r"experiment\.name=s is another experiment of the store"):
        sweep(store)


def test_ranges_on_the_command_line_take_a_name_and_refuse_what_they_do_not_mean(store):
    options = {"sampler": "random", "trials": 1, "objectives": ["avg"], "seeds": [0], "seed": 0}
    arguments = [RATE, STEPS, f"runtime.results={store.root}"]
    named, _ = open_search([*arguments, "++experiment.name=mine"], options, "harness run")
    assert (named.experiment.name, named.experiment.seeds) == ("mine", [0])
    for typo in ("++experiment.nam=mine", "++experiment.metric=entropy"):
        with pytest.raises(ConfigError, match=r"is not for a search of ranges"):
            open_search([*arguments, typo], options, "harness run")


@table(__file__, "changed", "changed, says")
def test_a_study_keeps_the_declaration_it_was_begun_with(store, changed, says):
    sweep(store)
    with pytest.raises(ConfigError, match=says):
        sweep(store, **changed)
    sweep(store, trials=9, sampler="random")  # what does not change a trial's meaning may change


def test_checks_speak_of_what_every_trial_has_before_the_study_is_opened(store):
    refused = [STEPS, "runtime.checks=refuse"]
    with pytest.raises(ConfigError, match=r"1 check.* first: \[inert clip\] every trial: with one update per rollout"):
        sweep(store, fixed=[*refused, "algorithm.updates_per_step=1"])
    assert not list(store.root.rglob("*.journal"))
    caps = "sampling.max_response_tokens=choice(32,64)"  # the default is not evaluated, and a trial may take the other
    sweep(store, space=[RATE, caps], fixed=[*refused, "evaluation.caps=[64]"])


def test_a_trial_whose_process_died_between_asking_and_trying_does_not_block_the_study(store, monkeypatch):
    feed = sweep(store, trials=3)
    feed.study.ask()
    monkeypatch.setattr("harness.search.ask_and_tell._ASKING_SECONDS", 0.0)
    again = sweep(store, trials=3)
    go(again)
    assert again.running_count == 0
    assert [trial.state.name for trial in again.study.trials] == ["FAIL", "COMPLETE", "COMPLETE"]


def test_a_process_that_joins_a_search_finds_work_of_its_own(store):
    alive = sweep(store, trials=3, sampler="random")
    (claimed,) = alive.ask(1)
    with store.run(claimed.run_id).lock():  # the other process works on it
        summary = go(sweep(store, trials=3, sampler="random"), workers=1)
    assert summary.elsewhere == [claimed.run_id]
    assert len(summary.finished) == 2


def test_a_run_that_cannot_be_read_fails_its_trial_and_not_the_search(store):
    again = sweep(store, trials=2, sampler="random")
    (torn,) = again.ask(1)
    store.run(torn.run_id).path.mkdir(parents=True)
    (store.run(torn.run_id).path / "manifest.json").write_text('{"schema_version": 1, "run_')
    summary = go(sweep(store, trials=2, sampler="random"), workers=1)
    assert summary.failed == [torn.run_id]
    assert [trial.state.name for trial in again.study.trials] == ["FAIL", "COMPLETE"]


def test_a_torn_journal_names_the_fix(store):
    sweep(store)
    (journal,) = store.root.rglob("*.journal")
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text(lines[0][:20] + "\n" + "".join(lines[1:]))
    with pytest.raises(TornFile, match=r"study\.journal is no journal of a study .* its runs stay"):
        sweep(store)


def test_what_a_killed_process_was_writing_to_a_journal_is_left_out(store):
    begun = sweep(store, trials=2, sampler="random")
    begun.ask(1)
    (journal,) = store.root.rglob("*.journal")
    journal.write_bytes(journal.read_bytes()[:-5])
    again = sweep(store, trials=2, sampler="random")
    again.ask(1)  # what is appended stands on a line of its own
    assert len(sweep(store, trials=2, sampler="random").study.trials) == len(again.study.trials)
