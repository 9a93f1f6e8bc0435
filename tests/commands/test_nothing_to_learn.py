"""A policy that answers nothing right: `plan` says so where it is asked, and a run after its first evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_runs import SMALL
from verbs import Said

# One token is no answer.
ASKED = ["-m", "algorithm=grpo", "seed=0,1", *SMALL, "sampling.max_response_tokens=1", "training.steps=1"]
REMEDY = "is right, so there is nothing to learn from rewards; use easier problems"


def test_plan_asks_the_policy_before_training_on_request(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    results = f"runtime.results={tmp_path}"
    told = said("plan", "--sample", *ASKED, results)
    assert "before training, all arms: 0 % of 128 answers are right" in told
    assert "of 32 groups of 4 0 % are mixed, 0 % all right, 100 % all wrong" in told
    assert f"warning: no answer to 32 training problems {REMEDY}" in told
    assert "before training" not in said("plan", *ASKED, results)


def test_a_run_says_it_after_its_first_evaluation_and_once_for_all(said: Said, tmp_path: Path) -> None:
    told = said("run", "--no-answer", *ASKED, f"runtime.results={tmp_path}")
    assert told.count(f"warning: before RL no answer on arithmetic_heldout {REMEDY}") == 1
    assert "2 finished" in told
