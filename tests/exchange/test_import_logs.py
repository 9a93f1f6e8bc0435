"""Logs of TRL, verl and trackers become runs of the store in our units, as one file `arm,seed,log` declares them."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from verbs import Said

from analysis.answer import answer_sentences
from analysis.figures.curves import accuracy_figure
from analysis.figures.drawing import figure_style
from analysis.frames import load_experiment
from analysis.methods import Methods
from analysis.report import write_answer
from analysis.results import results_of
from analysis.tables.experiment import all_tables, behaviour_table, main_table
from analysis.tables.table import to_markdown
from harness.configuration.error import ConfigError
from harness.exchange import logs as module
from harness.exchange.logs import Import, Names, import_logs, names_of, read_log, store_rows, with_tokens
from harness.store import METRICS, ResultStore, RunClaimed, atomic, lease

AIME = "val-core/HuggingFaceH4/aime_2024/acc/mean@32"
SCORE = "evaluation/HuggingFaceH4-aime_2024/avg@32"


def verl_line(step: int, score: float | None = None, **extra: float) -> str:
    data = {
        "critic/score/mean": -0.5 + 0.01 * step, "critic/rewards/mean": -0.6, "actor/entropy": 0.4, "response_length/mean": 750.0,
        "prompt_length/mean": 250.0, "response_length/clip_ratio": 0.125, "perf/total_num_tokens": 60_000.0,
        "actor/pg_clipfrac": 0.002, "actor/grad_norm": 0.3, "timing_s/step": 80.0, "training/global_step": step, **extra,
    }  # fmt: skip
    if score is not None:
        data |= {
            AIME: score,
            "val-core/HuggingFaceH4/aime_2024/acc/best@32/mean": 0.7,
            "val-aux/x/reward/mean@32": -0.4,
        }
    return json.dumps({"step": step, "data": data})


def write_verl(path: Path, final: float, start: float = 0.1) -> Path:
    lines = [json.dumps({"step": 0, "data": {AIME: start}})]
    lines += [verl_line(1), verl_line(2, (start + final) / 2), verl_line(3), verl_line(4, final)]
    path.write_text("\n".join(lines) + '\n{"step": 5, "da')  # torn by the end of the job
    return path


def write_trl(path: Path, rewards: list[float], every: int = 10, **evaluation: float) -> Path:
    history: list[dict[str, Any]] = [
        {
            "step": every * index, "reward": reward, "entropy": 0.5, "completions/mean_length": 200.0, "clip_ratio/high_mean": 0.003,
            "frac_reward_zero_std": 0.5, "num_tokens": 1e5 * index, "step_time": 12.0,
        }
        for index, reward in enumerate(rewards, start=1)
    ]  # fmt: skip
    last = every * len(rewards)
    history += [{"step": last, **evaluation}] if evaluation else []
    history.append({"step": last, "train_runtime": 99.0, "train_loss": 0.1})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"global_step": last, "log_history": history}))
    return path


def write_list(folder: Path, *lines: str, head: str = "arm,seed,log") -> Path:
    path = folder / "runs.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Two arms of verl with three seeds."""
    for arm, level in (("grpo", 0.40), ("dapo", 0.50)):
        for seed in range(3):
            write_verl(tmp_path / f"{arm}-{seed}.jsonl", level + 0.01 * seed, 0.1 + seed / 1000 + level / 99)
    return write_list(tmp_path, *(f"{arm},{seed},{arm}-{seed}.jsonl" for arm in ("grpo", "dapo") for seed in range(3)))


def imported(tmp_path: Path, theirs: Path) -> ResultStore:
    store = ResultStore(tmp_path / "results")
    import_logs(store, Import(theirs, "theirs", "verl", cap=20480))
    return store


# ---- what a log says ----


@pytest.mark.parametrize("dialect", ["trl", "verl"])
def test_what_a_table_maps_to_is_ours_or_said_to_be_extra(dialect: str) -> None:
    names = names_of(dialect)
    assert set(names.metrics.values()) <= {*METRICS, "clip_fraction", "zero_spread_groups_fraction"}
    assert names.remarks


def test_verl_lines_become_our_columns_and_units(tmp_path: Path) -> None:
    names = names_of("verl")
    rows = store_rows(read_log(write_verl(tmp_path / "metrics.jsonl", final=0.5), names), names)
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    last = rows[-1]
    assert last["reward_mean"] == pytest.approx(-0.46)  # the score, not the reward minus its KL penalty
    assert (last["truncated_fraction"], last["clip_fraction"], last["seconds_total"]) == (0.125, 0.002, 80.0)
    assert last["generated_tokens"] == 45_000  # 60,000 x 750 / (750 + 250): prompts are not generated
    assert last["generated_tokens_total"] == 4 * 45_000
    assert last[SCORE] == 0.5
    assert last["evaluation/HuggingFaceH4-aime_2024/verl_best@32"] == 0.7  # biased: never in a Pass@k column
    assert last["val-aux/x/reward/mean@32"] == -0.4  # kept under its own name


def test_trl_state_becomes_our_columns_and_units(tmp_path: Path) -> None:
    path = write_trl(tmp_path / "trainer_state.json", [0.1, 0.2], eval_reward=0.25)
    names = names_of("trl")
    rows = store_rows(read_log(path, names), names, responses_per_step=64)
    assert [row["step"] for row in rows] == [10, 20]
    last = rows[-1]
    assert (last["updates"], last["reward_mean"], last["clip_fraction_high"]) == (20, 0.2, 0.003)
    assert last["seconds_total"] == 120.0  # step_time is a mean over the ten steps of a line
    assert (last["generated_tokens"], last["generated_tokens_total"]) == (200 * 64 * 10, 200 * 64 * 20)
    assert (last["zero_spread_groups_fraction"], last["evaluation/eval/reward"]) == (0.5, 0.25)
    assert "train_loss" not in last


def test_a_chart_of_several_runs_needs_a_choice(tmp_path: Path) -> None:
    path, score = tmp_path / "export.csv", "critic/score/mean"
    # With a byte order mark, as spreadsheets write it.
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow(["Step", f"a - {score}", f"a - {score}__MAX", f"b - {score}"])
        writer.writerows([[1, 0.1, 0.9, 0.3], [2, 0.2, 0.9, ""]])
    names = names_of("verl")
    with pytest.raises(ConfigError, match="holds 2 runs; name one in a column `run`: a, b"):
        read_log(path, names)
    assert read_log(path, names, "a") == [{"step": 1, score: 0.1}, {"step": 2, score: 0.2}]
    assert [row["step"] for row in read_log(path, names, "b")] == [1]


def test_a_wandb_history_of_trls_trainer_reads_as_its_state(tmp_path: Path) -> None:
    path, names = tmp_path / "history.json", names_of("trl")
    first = {"_step": 0, "train/global_step": 10, "train/reward": 0.4, "_runtime": 5}
    second = {"_step": 1, "train/global_step": 10, "eval/accuracy": 0.3, "gradients": {"_type": "histogram"}}
    path.write_text(json.dumps([first, second]))
    (row,) = store_rows(read_log(path, names), names)
    assert row == {"step": 10, "attempt": 0, "updates": 10, "reward_mean": 0.4, "evaluation/eval/accuracy": 0.3}


def test_a_table_of_ones_own_has_named_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("iteration,reward_mean,evaluation/gsm8k/avg@1,note\n1,0.5,0.25,x\n2,0.75,0.5,y\n")
    rows = store_rows(read_log(tmp_path / "a.csv", Names(), step="iteration"), Names())
    assert rows[1] == {"step": 2, "attempt": 0, "reward_mean": 0.75, "evaluation/gsm8k/avg@1": 0.5}
    with pytest.raises(ConfigError, match="has no row with a metric and a step; the step is one of: _step, Step, step"):
        read_log(tmp_path / "a.csv", Names())


def test_the_total_of_a_log_that_begins_late_is_its_own() -> None:
    entries = [{"step": 10, "generated_tokens": 5, "generated_tokens_total": 105}, {"step": 11, "generated_tokens": 7}]
    assert [row["generated_tokens_total"] for row in store_rows(entries, Names())] == [105, 112]


def test_a_line_separator_inside_a_text_ends_no_line_of_json(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"step": 1, "loss": 0.5, "text": "a\u2028b"}\n{"step": 2, "loss": 0.25}\n')
    assert [row["loss"] for row in read_log(tmp_path / "a.jsonl", Names())] == [0.5, 0.25]


def test_of_two_metrics_of_one_column_the_newer_name_has_it() -> None:
    values = {"step": 1, "actor/entropy_loss": 0.7, "actor/entropy": 0.4}
    (row,) = store_rows([values], names_of("verl"))
    assert (row["entropy_nats"], row["actor/entropy_loss"]) == (0.4, 0.7)


@pytest.mark.parametrize("again", ["train/num_gen_batches", "training/filter_groups/evicted_samples"])
def test_verls_generated_tokens_are_unknown_where_it_threw_groups_away(again: str) -> None:
    logged = {"step": 1.0, "response_length/mean": 30.0, "prompt_length/mean": 10.0, "perf/total_num_tokens": 400.0}
    assert with_tokens(logged)["generated_tokens"] == 300.0  # three quarters of the tokens are responses
    rows = store_rows(
        [logged, logged | {"step": 2, again: 3.0}, logged | {"step": 3}], names_of("verl"), responses_per_step=10
    )
    tokens = [(row.get("generated_tokens"), row.get("generated_tokens_total")) for row in rows]
    assert tokens == [(300, 300), (None, None), (300, None)]  # the total is not known from there on
    assert rows[1]["trained_tokens"] == 300.0


# ---- what becomes of a list ----


def test_foreign_runs_get_tables_with_intervals_and_say_what_they_are(theirs: Path, tmp_path: Path) -> None:
    results = results_of(load_experiment(imported(tmp_path, theirs).root, "theirs"))
    table = main_table(results)
    dapo = table.rows[-1]
    assert dapo["score"].value == pytest.approx(0.51)
    assert dapo["delta"].value == pytest.approx(0.10)
    assert (dapo["delta"].method, dapo["delta"].resolved) == ("Welch t over seeds", True)
    assert table.columns[1].header == "avg@32 % (95 % interval)"
    notes = " ".join(table.notes)
    assert "Foreign runs (verl: grpo, dapo): scores are as their trainer logged them" in notes
    behaviour = {row["arm"]: row for row in behaviour_table(results).rows}
    assert behaviour["dapo"]["train_generated_tokens_total"] == 180_000
    assert answer_sentences(results)[0].startswith("dapo is shown to do better than grpo: +10.0")
    assert all(to_markdown(each) for each in all_tables(results))
    paths = write_answer(tmp_path / "results", "theirs", tmp_path / "out", formats=("svg",))
    assert {"accuracy.svg", "report.html"} <= {path.name for path in paths}
    assert "foreign.format" in (tmp_path / "out" / "report.html").read_text()  # provenance


def test_runs_are_marked_and_named_by_their_content(theirs: Path, tmp_path: Path) -> None:
    store = imported(tmp_path, theirs)
    manifests = store.readable()
    assert {found["labels"]["foreign"] for found in manifests} == {"verl"}
    assert {found["status"] for found in manifests} == {"finished"}
    assert len(manifests[0]["provenance"]["foreign"]["content_sha256"]) == 64
    again = import_logs(store, Import(theirs, "theirs", "verl", cap=20480))
    assert (again.new, again.replacements, len(store.run_ids())) == (frozenset(), [], 6)


def test_the_rows_of_an_import_are_on_the_disk_before_it_counts_as_finished(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the run was finished and empty, and importing again said that it was there."""
    store, order = ResultStore(tmp_path / "results"), list[str]()
    sync, write = atomic.sync_file, atomic.write_file
    monkeypatch.setattr(atomic, "sync_file", lambda path: (order.append(path.name), sync(path)))

    def written(path: Path, data: bytes, **more: Any) -> None:
        if b'"finished"' in data:
            order.append("finished")
        write(path, data, **more)

    monkeypatch.setattr(atomic, "write_file", written)
    import_logs(store, Import(theirs, "theirs", "verl"))
    assert order == ["metrics.jsonl", "finished"] * 6


def test_a_changed_list_is_the_plan_and_what_was_replaced_is_said(theirs: Path, tmp_path: Path) -> None:
    store = imported(tmp_path, theirs)
    before = store.plan("theirs")["arms"][0]["runs"]
    write_verl(tmp_path / "again.jsonl", 0.7)
    write_list(tmp_path, "grpo,0,again.jsonl,", "grpo,1,grpo-1.jsonl,Naive", head="arm,seed,log,label")
    found = import_logs(store, Import(theirs, "theirs", "verl", title="Theirs"))
    (arm,) = store.plan("theirs")["arms"]
    assert (arm["label"], list(arm["runs"]), arm["runs"]["1"]) == ("Naive", ["0", "1"], before["1"])
    assert found.replacements[0] == f"arm grpo, seed 0 was run {before['0']}, now {arm['runs']['0']}"
    assert found.replacements[1] == f"arm grpo, seed 2 was run {before['2']}, now not listed"


def test_a_training_metric_can_stand_in_for_a_score_and_is_called_one(tmp_path: Path) -> None:
    lines = []
    for arm, level in (("a", 0.5), ("b", 1.5)):
        for seed in range(2):
            write_trl(tmp_path / f"{arm}{seed}.json", [0.0, level + seed / 10], every=1)
            lines.append(f"{arm},{seed},{arm}{seed}.json")
    store = ResultStore(tmp_path / "results")
    import_logs(store, Import(write_list(tmp_path, *lines), "rewards", "trl", score="reward_mean", unit="reward"))
    results = results_of(load_experiment(store.root, "rewards"))
    table = main_table(results)
    assert table.columns[1].header == "reward_mean (95 % interval)"
    # The mean of the last ten evaluations there are, over two seeds.
    assert table.text()[0][1].startswith("0.275")
    assert "a training metric" in " ".join(table.notes)


@pytest.mark.parametrize(("values", "rule"), [(1, "last"), (3, "mean_last_3"), (12, "mean_last_10")])
def test_a_curve_shorter_than_ten_is_averaged_over_what_it_has(tmp_path: Path, values: int, rule: str) -> None:
    """One final score a run, the commonest list: no run is called missing, no mean of ten is claimed, no panel is empty."""
    for arm in "ab":
        rows = [f"{step},{ord(arm) / 1000 + step / 100}" for step in range(1, values + 1)]
        (tmp_path / f"{arm}.csv").write_text("\n".join(["step,aime24", *rows, ""]))
    asked = Import(write_list(tmp_path, "a,0,a.csv", "b,0,b.csv"), "mine", score="aime24")
    import_logs(store := ResultStore(tmp_path / "results"), asked)
    results = results_of(load_experiment(store.root, "mine"))
    assert results.experiment.plan.checkpoint_rule == rule
    assert results.notes == ()
    with figure_style("paper"):
        assert len(accuracy_figure(results.experiment).axes) == 1
    methods = " ".join(Methods(results, store).sentences)
    assert not re.search(r"  | ,|Adam|rollout|tokens|Hardware|None", methods)  # what no log of theirs says


@pytest.mark.parametrize("end", ["stopped", "diverged"])
def test_a_log_that_ends_early_is_not_scored_at_an_earlier_evaluation(theirs: Path, tmp_path: Path, end: str) -> None:
    log = tmp_path / "dapo-1.jsonl"
    whole = log.read_text().splitlines()[:-1]
    log.write_text("\n".join(whole[:-1] + [whole[-1].replace("0.51", "NaN")] * (end == "diverged")))
    results = results_of(load_experiment(imported(tmp_path, theirs).root, "theirs"))
    assert results.notes == (
        "dapo, seed 1: not scored, its last evaluation is of step 2 and the one of step 4 is missing",
    )
    (arm,) = [arm for arm in results.experiment.plan.arms if arm.name == "dapo"]
    assert results.scores(arm, "avg") == pytest.approx({0: 0.50, 2: 0.52})


def test_percent_scores_become_fractions(tmp_path: Path) -> None:
    write_trl(tmp_path / "s.json", [0.1], eval_accuracy=45.0)
    store = ResultStore(tmp_path / "results")
    found = import_logs(store, Import(write_list(tmp_path, "a,0,s.json"), "mine", "trl", unit="percent"))
    assert store.run(found.runs[0].run_id).steps()["evaluation/eval/accuracy"].iloc[-1] == pytest.approx(0.45)


def test_a_score_that_no_trainer_names_has_the_unit_that_was_said(tmp_path: Path) -> None:
    """22.19 per cent were shown as 2 219.0 %, with unit=percent and without."""
    (tmp_path / "a.csv").write_text("step,aime24\n200,22.19\n")
    runs, store = write_list(tmp_path, "g,0,a.csv"), ResultStore(tmp_path / "results")
    found = import_logs(store, Import(runs, "mine", score="aime24", unit="percent"))
    assert store.run(found.runs[0].run_id).steps()["aime24"].tolist() == pytest.approx([0.2219])
    with pytest.raises(
        ConfigError, match=r"a.csv: aime24 is 22.19, which is no share with unit=fraction; say unit=percent"
    ):
        import_logs(store, Import(runs, "mine", score="aime24"))


def test_two_rewards_of_one_column_need_a_choice(tmp_path: Path) -> None:
    values = {"eval_rewards/accuracy_reward/mean": 0.9, "eval_rewards/format_accuracy/mean": 0.2}
    write_trl(tmp_path / "s.json", [0.1], **values)
    runs, store = write_list(tmp_path, "grpo,0,s.json"), ResultStore(tmp_path / "results")
    with pytest.raises(ConfigError, match=f"scores found: {', '.join(values)}; choose one with score="):
        import_logs(store, Import(runs, "mine", "trl"))
    with pytest.raises(ConfigError, match=r"score=eval/accuracy is .* or .*; choose one with score="):
        import_logs(store, Import(runs, "mine", "trl", score="eval/accuracy"))
    found = import_logs(store, Import(runs, "mine", "trl", score="eval_rewards/accuracy_reward/mean"))
    last = store.run(found.runs[0].run_id).steps().iloc[-1]
    assert found.score == "evaluation/eval/accuracy"
    assert (last["evaluation/eval/accuracy"], last["eval_rewards/format_accuracy/mean"]) == (0.9, 0.2)


# ---- what is refused, and that nothing is written then ----


@pytest.mark.parametrize(
    ("head", "lines", "message"),
    [
        ("arm,seed", ["grpo,0"], "needs the columns arm,seed,log"),
        ("arm,seed,log,lable", ["grpo,0,x,y"], "needs the columns arm,seed,log"),
        ("arm,seed,log", [], "lists no runs"),
        ("arm,seed,log", ["grpo,,grpo-0.jsonl"], "line 2: seed is empty"),
        ("arm,seed,log", ["grpo,zero,grpo-0.jsonl"], "line 2: seed 'zero' is no integer"),
        ("arm,seed,log", ["grpo,²,grpo-0.jsonl"], "line 2: seed '²' is no integer"),
        ("arm,seed,log", ["grpo,0,early.jsonl"], "early.jsonl has step -1; steps count from 0"),
        ("arm,seed,log", ["grpo,0,half.csv"], "half.csv has step 0.5; steps count from 0 in whole numbers"),
        ("arm,seed,log", ["grpo,0,comma.csv"], "comma.csv: row 2 has more cells than the header"),
        ("arm,seed,log", ["grpo,0,twice.csv"], "twice.csv: two columns are called 'critic/score/mean'"),
        ("arm,seed,log", ["grpo,0,grpo-0.jsonl,x"], "line 2: more values than columns"),
        ("arm,seed,log,log", ["grpo,0,grpo-0.jsonl,x"], "needs the columns arm,seed,log"),
        ("arm,seed,log", ["grpo,0,grpo-0.jsonl", "", "dapo,,grpo-1.jsonl"], "line 4: seed is empty"),
        ("arm,seed,log", ["grpo,0,grpo-0.jsonl", "grpo ,0,grpo-1.jsonl"], "lines 2 and 3 are both arm grpo, seed 0"),
        (
            "arm,seed,log,label",
            ["grpo,0,grpo-0.jsonl,One", "grpo,1,grpo-1.jsonl,Two"],
            "line 3: arm grpo is labelled 'One' further up",
        ),
        ("arm,seed,log", ["grpo,0,grpo-0.jsonl", "grpo,00,grpo-1.jsonl"], "lines 2 and 3 are both arm grpo, seed 0"),
        ("arm,seed,log", ["grpo,0,grpo-0.jsonl", "dapo,0,grpo-0.jsonl"], "a copy is no replicate"),
        ("arm,seed,log", ["grpo,0,grpo-0.jsonl", "grpo,1,absent.jsonl"], "cannot read"),
        ("arm,seed,log", ["grpo,0,grpo-0.jsonl", "grpo,1,runs.csv"], "has no row with a metric and a step"),
        ("arm,seed,log", ["grpo,0,grpo-0.jsonl", "grpo,1,text.log"], "line 1 is not JSON"),
        ("arm,seed,log", ["grpo,0,../results.jsonl"], "lies outside of its folder; keep the list above its logs"),
        ("arm,seed,log", ["grpo,0,/etc/hostname"], "'/etc/hostname' lies outside"),
        ("arm,seed,log,run", ["grpo,0,export.csv,c"], "has no run 'c'; runs: one, without a name"),
    ],
)
def test_a_list_that_cannot_be_imported_says_why_and_writes_nothing(
    theirs: Path, tmp_path: Path, head: str, lines: list[str], message: str
) -> None:
    (tmp_path / "text.log").write_text("hello\n")
    (tmp_path / "early.jsonl").write_text(verl_line(-1, 0.5) + "\n")
    (tmp_path / "half.csv").write_text("step,critic/score/mean\n0.5,1\n0.75,2\n")
    (tmp_path / "comma.csv").write_text("step,critic/score/mean\n1,0,75\n")
    (tmp_path / "twice.csv").write_text("step,critic/score/mean,critic/score/mean\n1,0.5,0.75\n")
    (tmp_path / "export.csv").write_text("Step,critic/score/mean\n1,0.5\n")
    store = ResultStore(tmp_path / "results")
    with pytest.raises(ConfigError, match=message):
        import_logs(store, Import(write_list(tmp_path, *lines, head=head), "theirs", "verl"))
    assert (store.run_ids(), store.plans()) == ([], [])


def test_scores_that_a_log_does_not_have_are_named(tmp_path: Path) -> None:
    write_trl(tmp_path / "bare.json", [0.1])
    write_trl(tmp_path / "two.json", [0.1], eval_reward=0.2, eval_accuracy=0.1)
    store = ResultStore(tmp_path / "results")
    for log, score, message in (
        ("bare.json", None, "scores found: none; take a training metric with score= and unit=reward; it has "),
        ("two.json", None, "eval/accuracy, eval/reward; choose one with score="),
        ("two.json", "eval/acuracy", "did you mean 'eval/accuracy'"),
        # Who asks for an evaluation is not shown the training metrics.
        ("two.json", "eval_rewards/format/mean", "choose one of: eval/accuracy, eval/reward$"),
    ):
        with pytest.raises(ConfigError, match=message):
            import_logs(store, Import(write_list(tmp_path, f"a,0,{log}"), "mine", "trl", score=score))


@pytest.mark.parametrize("column", ["evaluation/accuracy", "evaluation/gsm8k/test/acc"])
def test_a_column_of_no_benchmark_or_of_longer_names_is_a_training_metric(
    tmp_path: Path, said: Said, column: str
) -> None:
    (tmp_path / "a.csv").write_text(f"step,{column}\n1,25\n2,50\n")
    here = f"runtime.results={tmp_path / 'results'}"
    given = ("import", "experiment=mine", f"logs={write_list(tmp_path, 'a,0,a.csv')}", "unit=percent", here)
    refusal = said(*given, code=2)
    assert "scores found: none; call its column evaluation/BENCHMARK/METRIC, or take a training metric" in refusal
    assert not (tmp_path / "results" / "runs").exists()
    assert f"score {column}; columns" in said(*given, f"score={column.removeprefix('evaluation/')}")
    assert "a: 37.5 %" in said("report", "experiment=mine", "only=table", here)


def test_an_experiment_of_our_own_takes_no_imports(theirs: Path, tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    store.write_plan("theirs", {"name": "theirs", "arms": []})
    with pytest.raises(ConfigError, match="planned by `harness run`"):
        imported(tmp_path, theirs)
    assert store.run_ids() == []


def test_an_import_waits_for_the_one_that_changes_the_plan(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ResultStore(tmp_path / "results")
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.0)
    with lease.acquire(store.root / "experiments" / "theirs" / "claim.lock"), pytest.raises(RunClaimed):
        imported(tmp_path, theirs)
    assert store.run_ids() == []
    assert len(imported(tmp_path, theirs).run_ids()) == 6


def test_an_import_that_was_killed_is_completed_by_the_next(theirs: Path, tmp_path: Path) -> None:
    command = "import os, sys; from harness.store.run import RunDir; RunDir.append_step = lambda *_: os._exit(9); "
    command += "from harness.cli import main; main(sys.argv[1:])"
    arguments = [
        "import",
        "dialect=verl",
        "experiment=theirs",
        f"logs={theirs}",
        f"runtime.results={tmp_path / 'results'}",
    ]
    assert subprocess.run([sys.executable, "-c", command, *arguments], check=False).returncode == 9
    store = imported(tmp_path, theirs)
    assert [len(store.run(run_id).steps()) for run_id in store.run_ids()] == [5] * 6


def test_the_command_prints_what_it_read_and_refuses_what_it_does_not_know(
    theirs: Path, tmp_path: Path, said: Said
) -> None:
    given = ["import", "dialect=verl", "experiment=theirs", f"logs={theirs}", f"runtime.results={tmp_path / 'results'}"]
    text = said(*given, "cap=20480")
    assert "arm grpo, seed 0: run " in text
    assert f"score {SCORE}; columns: " in text
    assert "already in the store" in said(*given, "cap=20480")
    for more, message in (
        ("cap=-1", "cap= is at least 0"),
        ("replce=true", "import has no argument 'replce=true'"),
        ("unit=permille", "unit='permille' is not known"),
    ):
        assert message in said(*given, more, code=2)
    assert "experiment 'a b' must match" in said("import", "experiment=a b", f"logs={theirs}", code=2)
    assert "needs experiment=NAME" in said("import", f"logs={theirs}", code=2)


def test_an_experiment_goes_with_the_runs_that_no_other_has(theirs: Path, tmp_path: Path, said: Said) -> None:
    store, root = imported(tmp_path, theirs), f"runtime.results={tmp_path / 'results'}"
    plan = store.plan("theirs")
    shared = plan["arms"][0]["runs"]["1"]
    store.write_plan("other", {**plan, "name": "other", "arms": [{**plan["arms"][0], "runs": {"1": shared}}]})
    assert "name what is to go" in said("clean", "--experiment", root, code=2)
    with store.run(shared).lock():
        told = said("clean", "--experiment", "--yes", "experiment=theirs", root, code=2)
        assert f"run {shared} runs (process {os.getpid()} on " in told
    told = said("clean", "--experiment", "--yes", "experiment=theirs", root)
    assert f"kept {store.run(shared).path}: it is of other, too" in told
    assert (store.plans(), store.run_ids()) == (["other"], [shared])
