"""The methods paragraph says what plan, configurations and manifests say."""

from __future__ import annotations

import dataclasses
import re

import pytest
import yaml
from synthetic_store import SHORT, build_store, declared, loaded, replanned
from tables import table

from analysis.answer import warnings_of
from analysis.html.page import render_page
from analysis.methods import Methods
from analysis.report import write_tables
from harness.configuration.compose import compose_run
from harness.configuration.identity import flatten
from harness.configuration.schema import dump
from harness.experiment.plan import TUNE, Part
from harness.store import ResultStore, RunDir

CONFIGURATIONS = [
    {
        "algorithm.surrogate.kind": "ppo_clip",
        "algorithm.dead_groups.policy": policy,
        "optimizer.learning_rate": 2e-4,
    }
    for policy in ("keep", "refill")
]


@pytest.fixture
def methods(results, ladder_root):
    found = Methods(results, ResultStore(ladder_root))
    configure(found, CONFIGURATIONS)
    return found


def configure(methods, settings):
    """Give the first arms these settings: those of the synthetic store are stubs."""
    names = [arm.name for arm in methods.results.experiment.plan.arms]
    methods.__dict__["configurations"] = dict(zip(names, settings, strict=False))


def test_the_paragraph_counts_arms_seeds_and_runs(methods, results):
    text = " ".join(methods.sentences)
    plan, states = results.experiment.plan, results.experiment.runs["status"]
    assert f"We compare {len(plan.arms)} arms (design: {plan.design})" in text
    assert all(arm.label in text for arm in plan.arms)
    assert f"{(states == 'finished').sum()} of {len(states)} runs finished" in text
    assert all(note in text for note in results.experiment.notes)
    assert "overlong responses: left out of the loss instead of scored as they are" in text
    assert "on arithmetic held-out problems" in text


def test_a_run_that_two_arms_share_is_counted_once_and_an_unfinished_one_not_at_all(tmp_path):
    """Three runs of 20 steps of 0.16 s and about 3,100 tokens, in both arms; a fourth failed."""
    rungs = [("a", "A", 0.5, 1.0), ("b", "B", 0.5, 1.0)]
    missing = [((0, 3), "failed")]
    store = build_store(tmp_path, rungs=rungs, seeds=range(4), problems=6, missing=missing, design="arms")
    first, second = store.plan("ladder")["arms"]
    results = declared(tmp_path, arms=[first, second | {"runs": first["runs"]}])
    text = " ".join(Methods(results, store).sentences)
    assert " took " not in text  # seconds differ from run to run
    assert re.search(r"A run generates 62,000 tokens", text)
    assert re.search(r"all runs together 18\d,\d{3}\.", text)


@table(__file__, "lengths", "own, takes, ends")
def test_training_is_as_long_as_its_budget_lets_it(methods, own, takes, ends):
    configure(methods, [flatten(dump(compose_run(["training.steps=50", *overrides]))) for overrides in own])
    text = " ".join(methods.sentences)
    assert takes in text
    assert (ends in text) if ends else ("A run ends" not in text)


def test_a_model_has_the_size_that_its_run_counted(tmp_path):
    store = build_store(tmp_path, **SHORT)
    runs = [store.run(run_id) for arm in store.plan("ladder")["arms"] for run_id in arm["runs"].values()]
    for numerics, size in (({}, "parameters not counted"), ({"parameters": 7_615_616_512}, "7.62B parameters")):
        for run in runs:
            run.write_config(yaml.safe_dump(dump(compose_run([]))))
            run.write_manifest(run.manifest() | {"provenance": {"numerics": numerics}})
        assert f"3 layers of width 64 ({size}), warmed up" in Methods(loaded(tmp_path), store).sentences[0]


def test_numbers_of_seeds_are_those_of_the_arms(tmp_path):
    """Three arms close at the first look, of two seeds, and one goes on: paragraph, page and numbers say so."""
    store = build_store(tmp_path, seeds=(0, 1, 2, 3), looks=(2, 4), **SHORT)
    arms = store.plan("ladder")["arms"]
    for arm in arms[1:]:
        arm["runs"] = {seed: run for seed, run in arm["runs"].items() if int(seed) < 2}
    results = declared(tmp_path, arms=arms)
    assert "with 2 to 4 seeds (0 to 3); 10 of 10 runs" in " ".join(Methods(results, store).sentences)
    assert "<li>4 arms × 2 to 4 seeds</li>" in render_page(results, tmp_path)
    write_tables(results, tmp_path)
    assert "{\\LadderSeeds}{2 to 4}" in (tmp_path / "numbers.tex").read_text()


def test_settings_that_arms_differ_in_are_all_said_and_sources_are_those_of_settings(methods):
    assert methods.shared_value("algorithm.dead_groups.policy") == "keep or refill"
    assert methods.shared_value("optimizer.learning_rate") == "0.0002"
    assert set(methods.sources) == {"schulman2017proximal", "yu2025dapo"}
    assert all(entry.count("{") == entry.count("}") for entry in methods.sources.values())
    files = methods.files()
    cited = re.search(r"cite\{(.*?)\}", files["methods.tex"])
    assert cited is not None
    assert cited[1].split(",") == re.findall(r"@article\{(\w+)", files["sources.bib"])


def test_the_stopping_rule_and_the_margin_are_those_of_the_plan(methods, results):
    assert any("fixed number of seeds" in text for text in methods.sentences)
    other = dataclasses.replace(methods, results=replanned(results, looks=(2, 3), margins={"avg": 2.5}))
    text = " ".join(other.sentences)
    assert "looks at 2, 3 seeds" in text
    assert "2.5 points" in text


def test_steps_on_fewer_groups_than_asked_for_are_counted(tmp_path, monkeypatch):
    build_store(tmp_path, steps=2, evaluate=(0, 2), caps=(32,))
    results, store = loaded(tmp_path), ResultStore(tmp_path)
    assert not any("its bound" in line for line in warnings_of(results))
    arm = results.experiment.plan.arms[-1]
    for run_id in arm.runs.values():
        store.run(run_id).write_config("algorithm: {prompts_per_step: 25, dead_groups: {policy: refill}}")
    expected = f"{arm.plain_label}, 100 % of steps (80 % of the groups at least)."  # 20 groups a step are logged
    read: list[str] = []
    settings = RunDir.settings
    monkeypatch.setattr(RunDir, "settings", lambda run: read.append(run.run_id) or settings(run))
    assert any(line.endswith(expected) for line in warnings_of(loaded(tmp_path)))
    assert len(read) == len(results.experiment.plan.arms)  # reading 2,000 configurations takes minutes


def test_a_tuned_comparison_says_what_every_arm_tried_and_on_which_seeds(results, ladder_root):
    tried = {f"optimizer.learning_rate={rate}": score for rate, score in (("0.0001", 0.5), ("0.0002", 0.6))}
    part = Part(TUNE, "each arm's best of 2 values of learning_rate, chosen on 2 other seeds", "trials",
                {"ladder_0_naive_grpo": ["optimizer.learning_rate=0.0002"]}, [904, 905], {"ladder_0_naive_grpo": tried})  # fmt: skip
    text = " ".join(Methods(replanned(results, parts=(part,)), ResultStore(ladder_root)).sentences)
    assert "Every arm tried learning rate 0.0001, learning rate 0.0002, on seeds 904, 905" in text
