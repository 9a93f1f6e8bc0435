"""`harness evaluate model=`: the training run's own numbers, resuming, several models, other architectures, clear errors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "rollout"))

from engine_support import cases
from evaluation_support import ANSWERS, KEY, evaluate, first_cell, samples_of
from small_runs import finished, small_config
from verbs import Said

from harness.cli import main
from harness.configuration.schema import load
from harness.evaluation import checkpoints as compare
from harness.evaluation.stored import problem_texts
from harness.problems.problem import load_benchmark
from harness.store import ResultStore, RunDir
from harness.store.layout import CONFIG


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDir, ResultStore]:
    """A run of four steps, evaluated before, between and after."""
    root = tmp_path_factory.mktemp("results")
    return finished(small_config(runtime__results=str(root)), root), ResultStore(root)


@pytest.fixture
def asked(base_policy: Path, chains: Path) -> list[str]:
    """An evaluation of the base policy."""
    return [f"model={base_policy}", f"data.path={chains}", "template=plain", "evaluation.caps=[16]"]


def test_a_run_by_its_id_gives_its_own_evaluation_sample_for_sample(trained: tuple[RunDir, ResultStore]) -> None:
    run, store = trained
    result = evaluate(store.root, f"model={run.run_id}@0,{run.run_id}", "runtime.linear_kernel=torch")
    assert [(cell["model"], cell["cap"]) for cell in result["cells"]] == [
        (f"{run.run_id}@0", 12), (f"{run.run_id}@0", 24), (run.run_id, 12), (run.run_id, 24)
    ]  # fmt: skip
    for cell in result["cells"]:
        step = 0 if "@0" in cell["model"] else 4
        own = run.samples("arithmetic_heldout", step).sort_values(KEY, ignore_index=True)
        pd.testing.assert_frame_equal(samples_of(store.root, cell), own)
        assert cell["avg"] == own[own["max_response_tokens"] == cell["cap"]]["correct"].mean()
    asked = problem_texts(run, "arithmetic_heldout")
    expected = load_benchmark(
        load(yaml.safe_load((run.path / CONFIG).read_text())).evaluation.benchmarks["arithmetic_heldout"]
    ).problems
    assert [(p.id, p.prompt, p.gold) for p in asked.values()] == [(p.id, p.prompt, p.gold) for p in expected]
    assert problem_texts(run, "other") == {}


def test_the_policys_folder_gives_the_same_numbers(trained: tuple[RunDir, ResultStore]) -> None:
    run, store = trained
    by_id = evaluate(store.root, f"model={run.run_id[:6]}", "runtime.linear_kernel=torch")
    folder = run.checkpoints()[-1][1] / "policy"
    for path in (folder, folder.parent, run.path):
        by_folder = evaluate(store.root, f"model={path}", "runtime.linear_kernel=torch")
        assert by_folder["id"] == by_id["id"]
        assert [c["samples"] for c in by_folder["cells"]] == [c["samples"] for c in by_id["cells"]]


def test_more_samples_keep_the_ones_that_exist(asked: list[str], tmp_path: Path) -> None:
    few = first_cell(tmp_path, *asked, "evaluation.samples_per_problem=2")
    first = samples_of(tmp_path, few)
    more = first_cell(tmp_path, *asked, "evaluation.samples_per_problem=5")
    assert more["samples"] == few["samples"]
    assert (few["n_samples"], more["n_samples"]) == (8, 20)
    kept = samples_of(tmp_path, more)
    pd.testing.assert_frame_equal(kept[kept["sample_index"] < 2].reset_index(drop=True), first)
    again = first_cell(tmp_path, *asked, "evaluation.samples_per_problem=2")
    assert again["avg"] == few["avg"]


def test_an_interrupted_evaluation_goes_on_from_its_parts(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "_ROWS_PER_PART", 3)
    asked += ["evaluation.samples_per_problem=3"]
    whole = samples_of(tmp_path / "whole", first_cell(tmp_path / "whole", *asked))
    write, written = compare.write_part, []

    def dies_after_two(*given: Any) -> None:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(given)
        write(*given)

    monkeypatch.setattr(compare, "write_part", dies_after_two)
    command = ["evaluate", *asked, f"runtime.results={tmp_path / 'torn'}"]
    assert main(command) == 75
    monkeypatch.setattr(compare, "write_part", write)
    made: list[int] = []
    generate = compare.graded_table
    monkeypatch.setattr(
        compare, "graded_table", lambda rows, *rest: made.append(len(rows.problems)) or generate(rows, *rest)
    )
    cell = first_cell(tmp_path / "torn", *asked)
    assert sum(made) == 2
    pd.testing.assert_frame_equal(samples_of(tmp_path / "torn", cell), whole)


def test_a_part_that_is_not_what_was_written_is_made_again(
    asked: list[str], tmp_path: Path, said: Said, capsys: pytest.CaptureFixture[str]
) -> None:
    asked += ["evaluation.samples_per_problem=3"]
    cell = first_cell(tmp_path, *asked)
    whole, folder = samples_of(tmp_path, cell), tmp_path / cell["samples"]
    for part in folder.glob("part-*.parquet"):
        part.write_bytes(part.read_bytes()[:-40] + bytes(40))
    told = said("compare", str(folder), str(folder.parent), f"runtime.results={tmp_path}", code=2)
    assert "is not what was written" in told
    capsys.readouterr()
    again = first_cell(tmp_path, *asked)
    assert "is not what was written: part-000000.parquet has other content; it is made again" in capsys.readouterr().err
    pd.testing.assert_frame_equal(samples_of(tmp_path, again), whole)
    (folder / "about.json").write_text("{}")
    told = said("evaluate", *asked, f"runtime.results={tmp_path}", code=2)
    assert "about.json has 2 bytes" in told
    assert "delete the folder" in told


def test_an_architecture_the_native_engine_lacks_is_evaluated_all_the_same(
    base_policy: Path, chains: Path, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    tokenizer = AutoTokenizer.from_pretrained(base_policy)
    folder = tmp_path / "gpt2"
    sizes = {"n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2}
    GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), eos_token_id=1, bos_token_id=1, **sizes)).save_pretrained(
        folder
    )
    tokenizer.save_pretrained(folder)
    arguments = [f"model={base_policy},{folder}", f"data.path={chains}", "template=plain"]
    result = evaluate(tmp_path, *arguments, "evaluation.caps=[8]", "evaluation.samples_per_problem=2")
    assert [cell["settings"]["engine"] for cell in result["cells"]] == ["native", "transformers"]
    table = (tmp_path / "evaluations" / result["id"] / "evaluation.csv").read_text().splitlines()
    assert len(table) == 3
    assert table[0].startswith("model,benchmark,cap,problems,samples,avg,avg_low")


@pytest.mark.parametrize("name", cases("vllm"))
def test_vllm_evaluates_a_checkpoint_as_the_native_engine_does(name: str, asked: list[str], tmp_path: Path) -> None:
    """Greedy: no noise separates the engines."""
    asked += ["evaluation.temperature=0.0", "evaluation.top_p=1.0", "evaluation.samples_per_problem=2"]
    native, other = (first_cell(tmp_path, *asked, f"engine={engine}") for engine in ("native", name))
    assert other["settings"]["engine"] == name
    pd.testing.assert_frame_equal(samples_of(tmp_path, other)[ANSWERS], samples_of(tmp_path, native)[ANSWERS])


def test_stored_samples_of_a_model_and_of_a_run_are_regraded(trained: tuple[RunDir, ResultStore], said: Said) -> None:
    run, store = trained
    result = evaluate(store.root, f"model={run.run_id}", "runtime.linear_kernel=torch")
    for name in (run.run_id, f"{run.run_id[:6]}@4", str(store.root / "evaluations" / result["id"])):
        told = said("evaluate", f"regrade={name}", "verifier=boxed", f"runtime.results={store.root}")
        assert "arithmetic_heldout" in told
        assert "cap 24: 0 of 24 verdicts changed" in told


def test_an_evaluation_written_elsewhere_is_regraded_from_the_stores_samples(
    asked: list[str], tmp_path: Path, said: Said
) -> None:
    store, out = tmp_path / "results", tmp_path / "elsewhere" / "out"
    asked += ["evaluation.samples_per_problem=2", f"out={out}"]
    assert main(["evaluate", *asked, f"runtime.results={store}"]) == 0
    again = ["evaluate", f"regrade={out}", "verifier=answer_line"]
    assert "0 of 8 verdicts changed" in said(*again, f"runtime.results={store}")
    assert "runtime.results=DIR" in said(*again, f"runtime.results={tmp_path / 'other'}", code=2)


def test_a_budget_beyond_the_models_positions_is_refused_with_the_fix(
    asked: list[str], tmp_path: Path, said: Said
) -> None:
    told = said("evaluate", *asked[:-1], f"runtime.results={tmp_path}", code=2)  # without a cap
    assert "has 256 positions" in told
    assert "set evaluation.caps=[242]" in told


def test_a_k_above_the_samples_is_refused_before_they_are_made(
    asked: list[str], tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(compare, "sample_missing")
    asked += ["evaluation.samples_per_problem=2", "ks=[1,4]", f"runtime.results={tmp_path}"]
    assert "ks=[1, 4] must lie between 1 and the 2 samples of a problem" in said("evaluate", *asked, code=2)


def test_a_chat_template_that_does_not_exist_is_named(asked: list[str], tmp_path: Path, said: Said) -> None:
    asked.remove("template=plain")
    told = said("evaluate", *asked, f"runtime.results={tmp_path}", code=2)
    assert "has no chat template; choose a template for base models: plain" in told


def test_an_unreachable_hub_is_one_line_with_a_fix(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def unreachable(*_: object, **__: object) -> str:
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    given = ["model=some/model", "benchmark=aime24", f"runtime.results={tmp_path}"]
    told = said("evaluate", *given, code=2)
    assert "cannot be fetched from the Hub: Name or service not known" in told
