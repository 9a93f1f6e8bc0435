"""Deliberate faults in the sampler and the loss are found by the shipped reference points; intact code is inside them."""

from __future__ import annotations

from pathlib import Path

import numbers_support as support
import pytest

from harness.execution.numbers import protocol
from harness.execution.numbers.compare import Finding, Found, compare
from harness.execution.numbers.measured import LOG_PROBS, measured
from harness.execution.numbers.reference import read_reference
from harness.store import ResultStore

# What must be out, by fault: an arm's statistic of the first step.
CAUGHT_BY = {
    "temperature 1.2": {
        "grpo, first step: accuracy, difference",
        "grpo, first step: response tokens, difference",
    },
    "negative advantages flipped": {"grpo, first step: gradient norm, difference"},
    "one response flipped": {"grpo, first step: loss, difference"},
    "mask ends early": {"grpo, first step: loss, difference"},
    "mask begins late": {"cispo_refill, first step: gradient norm, difference"},
}


def first_step_findings(root: Path) -> dict[str, Finding]:
    """The comparisons of the first step, with two seeds trained for one step in this process."""
    reference = read_reference()
    configs = protocol.check_configs([f"runtime.results={root}", "runtime.device=cpu"])
    runs: dict[str, dict[int, dict[str, float]]] = {arm: {} for arm in configs}
    for (arm, seed), spec in protocol.specs(configs, (0, 1)).items():
        runs[arm][seed] = measured(support.train(ResultStore(root), support.shorter(spec.config, 1)))
    found = Found(runs, {0: reference.log_probs[0]})
    return {finding.name: finding for finding in compare(found, reference) if "first step" in finding.name}


def test_intact_code_is_inside(tmp_path: Path) -> None:
    findings = first_step_findings(tmp_path)
    assert len(findings) == 10
    assert [finding for finding in findings.values() if not finding.inside] == []


@pytest.mark.parametrize("fault", support.FAULTS)
def test_a_fault_is_outside(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    support.break_with(fault, monkeypatch)
    outside = {name for name, finding in first_step_findings(tmp_path).items() if not finding.inside}
    assert outside >= CAUGHT_BY[fault]
    if fault != "temperature 1.2":  # the sampler is intact: its responses are the reference's
        assert not any("tokens" in name or "accuracy" in name for name in outside)


def test_a_coarser_forward_is_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from harness.model.policy import NativePolicy
    from harness.training.base_log_probs import base_log_probs

    configs = protocol.check_configs([f"runtime.results={tmp_path}", "runtime.device=cpu"])
    reference = read_reference()

    def finding() -> Finding:
        values = {0: base_log_probs(configs["grpo"], tmp_path / "cache", 64)}
        runs = {arm: {0: reference.runs[arm][0]} for arm in configs}
        return next(
            item for item in compare(Found(runs, values), reference) if item.name.startswith(LOG_PROBS)
        )

    assert finding().inside
    exact = NativePolicy.response_hidden

    def rounded(self: NativePolicy, *arguments: object) -> torch.Tensor:
        return exact(self, *arguments).bfloat16().float()  # type: ignore[arg-type]

    monkeypatch.setattr(NativePolicy, "response_hidden", rounded)
    assert not finding().inside


@pytest.mark.slow
@pytest.mark.parametrize("fault", [None, "negative advantages flipped"])
def test_whole_runs_are_told_apart_by_what_they_learn(
    fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the first step, as for an engine whose noise is its own: only prediction intervals speak."""
    support.break_with(fault, monkeypatch)
    configs = protocol.check_configs([f"runtime.results={tmp_path}", "runtime.device=cpu"])
    runs: dict[str, dict[int, dict[str, float]]] = {arm: {} for arm in configs}
    for (arm, seed), spec in protocol.specs(configs, protocol.CHECK_SEEDS).items():
        runs[arm][seed] = measured(support.train(ResultStore(tmp_path), spec))
    reference = read_reference()
    findings = compare(Found(runs, {0: reference.log_probs[0]}, own_noise=True), reference)
    assert all(finding.inside for finding in findings) == (fault is None)
