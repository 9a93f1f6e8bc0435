"""Logs of verl, TRL and wandb become runs of the store in our units, marked as foreign, and get tables and figures."""

from __future__ import annotations

import csv
import json

import pytest
from import_support import trl_state, write_verl

from analysis.answer import answer_sentences
from analysis.evidence.load import load_experiment
from analysis.evidence.results import results_of
from analysis.html.page import render_page
from analysis.report import write_answer
from analysis.tables.experiment import all_tables, main_table, summary_table
from analysis.tables.table import to_markdown
from harness.cli import main
from harness.configuration.registry import kinds
from harness.exchange.importers import trl, verl, wandb
from harness.exchange.importers._log import ForeignLogError, Log, Logged
from harness.exchange.importers._store import Import, import_run
from harness.exchange.importers._trainer import FAMILY, trainer_of, trainers
from harness.store import METRICS, ResultStore


def test_the_family_lists_its_formats():
    assert sorted(kinds(FAMILY)) == ["open_instruct", "prime_rl", "tensorboard", "trl", "verl", "wandb"]
    assert trainers() == ["open_instruct", "prime_rl", "trl", "verl"]


@pytest.mark.parametrize("name", trainers())
def test_what_a_table_maps_to_is_ours_or_said_to_be_extra(name):
    extra = {"clip_fraction", "zero_spread_groups_fraction"}
    trainer = trainer_of([], name)
    assert trainer.name == name
    assert set(trainer.metrics.values()) <= {*METRICS, *extra}
    assert trainer.remarks


def test_verl_lines_become_our_columns_and_units(tmp_path):
    rows = verl.read(write_verl(tmp_path / "metrics.jsonl", final=0.5)).rows()
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    last = rows[-1]
    assert last["reward_mean"] == pytest.approx(-0.46)  # the score, not the reward minus its KL penalty
    assert last["truncated_fraction"] == 0.125
    assert last["clip_fraction"] == 0.002
    assert "clip_fraction_low" not in last
    assert last["seconds_total"] == 80.0
    assert last["generated_tokens"] == 45_000  # 60,000 x 750 / (750 + 250): prompts are not generated
    assert last["generated_tokens_total"] == 4 * 45_000
    assert last["evaluation/HuggingFaceH4-aime_2024/avg@32"] == 0.5
    assert last["evaluation/HuggingFaceH4-aime_2024/verl_best@32"] == 0.7  # biased: never in a Pass@k column
    assert last["val-aux/HuggingFaceH4/aime_2024/reward/mean@32"] == -0.4  # kept under its own name


def test_trl_state_becomes_our_columns_and_units(tmp_path):
    folder = tmp_path / "out"
    for step in (10, 20):
        (folder / f"checkpoint-{step}").mkdir(parents=True)
    trl_state(folder / "checkpoint-10" / "trainer_state.json", [0.1])
    trl_state(folder / "checkpoint-20" / "trainer_state.json", [0.1, 0.2], at={20: {"eval_reward": 0.25}})
    rows = trl.read(folder).rows(responses_per_step=64)
    assert [row["step"] for row in rows] == [10, 20]
    last = rows[-1]
    assert (last["updates"], last["reward_mean"], last["clip_fraction_high"]) == (20, 0.2, 0.003)
    assert last["seconds_total"] == 120.0  # step_time is a mean over the ten steps of a line
    assert last["generated_tokens"] == 200 * 64 * 10
    assert last["generated_tokens_total"] == 200 * 64 * 20
    assert last["zero_spread_groups_fraction"] == 0.5
    assert last["evaluation/eval/reward"] == 0.25
    assert "train_loss" not in last


def test_a_printed_trl_log_reads_as_well(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(
        "some banner\n{'reward': '0.5', 'entropy': '0.2'}\n{'reward': 0.7, 'entropy': 0.1}\n"
        "{'eval_rewards/accuracy_reward/mean': 0.6}\n"
    )
    rows = trl.read(path).rows()
    assert [(row["step"], row["reward_mean"]) for row in rows] == [(1, 0.5), (2, 0.7)]
    assert rows[1]["evaluation/eval/accuracy"] == 0.6


def test_a_progress_bar_tells_the_steps_of_a_printed_log(tmp_path):
    path = tmp_path / "train.log"
    bars = "Map: 100%|##| 9/9 [00:01<00:00]\n  4%|4 | 4/100 [10:00<1:00, 9s/it]\r  5%|5 | 5/100 [26:14<8:17, 3s/it]\n"
    evaluation = " 50%|5 | 1/2 [00:01<00:01]\n{'eval_reward': 0.5}\n"
    path.write_text(
        f"{bars}{{'reward': 0.25, 'completion_length': 300.5}}\n{evaluation} 10%|9| 10/100 [1:00<9:00]\n{{'reward': 0.5}}\n"
    )
    rows = trl.read(path).rows(responses_per_step=8)
    assert [row["step"] for row in rows] == [5, 10]
    assert (rows[0]["response_tokens_mean"], rows[0]["evaluation/eval/reward"]) == (300.5, 0.5)
    assert rows[0]["generated_tokens"] == 300.5 * 8 * 5


def test_an_argument_without_effect_is_said(tmp_path, said):
    path = tmp_path / "train.log"
    path.write_text("{'reward': 0.25}\n{'reward': 0.5}\n")
    arguments = [
        f"path={path}",
        "experiment=e",
        "arm=a",
        "seed=0",
        "score=reward_mean",
        "unit=reward",
        f"runtime.results={tmp_path}",
    ]
    text = said("import_runs", "format=trl", *arguments, "responses_per_step=8")
    assert "responses_per_step=8 had no effect" in text


def test_what_verl_prints_reads_as_its_file_does(tmp_path):
    path = tmp_path / "console.log"
    path.write_text(
        "starting\n(TaskRunner pid=71) step:1 - critic/score/mean:np.float64(0.25) - actor/lr:1e-06 - timing_s/step:80.5\n"
        "step:2 - critic/score/mean:0.5 - val-core/openai/gsm8k/acc/mean@1:0.75 - training/global_step:2\n"
    )
    rows = verl.read(path).rows()
    assert [(row["step"], row["reward_mean"]) for row in rows] == [(1, 0.25), (2, 0.5)]
    assert (rows[0]["learning_rate"], rows[1]["evaluation/openai-gsm8k/avg@1"]) == (1e-6, 0.75)


def test_a_wandb_chart_export_of_several_runs_needs_a_choice(tmp_path):
    path = tmp_path / "export.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        score = "critic/score/mean"
        writer.writerow(["Step", f"a - {score}", f"a - {score}__MAX", f"b - {score}"])
        writer.writerows([[1, 0.1, 0.9, 0.3], [2, 0.2, 0.9, ""]])
    with pytest.raises(ForeignLogError, match="choose one with run=: a, b"):
        wandb.read(path)
    assert [(e.step, dict(e.values)) for e in wandb.read(path, "a").steps] == [
        (1, {"critic/score/mean": 0.1}),
        (2, {"critic/score/mean": 0.2}),
    ]
    assert [e.step for e in wandb.read(path, "b").steps] == [1]


def test_a_wandb_history_of_the_trainer_reads_as_trl(tmp_path):
    path = tmp_path / "history.json"
    first = {"_step": 0, "train/global_step": 10, "train/reward": 0.4, "_runtime": 5}
    second = {"_step": 1, "train/global_step": 10, "eval/accuracy": 0.3, "gradients": {"_type": "histogram"}}
    path.write_text(json.dumps([first, second]))
    rows = wandb.read(path).rows()
    assert rows == [{"step": 10, "attempt": 0, "reward_mean": 0.4, "evaluation/eval/accuracy": 0.3}]


def test_two_rewards_of_one_column_need_a_choice(tmp_path):
    values = {"eval_rewards/accuracy_reward/mean": 0.9, "eval_rewards/format_accuracy/mean": 0.2}
    path = trl_state(tmp_path / "s.json", [0.1], at={10: values})
    store = ResultStore(tmp_path / "results")
    names = " or ".join(values)
    with pytest.raises(ForeignLogError, match=f"scores found: {', '.join(values)}; choose one with score="):
        import_run(store, Import(path, "mine", "grpo", 0, "trl"))
    with pytest.raises(ForeignLogError, match=f"score=eval/accuracy is {names}; choose one with score="):
        import_run(store, Import(path, "mine", "grpo", 0, "trl", score="eval/accuracy"))
    chosen = "eval_rewards/accuracy_reward/mean"
    found = import_run(store, Import(path, "mine", "grpo", 0, "trl", score=chosen))
    assert found.score == "evaluation/eval/accuracy"
    last = store.run(found.run_id).steps().iloc[-1]
    assert (last["evaluation/eval/accuracy"], last["eval_rewards/format_accuracy/mean"]) == (0.9, 0.2)


def test_of_two_metrics_of_one_column_the_newer_name_has_it():
    both = {"actor/entropy": 0.4, "actor/entropy_loss": 0.7}
    for values in (both, dict(reversed(both.items()))):
        (row,) = Log([Logged(1, values)], verl.TRAINER).rows()
        assert (row["entropy_nats"], row["actor/entropy_loss"]) == (0.4, 0.7)


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    path = tmp_path / "export.csv"
    path.write_text("Step,critic/score/mean\n1,0.5\n", encoding="utf-8-sig")
    assert [entry.step for entry in wandb.read(path).steps] == [1]


def test_percent_scores_become_fractions(tmp_path):
    path = trl_state(tmp_path / "s.json", [0.1], at={10: {"eval_accuracy": 45.0}})
    store = ResultStore(tmp_path / "results")
    found = import_run(store, Import(path, "mine", "grpo", 0, "trl", unit="percent"))
    assert store.run(found.run_id).steps()["evaluation/eval/accuracy"].iloc[-1] == pytest.approx(0.45)


def test_foreign_runs_get_tables_with_intervals_and_say_what_they_are(foreign):
    results = results_of(load_experiment(foreign, "theirs"))
    assert results.experiment.notes == ()
    table = main_table(results)
    dapo = table.rows[-1]
    assert dapo["score"].value == pytest.approx(0.51)
    assert dapo["delta"].value == pytest.approx(0.10)
    assert dapo["delta"].method == "Welch t over seeds"
    assert dapo["delta"].resolved
    assert table.columns[1].header == "avg@32 % (95 % interval)"
    notes = " ".join(table.notes)
    assert "Foreign runs (verl: grpo, dapo): scores are as their trainer logged them" in notes
    assert "cap 20480 tokens" in notes
    behaviour = {row["arm"]: row for row in summary_table(results).rows}
    assert behaviour["dapo"]["train_generated_tokens_total"] == 180_000
    assert behaviour["dapo"]["total"] == 320.0
    assert answer_sentences(results)[1].endswith("higher.")
    for each in all_tables(results):
        assert to_markdown(each)


def test_foreign_runs_get_figures_and_a_page(foreign, tmp_path):
    paths = write_answer(foreign, "theirs", tmp_path / "out", formats=("svg",))
    names = {path.name for path in paths}
    assert {"ladder.svg", "accuracy.svg", "entropy.svg", "report.html"} <= names
    page = (tmp_path / "out" / "report.html").read_text()
    assert "foreign.format" in page  # provenance
    assert render_page(results_of(load_experiment(foreign, "theirs")), foreign) == page


def test_runs_are_marked_and_named_by_their_content(foreign, tmp_path):
    store = ResultStore(foreign)
    manifests = store.readable()
    assert {found["status"] for found in manifests} == {"finished"}
    assert {found["labels"]["foreign"] for found in manifests} == {"verl"}
    source = manifests[0]["provenance"]["foreign"]
    assert source["format"] == "verl"
    assert len(source["content_sha256"]) == 64
    copy = tmp_path / "renamed.jsonl"
    copy.write_text((tmp_path / "grpo-0.jsonl").read_text())
    again = import_run(store, Import(copy, "theirs", "grpo", 0, "verl", cap=20480))
    assert not again.new
    assert len(store.run_ids()) == 6


def test_a_copy_is_no_replicate(foreign, tmp_path, said):
    arguments = [f"path={tmp_path / 'grpo-0.jsonl'}", "experiment=theirs", f"runtime.results={foreign}"]
    assert "a copy is no replicate" in said(
        "import_runs", "format=verl", *arguments, "arm=grpo", "seed=7", code=2
    )
    assert main(["import_runs", "format=verl", *arguments, "arm=other", "seed=0"]) == 2


def test_a_training_metric_can_stand_in_for_a_score_and_is_called_one(tmp_path):
    store = ResultStore(tmp_path / "results")
    for arm, level in (("a", 0.5), ("b", 1.5)):
        for seed in range(2):
            path = trl_state(tmp_path / f"{arm}{seed}.json", [0.0, level + seed / 10], every=1)
            import_run(store, Import(path, "rewards", arm, seed, "trl", score="reward_mean", unit="reward"))
    results = results_of(load_experiment(store.root, "rewards"))
    table = main_table(results)
    assert table.columns[1].header == "reward_mean (95 % interval)"
    # the mean of the last ten evaluations there are, over two seeds
    assert table.text()[0][1].startswith("0.275")
    assert "a training metric" in " ".join(table.notes)
    assert "reward (" in answer_sentences(results)[1]


def test_what_cannot_be_imported_says_why(tmp_path, said):
    store = ResultStore(tmp_path / "results")
    bare = trl_state(tmp_path / "s.json", [0.1])
    with pytest.raises(ForeignLogError, match=r"scores found: none; take a training metric"):
        import_run(store, Import(bare, "mine", "a", 0, "trl"))
    two = trl_state(tmp_path / "t.json", [0.1], at={10: {"eval_reward": 0.2, "eval_accuracy": 0.1}})
    with pytest.raises(ForeignLogError, match=r"eval/accuracy, eval/reward; choose one with score="):
        import_run(store, Import(two, "mine", "a", 0, "trl"))
    with pytest.raises(ForeignLogError, match="did you mean 'eval/accuracy'"):
        import_run(store, Import(two, "mine", "a", 0, "trl", score="eval/acuracy"))
    empty = tmp_path / "empty.jsonl"
    empty.write_text("hello\n")
    with pytest.raises(ForeignLogError, match="holds no JSON objects"):
        verl.read(empty)
    with pytest.raises(ForeignLogError, match="cannot read"):
        verl.read(tmp_path / "absent.jsonl")
    assert store.run_ids() == []
    assert "did you mean 'verl'" in said(
        "import_runs", "format=verk", f"path={two}", "experiment=x", "arm=a", "seed=0", code=2
    )
    assert "needs arm=, seed=" in said("import_runs", "format=trl", f"path={two}", "experiment=x", code=2)


def test_an_experiment_of_our_own_takes_no_imports(tmp_path):
    store = ResultStore(tmp_path / "results")
    store.write_plan("ours", {"name": "ours", "arms": []})
    path = trl_state(tmp_path / "t.json", [0.1], at={10: {"eval_accuracy": 0.1}})
    with pytest.raises(ForeignLogError, match="planned by `harness run`"):
        import_run(store, Import(path, "ours", "a", 0, "trl"))


@pytest.mark.parametrize("again", ["train/num_gen_batches", "training/filter_groups/evicted_samples"])
def test_verls_generated_tokens_are_unknown_where_it_threw_groups_away(again):
    logged = {"response_length/mean": 30.0, "prompt_length/mean": 10.0, "perf/total_num_tokens": 400.0}
    assert verl.with_tokens(logged)["generated_tokens"] == 300.0  # three quarters of the tokens are responses
    filtered = verl.with_tokens({**logged, again: 3.0})
    assert "generated_tokens" not in filtered
    assert filtered["trained_tokens"] == 300.0
    steps = [Logged(1, verl.with_tokens(logged)), Logged(2, filtered), Logged(3, verl.with_tokens(logged))]
    rows = Log(steps, verl.TRAINER).rows(responses_per_step=10)
    tokens = [(row.get("generated_tokens"), row.get("generated_tokens_total")) for row in rows]
    assert tokens[0] == (300, 300)
    assert tokens[2] == (300, None)  # what came before is not known
    assert tokens[1] == (None, None)


def test_scores_of_another_unit_are_refused(tmp_path):
    store = ResultStore(tmp_path / "results")
    paths = [trl_state(tmp_path / f"{i}.json", [0.1 + i], at={10: {"eval_reward": 0.8}}) for i in range(3)]
    import_run(store, Import(paths[0], "mine", "a", 0, "trl"))
    import_run(store, Import(paths[1], "mine", "a", 1, "trl", unit="percent"))  # read as a fraction, too
    with pytest.raises(ForeignLogError, match="has scores of unit fraction, this import of unit reward"):
        import_run(store, Import(paths[2], "mine", "b", 0, "trl", unit="reward"))
    assert len(store.run_ids()) == 2


def test_names_that_can_be_no_folder_are_refused_and_arms_keep_their_spelling(tmp_path, said):
    path = trl_state(tmp_path / "t.json", [0.1], at={10: {"eval_accuracy": 0.1}})
    arguments = [
        "import_runs",
        "format=trl",
        f"path={path}",
        "seed=0",
        f"runtime.results={tmp_path / 'results'}",
    ]
    assert "experiment 'a b' must match" in said(*arguments, "experiment=a b", "arm=1e-4", code=2)
    assert main([*arguments, "experiment=rates", "arm=1e-4"]) == 0
    assert ResultStore(tmp_path / "results").plan("rates")["arms"][0]["name"] == "1e-4"
