"""What an import may change in the plan of a foreign experiment: nothing that another one said, and never without a word."""

from __future__ import annotations

import subprocess
import sys

import pytest
from import_support import import_of, write_verl

from harness.cli import main
from harness.exchange.importers import _store
from harness.exchange.importers._store import Import, import_run
from harness.store import ResultStore, RunClaimed, lease


def test_another_log_for_a_seed_is_refused_and_loses_nothing(foreign, tmp_path, capsys):
    path = write_verl(tmp_path / "forgot-its-seed.jsonl", final=0.7)
    arguments = import_of(path, foreign, "theirs", "grpo")
    store = ResultStore(foreign)
    before, count = store.plan("theirs"), len(store.run_ids())
    held = before["arms"][0]["runs"]["0"]
    assert main([*arguments, "seed=0"]) == 2
    assert (
        f"arm grpo, seed 0 of experiment 'theirs' is run {held}, another log than" in capsys.readouterr().err
    )
    assert store.plan("theirs") == before
    assert len(store.run_ids()) == count
    assert main([*arguments, "seed=0", "replace=true"]) == 0
    assert f"in the place of run {held}" in capsys.readouterr().out
    assert store.plan("theirs")["arms"][0]["runs"]["0"] != held


def test_imports_at_the_same_time_keep_each_others_arms(tmp_path):
    root, code = (
        tmp_path / "results",
        "import sys; from harness.cli import main; sys.exit(main(sys.argv[1:]))",
    )
    running = []
    for arm in "abcd":
        path = write_verl(tmp_path / f"{arm}.jsonl", final=0.3 + ord(arm) / 1000)
        arguments = import_of(path, root, "x", arm, "seed=0")
        running.append(subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL))
    assert [process.wait() for process in running] == [0] * 4
    assert sorted(arm["name"] for arm in ResultStore(root).plan("x")["arms"]) == list("abcd")


def test_an_import_waits_for_the_one_that_changes_the_plan(tmp_path, monkeypatch):
    store = ResultStore(tmp_path / "results")
    monkeypatch.setattr(_store, "PATIENCE_SECONDS", 0.0)
    path = write_verl(tmp_path / "a.jsonl", final=0.5)
    with lease.acquire(store.root / "experiments" / "x" / "claim.lock"), pytest.raises(RunClaimed):
        import_run(store, Import(path, "x", "a", 0, "verl"))
    assert store.run_ids() == []
    assert import_run(store, Import(path, "x", "a", 0, "verl")).new


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("parent=nope", "parent=nope is no arm yet"),
        (
            "parent=dapo",
            "arm grpo of experiment 'theirs' is the one that others are compared with, this import says parent=dapo",
        ),
        ("cap=1024", "experiment 'theirs' has cap=20480, this import says cap=1024"),
        ("paired=true", "experiment 'theirs' has paired=false, this import says paired=true"),
        ("title=Others", None),
        ("label=GRPO", None),
        ("cap=20480", None),
        ("paired=false", None),
    ],
)
def test_what_a_later_import_says_is_taken_over_or_refused(foreign, tmp_path, capsys, said, message):
    path = write_verl(tmp_path / "late.jsonl", final=0.6)
    arguments = import_of(path, foreign, "theirs", "grpo", "seed=9")
    plan = ResultStore(foreign).plan("theirs")
    assert main([*arguments, said]) == (2 if message else 0)
    after = ResultStore(foreign).plan("theirs")
    if message is not None:
        assert message in capsys.readouterr().err
        assert after == plan
    if said == "title=Others":
        assert after["title"] == "Others"
        assert main([*arguments, "title=Mine"]) == 2
        assert "has title=Others, this import says title=Mine" in capsys.readouterr().err
        assert main([*arguments, "title=Mine", "replace=true"]) == 0
        assert ResultStore(foreign).plan("theirs")["title"] == "Mine"
    if said == "label=GRPO":
        assert after["arms"][0]["label"] == "GRPO"
        assert main([*arguments, "label=Naive"]) == 2
        assert "arm grpo has label=GRPO, this import says label=Naive" in capsys.readouterr().err
