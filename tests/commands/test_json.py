"""`--json`: every answer says what the terminal says; exit codes and docs/commands.md agree."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from planned_runs import EXPERIMENT, GRID, finish, overrides, plan

from harness.cli import main
from harness.commands._answer import answer_key, sign_answer
from harness.commands._arguments import FAMILY, Exit
from harness.configuration.registry import kinds, member
from harness.experiment.planning import make_plan
from harness.store.atomic import write_file
from harness.store.layout import experiment_dir
from harness.store.reader import run_state

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
VERBS = {name: verb for name in kinds(FAMILY) if hasattr(verb := member(FAMILY, name), "Answer")}


@pytest.fixture
def asked(capsys):
    """Runs a verb with --json and returns its answer; with code 2 the refusal."""

    def asked(verb: str, *arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([verb, *arguments, "--json"]) == code
        said = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        if code != Exit.REFUSED:
            assert list(said) == [field.name for field in dataclasses.fields(VERBS[verb].Answer)]
        return said

    return asked


@pytest.fixture
def filled(store):
    """A grid of which two arms have two finished seeds, and one a failed run."""
    planned = plan(store)
    store.write_plan("clip_lr_grid", planned.record())
    for arm, scores in zip(planned.arms, ((0.50, 0.54), (0.60, 0.70)), strict=False):
        for seed, score in enumerate(scores):
            finish(store, arm.spec(seed), score)
    finish(store, planned.arms[2].spec(0), status="failed")
    return store


def test_judge(asked, tmp_path):
    (tmp_path / "scores.csv").write_text("arm,seed,score\na,1,50\na,2,51\nb,1,60\nb,2,62\n")
    found = asked("judge", str(tmp_path / "scores.csv"), f"out={tmp_path / 'out'}", "formats=png")
    (effect,) = [row for row in found["effects"] if row["benchmark"] == "score"]
    assert (effect["arm"], effect["reference"], effect["value"], effect["seeds"]) == ("b", "a", 10.5, 2)
    assert {Path(file).name for file in found["written"]} >= {"scores.tex", "report.html", "differences.png"}
    lower = asked("judge", str(tmp_path / "scores.csv"), f"out={tmp_path}", "better=lower")
    assert "lower is better" in lower["sentences"][0]
    assert "did you mean 'lower'?" in asked("judge", str(tmp_path / "scores.csv"), "better=low", code=2)["error"]


def test_plan(filled, asked, said):
    found = asked("plan", *overrides(filled))
    totals = found["totals"]
    assert (len(found["arms"]), totals["runs"], totals["finished"], totals["to_run"]) == (GRID, 36, 4, 32)
    assert totals["gpu_hours"] == 0.0
    assert "asks about: avg@n (points, higher is better, margin 3)" in found["notes"]
    first, base = found["arms"][0], next(arm for arm in found["arms"] if arm["parent"] is None)
    assert first["runs"]["0"] == {"run_id": plan(filled).arms[0].runs[0], "status": "finished"}
    assert first["expected"]["seconds"] == 100.0
    assert first["changes"] == {"optimizer.learning_rate": [0.0002, 0.0001]}
    assert (first["parent"], base["changes"]) == (base["name"], {})
    assert all(note in " ".join(said("plan", *overrides(filled)).split()) for note in found["notes"][:1])


def test_plan_tells_gpu_hours(store, asked, said):
    here = [f"runtime.results={store.root}", "algorithm=grpo", "seed=0,1"]
    spec = make_plan(here, True).specs[0]
    unknown = asked("plan", "-m", *here)["totals"]
    assert (unknown["known"], unknown["seconds"], unknown["gpu_hours"]) == (0, None, None)
    finish(store, spec)
    run = store.run(spec.run_id)
    manifest = run.manifest()
    run.write_manifest({**manifest, "attempts": [{**manifest["attempts"][0], "gpus": 2, "device": "H100"}]})
    totals = asked("plan", "-m", *here)["totals"]
    hours = 100 * 2 / 3600  # a run of 100 seconds on two GPUs
    assert (totals["to_run"], totals["gpu_hours"]) == (1, pytest.approx(hours))
    assert "0.06 GPU-hours (" in said("plan", "-m", *here)


def test_status_of_a_store_and_of_a_run(filled, asked, said):
    here = f"runtime.results={filled.root}"
    found = asked("status", EXPERIMENT, here)
    assert found["counts"] == {"failed": 1, "finished": 4, "waiting": 31}
    assert len(found["runs"]) == 36
    assert [run["problem"] for run in found["runs"] if run["status"] == "failed"] == ["exit code 1; boom"]
    assert asked("status", f"runtime.results={filled.root / 'none'}")["runs"] == []
    one, other = [run["run_id"] for run in found["runs"] if run["status"] == "finished"][:2]
    shown = asked("status", one, here)["run"]
    assert (shown["run_id"], shown["status"], shown["results"]["step"]) == (one, "finished", 100)
    assert shown["attempts"][0]["outcome"] == "finished"
    assert shown["configuration"]["training"]["steps"] == 100
    differs = asked("status", one, other, here, code=Exit.FOUND)["run"]
    assert (differs["other"], list(differs["differences"]["configuration"])) == (other, ["seed"])
    same = asked("status", one, one, here)["run"]["differences"]
    assert same == {"configuration": {}, "provenance": {}, "results": {}}
    assert "one run or two" in asked("status", one, other, one, here, code=Exit.REFUSED)["error"]
    page = experiment_dir(filled.root, "clip_lr_grid") / "report.html"
    write_file(page.parent / "tables" / "answer.md", b"**1e-4 helps: +4.6 points. 8e-4 hurts.**\n")
    write_file(page, b"")
    sign_answer(filled, "clip_lr_grid", answer_key(filled, "clip_lr_grid"))
    assert asked("status", EXPERIMENT, here)["answers"] == {"clip_lr_grid": "1e-4 helps: +4.6 points."}
    finish(filled, plan(filled).arms[2].spec(1))  # of which the answer does not know
    assert not asked("status", EXPERIMENT, here)["answers"]


def test_report(filled, asked, said):
    here = [EXPERIMENT, f"runtime.results={filled.root}", "only=table"]
    found = asked("report", *here)
    (metric,) = found["metrics"]
    by_name = {arm["name"]: arm for arm in metric["arms"]}
    base = next(arm for arm in plan(filled).arms if arm.parent is None).name
    compared = [row for row in metric["effects"] if row["value"] is not None]
    assert [(row["kind"], row["reference"], row["seeds"]) for row in compared] == [("reference", base, 2)]
    assert abs(compared[0]["value"]) == pytest.approx(13.0)  # 65 against 52 %
    assert compared[0]["word"] == "not resolved"
    assert by_name[base]["mean"] in (pytest.approx(52.0), pytest.approx(65.0))
    assert sorted(by_name[base]["by_seed"].values()) in ([50.0, 54.0], [60.0, 70.0])
    assert found["text"] in said("report", *here)
    assert (found["folder"], found["written"]) == (None, [])
    assert all(Path(path).is_file() for path in asked("report", *here[:2], "only=tables")["written"])


def test_doctor(store, asked):
    found = asked("doctor", f"runtime.results={store.root}")
    assert {"python", "torch", "results"} <= {check["name"] for check in found["checks"]}


def test_what_a_verb_says_on_its_way_is_not_among_its_json(filled, monkeypatch, capsys):
    monkeypatch.setattr("harness.commands.status.run_state", lambda *given: print("reading") or run_state(*given))
    assert main(["status", f"runtime.results={filled.root}", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)
    assert "reading" in said.err


def test_the_page_lists_the_codes_and_the_fields_of_every_answer():
    rows = re.findall(r"^\| `?(\w+)`? \| (.*) \|$", PAGE, re.MULTILINE)
    assert {int(code) for code, _ in rows if code.isdigit()} == set(Exit)
    told = {verb: re.findall(r"`(\w+)`", fields) for verb, fields in rows if verb in VERBS}
    assert told == {name: [field.name for field in dataclasses.fields(verb.Answer)] for name, verb in VERBS.items()}
