"""Cells kept on disk: the same tables with and without, and nothing wrong, torn or out of date is ever used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic_store import build_store, make_samples

from analysis.evidence import kept_cells, reduced
from analysis.evidence.kept_cells import kept_run
from analysis.evidence.reduced import Equality, Question, reduce_run
from analysis.evidence.stored_plan import parse_plan
from harness.cli import main
from harness.store import ResultStore

ARM = ("a_0_x", "a", 0.5, 30.0)


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return build_store(tmp_path / "results", rungs=[ARM, ("a_1_y", "b", 0.6, 40.0)], seeds=(0, 1), n=4)


def printed(store: ResultStore, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["report", "experiment=ladder", f"runtime.results={store.root}", "only=table"]) == 0
    return capsys.readouterr().out


def kept(store: ResultStore) -> list[Path]:
    return sorted((store.root / "cache" / "cells").iterdir())


def count_reductions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    counted: list[str] = []

    def counting(run, *rest):
        counted.append(run.run_id)
        return reduced.reduce_benchmark(run, *rest)

    monkeypatch.setattr(kept_cells, "reduce_benchmark", counting)
    return counted


def cells(store: ResultStore, reduce=kept_run, curves: bool = False):
    plan = parse_plan(store.plan("ladder"))
    with Equality() as equality:
        question = Question(plan, curves, frozenset(), equality)
        return {
            run: {"arithmetic_heldout": reduce(store, run, "arithmetic_heldout", question)}
            for run in store.run_ids()
        }


def test_tables_are_the_same_bytes_with_and_without_what_is_kept(store, capsys, monkeypatch, tmp_path):
    counted = count_reductions(monkeypatch)
    first = printed(store, capsys)
    assert (len(counted), len(kept(store))) == (4, 4)
    assert printed(store, capsys) == first
    assert len(counted) == 4  # nothing was reduced again
    written = []
    for _ in range(2):
        out = tmp_path / f"out{len(written)}"
        assert (
            main(
                ["report", "experiment=ladder", f"runtime.results={store.root}", "only=tables", f"out={out}"]
            )
            == 0
        )
        written.append({path.name: path.read_bytes() for path in (out / "tables").iterdir()})
    assert written[0] == written[1]
    assert len(counted) == 8  # every k of a written table is another question, kept beside the first


def test_kept_cells_are_those_of_the_samples_to_the_last_bit(store):
    fresh = cells(store, reduce_run, curves=True)
    for found in (cells(store, curves=True), cells(store, curves=True)):  # the second is read from the disk
        for run_id, by_benchmark in fresh.items():
            for benchmark, expected in by_benchmark.items():
                mine = found[run_id][benchmark]
                pd.testing.assert_frame_equal(mine.frame, expected.frame, check_exact=True)
                assert (mine.problem_ids, mine.refused) == (expected.problem_ids, expected.refused)
                assert mine.problem_avg.keys() == expected.problem_avg.keys()
                for place, values in expected.problem_avg.items():
                    np.testing.assert_array_equal(mine.problem_avg[place], values)


@pytest.mark.parametrize("damage", ["empty", "torn", "foreign", "altered", "deleted", "another question's"])
def test_a_file_that_is_not_right_is_ignored_and_written_again(store, capsys, monkeypatch, damage):
    first = printed(store, capsys)
    right = [path.read_bytes() for path in kept(store)]
    for path, text in zip(kept(store), right, strict=True):
        if damage == "deleted":
            path.unlink()
            continue
        place = text.index(b'"avg": ') + len('"avg": ')
        wrong = {
            "empty": b"",
            "torn": text[: len(text) // 2],
            "foreign": b"{}\n",
            "altered": text[:place] + b"9" + text[place + 1 :],
            "another question's": b"0" + text[1:] if text[:1] != b"0" else b"1" + text[1:],
        }
        path.write_bytes(wrong[damage])
    counted = count_reductions(monkeypatch)
    assert printed(store, capsys) == first
    assert (len(counted), [path.read_bytes() for path in kept(store)]) == (4, right)


def test_other_samples_and_other_sources_are_reduced_anew(store, monkeypatch):
    cells(store)
    counted = count_reductions(monkeypatch)
    run_id = store.run_ids()[0]
    (*_, last) = store.run(run_id).sample_steps("arithmetic_heldout")
    frames = [make_samples(np.random.default_rng(9), 0.9, 24, 4, cap) for cap in (32, 64)]
    store.run(run_id).write_samples("arithmetic_heldout", 1, last, pd.concat(frames, ignore_index=True))
    assert (
        cells(store)[run_id]["arithmetic_heldout"].rows
        == cells(store, reduce_run)[run_id]["arithmetic_heldout"].rows
    )
    assert counted == [run_id]
    monkeypatch.setattr(kept_cells, "_version", lambda: "other sources")
    cells(store)
    assert len(counted) == 5


def formulas(store: ResultStore) -> str:
    """Make the answers of one run formulas, and return its id."""
    run_id = store.run_ids()[0]
    run = store.run(run_id)
    for step in run.sample_steps("arithmetic_heldout"):
        frame = run.samples("arithmetic_heldout", step)
        frame["answer"] = frame["answer"].map({"0": "1/2", "1": "0.5", "2": "x+1", "3": "1+x"})
        run.write_samples("arithmetic_heldout", 1, step, frame)
    return run_id


def test_cells_that_asked_the_verifier_belong_to_its_version(store, monkeypatch):
    run_id = formulas(store)
    expected = cells(store, reduce_run)[run_id]["arithmetic_heldout"].rows
    assert cells(store)[run_id]["arithmetic_heldout"].rows == expected
    verifiers = {
        path.name[:16]: json.loads(path.read_bytes().split(b"\n")[1])["verifier"] for path in kept(store)
    }
    assert verifiers.pop(run_id)
    assert set(verifiers.values()) == {None}  # integers need none
    counted = count_reductions(monkeypatch)
    cells(store)
    monkeypatch.setattr("harness.verify.verifier._versions", lambda config: {"sympy": "another"})
    cells(store)
    assert counted == [run_id]


def test_what_ran_out_of_time_is_not_kept(store, monkeypatch):
    run_id = formulas(store)
    asked = Equality.__call__

    def late(self, a, b):
        found = asked(self, a, b)
        self.verifier.unsettled += 1
        return found

    monkeypatch.setattr(Equality, "__call__", late)
    cells(store)
    assert [path.name[:16] for path in kept(store)] == store.run_ids()[1:]
    assert run_id not in {path.name[:16] for path in kept(store)}


def test_a_root_that_cannot_keep_anything_still_gives_its_tables(store, capsys):
    first = printed(store, capsys)
    for path in kept(store):
        path.unlink()
    (store.root / "cache" / "cells").rmdir()
    (store.root / "cache" / "cells").write_text("in the way")
    assert printed(store, capsys) == first


def test_a_table_loads_no_verifier_and_no_distributions(store):
    code = (
        "import sys; from harness.cli import main; main(sys.argv[1:]);"
        "print([name for name in ('scipy.stats', 'scipy.optimize', 'harness.verify', 'matplotlib') if name in sys.modules])"
    )
    arguments = [
        sys.executable,
        "-c",
        code,
        "report",
        f"runtime.results={store.root}",
        "experiment=ladder",
        "only=table",
    ]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
