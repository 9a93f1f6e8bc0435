"""The check around the statistics: what may be overridden, which reference points it takes, where its runs go, what it reports."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numbers_support as support
import pytest

import harness.commands.doctor as doctor
from harness.cli import main
from harness.configuration.error import ConfigError
from harness.execution.numbers import check, make_reference, protocol
from harness.execution.numbers import reference as reference_file
from harness.execution.numbers.compare import Finding, Found, compare
from harness.execution.numbers.reference import FILE, Reference, read_reference
from harness.execution.supervise import Summary
from harness.store import ResultStore


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["training.steps=9"], "training.steps"),
        (["algorithm=dapo"], "algorithm"),
        (["task.problems=100"], "task.problems"),
        (["model.bases.first=8"], "model.bases.first"),
        (["seed=3"], "seeds of its own"),
        (["experiment=dapo_ladder"], "seeds of its own"),
        (["engine=replay", "engine.path=nowhere.jsonl"], "does not sample from the policy"),
        (["engine=nativ"], "native"),
        (["launcher=slurm"], "launcher=local"),
    ],
)
def test_what_changes_the_comparison_or_cannot_run_is_refused(
    overrides: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "numbers=true", f"runtime.results={tmp_path}", *overrides]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.glob("doctor-*")) == []


@pytest.mark.parametrize("given", [["numbers=maybe"], ["numbers=true", "numbers=false"], ["numbers=3"]])
def test_numbers_is_true_or_false(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", f"runtime.results={tmp_path}", *given]) == 2
    assert "true or false" in capsys.readouterr().err


def test_numbers_false_is_the_doctor_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", f"runtime.results={tmp_path}", "numbers=false"])
    assert "writable" in capsys.readouterr().out


def test_engines_and_devices_pass_through() -> None:
    configs = protocol.check_configs(["engine=transformers", "runtime.threads=2"])
    assert {config.engine.kind for config in configs.values()} == {"transformers"}
    assert {config.runtime.threads for config in configs.values()} == {2}
    assert not protocol.own_noise(configs["grpo"])
    assert protocol.own_noise(protocol.check_configs(["engine=vllm"])["grpo"])


# ---- reference points ----------------------------------------------------------------------------------------------------------


def test_the_shipped_reference_points_belong_to_this_package() -> None:
    reference = read_reference()
    assert set(reference.runs) == set(protocol.ARMS)
    assert all(sorted(runs) == list(protocol.REFERENCE_SEEDS) for runs in reference.runs.values())
    assert sorted(reference.log_probs) == list(range(8))
    assert {len(values) for values in reference.log_probs.values()} == {check.FIXED_RESPONSES}
    assert set(protocol.CHECK_SEEDS) <= set(protocol.REFERENCE_SEEDS)
    assert reference.made_with["packages"]["torch"]


@pytest.mark.parametrize(
    ("key", "change", "words"),
    [
        ("bases", lambda value: value[::-1], "other base policies"),
        ("problems", lambda value: dict.fromkeys(value, "0"), "other problems"),
        ("arms", lambda value: dict.fromkeys(value, "0"), "other run configurations"),
        ("version", lambda value: value + 1, "another protocol"),
    ],
)
def test_foreign_reference_points_are_refused_with_the_fix(
    key: str, change: Any, words: str, tmp_path: Path
) -> None:
    values = json.loads(FILE.read_text())
    path = tmp_path / "reference.json"
    path.write_text(json.dumps({**values, key: change(values[key])}))
    with pytest.raises(ConfigError, match=f"{words}.*make_reference"):
        read_reference(path)


@pytest.mark.parametrize("text", [None, "{", "[]", '{"version": 1}'])
def test_absent_and_damaged_reference_points_are_refused(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "reference.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match="make_reference"):
        read_reference(path)


# ---- comparisons ---------------------------------------------------------------------------------------------------------------


def as_found(reference: Reference, seeds: Sequence[int] = protocol.CHECK_SEEDS, **changes: Any) -> Found:
    """What a check finds whose runs are the reference's own."""
    runs = {arm: {seed: dict(all_runs[seed]) for seed in seeds} for arm, all_runs in reference.runs.items()}
    return Found(runs, {base: reference.log_probs[base] for base in range(4)}, **changes)


def test_the_reference_s_own_runs_are_inside() -> None:
    reference = read_reference()
    findings = compare(as_found(reference), reference)
    assert len(findings) == 2 + 2 * (5 + 4)
    assert all(finding.inside for finding in findings)
    # As seeds that nobody has seen: every four of the others.
    for first in range(0, 24, 4):
        fresh = as_found(reference, range(first, first + 4), own_noise=True)
        assert all(finding.inside for finding in compare(fresh, reference))


def test_one_run_that_rounding_sent_elsewhere_is_no_finding_and_two_are() -> None:
    reference = read_reference()
    found = as_found(reference)
    found.runs["grpo"][0]["loss"] += 1.0  # type: ignore[index]
    assert all(finding.inside for finding in compare(found, reference))
    found.runs["grpo"][1]["loss"] += 1.0  # type: ignore[index]
    outside = [finding for finding in compare(found, reference) if not finding.inside]
    assert [finding.name for finding in outside] == ["grpo, first step: loss, difference"]
    assert outside[0].beyond == pytest.approx(0.5, abs=0.01)
    assert "response mask" in outside[0].meaning


def test_an_outcome_far_from_the_spread_is_outside_and_nan_too() -> None:
    reference = read_reference()
    for value in (0.9, float("nan")):
        found = as_found(reference)
        for run in found.runs["cispo_refill"].values():
            run["score"] = value  # type: ignore[index]
        outside = [finding.name for finding in compare(found, reference) if not finding.inside]
        assert outside == ["cispo_refill: score after training"]


def test_an_engine_with_noise_of_its_own_is_compared_in_distribution() -> None:
    reference = read_reference()
    findings = compare(as_found(reference, own_noise=True), reference)
    assert len(findings) == 2 + 2 * 9
    assert not any("difference" in finding.name for finding in findings[2:])


# ---- the whole way, with runs of one step in this process ----------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The protocol cut to one step, two check seeds and four reference seeds, and reference points of its own."""
    common = [item for item in protocol.COMMON if not item.startswith("training.")]
    common += [
        "training.steps=1",
        "training.evaluate_every=1",
        "evaluation.benchmarks.arithmetic_heldout.problems=4",
    ]
    monkeypatch.setattr(protocol, "COMMON", tuple(common))
    monkeypatch.setattr(protocol, "CHECK_SEEDS", (0, 1))
    monkeypatch.setattr(protocol, "REFERENCE_SEEDS", (0, 1, 8, 9))

    def here(runs: Sequence[Any], store: ResultStore, *_: Any, **__: Any) -> Summary:
        for spec in runs:
            support.train(store, spec)
        return Summary(finished=[spec.run_id for spec in runs])

    monkeypatch.setattr(check, "dispatch_runs", here)
    out = tmp_path / "reference.json"
    assert make_reference.main([str(out), "--results", str(tmp_path / "reference-runs")]) == 0
    monkeypatch.setattr(check, "read_reference", lambda: reference_file.read_reference(out))
    return tmp_path


def test_the_check_leaves_the_users_store_alone(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ResultStore(small / "results")
    command = ["doctor", "numbers=true", f"runtime.results={store.root}", "runtime.device=cpu"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "20 of 20 statistics lie inside" in printed
    assert "OUTSIDE" not in printed
    assert store.run_ids() == []
    assert store.plans() == []
    assert list(store.root.glob("doctor-*")) == []

    support.break_with("negative advantages flipped", monkeypatch)
    assert main(command) == 1
    printed = capsys.readouterr().out
    assert "OUTSIDE" in printed
    assert "response mask" in printed
    assert store.run_ids() == []
    (kept,) = store.root.glob("doctor-*")
    assert len(ResultStore(kept).run_ids()) == 4  # for a look
    assert str(kept) in printed


# ---- the report ----------------------------------------------------------------------------------------------------------------


def reported(summary: Summary, findings: list[Finding], monkeypatch: pytest.MonkeyPatch) -> int:
    outcome = check.Outcome(findings, summary, Path("results/doctor"), read_reference())
    monkeypatch.setattr(doctor, "check_numbers", lambda *_: outcome)
    return main(["doctor", "numbers=true"])


def test_exit_codes_and_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    inside = Finding("grpo: score", 0.5, 0.4, 0.6, "a meaning")
    assert reported(Summary(finished=["a"]), [inside], monkeypatch) == 0
    assert "a meaning" not in capsys.readouterr().out
    outside = dataclasses.replace(inside, value=0.75)
    assert reported(Summary(finished=["a"]), [inside, outside], monkeypatch) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "0.75, 0.15 outside 0.4 to 0.6. a meaning" in printed
    assert "1 of 2 statistics lie inside" in printed
    assert "at most 1%" in printed
    failed = Summary(failed=["a"], errors={"a": "Traceback\nValueError: no"})
    assert reported(failed, [], monkeypatch) == 1
    assert "run a failed: ValueError: no" in capsys.readouterr().out
    assert reported(Summary(interrupted=["a"]), [], monkeypatch) == 75
