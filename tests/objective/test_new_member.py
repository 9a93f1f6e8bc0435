"""A new surrogate is one Python file and one YAML: checks, engagement and explain know it, and no list is edited."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness.objective.surrogate as family
from harness.configuration.compose import config_dir
from harness.configuration.registry import kinds
from harness.experiment.checks import check_plan
from harness.experiment.declaration import as_file
from harness.experiment.planning import plan_experiment
from harness.explain.shares import explain_one, make_group

MEMBER = '''
"""A bounded weight: -sg(min(ρ, cap)) A log π."""
from dataclasses import dataclass

from harness.objective.surrogate import Surrogate


@dataclass
class Config(Surrogate):
    kind: str = "throw_away"
    cap: float = 1.5
    far_tokens = "kept"
    ratio_keys = ("cap",)

    def token_loss(self, logprobs_N, log_ratio_N, batch):
        return -log_ratio_N.detach().exp().clamp(max=self.cap) * batch.advantages_N * logprobs_N

    def clipped(self, logprobs_N, ratio_N, batch):
        return ratio_N != ratio_N, ratio_N > self.cap
'''
EXPERIMENT = as_file("""\
name: mine
title: A new surrogate
question: Does it do anything?
design: arms
seeds: [0, 1]
overrides: [algorithm.updates_per_step=1]
arms:
  - {name: clip, overrides: []}
  - {name: cap, parent: clip, overrides: [algorithm/surrogate=throw_away]}
  - {name: wider, parent: cap, overrides: [algorithm/surrogate=throw_away, algorithm.surrogate.cap=3]}
""")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The two files of the member, and an experiment with it."""
    files = {
        "python/throw_away.py": MEMBER,
        "conf/algorithm/surrogate/throw_away.yaml": "kind: throw_away\ncap: 1.5\n",
        "conf/experiment/mine.yaml": EXPERIMENT,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(family, "__path__", [*family.__path__, str(tmp_path / "python")])
    kinds.cache_clear()
    yield tmp_path / "conf"
    kinds.cache_clear()
    sys.modules.pop(f"{family.__name__}.throw_away", None)


def test_checks_engagement_and_explain_know_a_new_surrogate(folder: Path) -> None:
    with config_dir(str(folder)):
        plan = plan_experiment(["experiment=mine"])
    found = {(finding.arm, finding.check) for finding in check_plan(plan)}
    # with one update a step the ratio is 1: the member does nothing of its own, and its cap is inert
    assert {("cap", "inert clip"), ("wider", "nothing that matters changes")} <= found
    (measure,) = plan.arm("cap").engagement
    assert (measure.name, measure.arm) == ("tokens clipped", "clip")
    algorithm = plan.arms[1].config.algorithm
    group = make_group([1.0, 0.0], [3, 3], [-1.0, -1.0], [0.0, -1.0])  # a ratio of e, cut to 1.5
    assert [rollout.share for rollout in explain_one(group, algorithm)] == pytest.approx([0.6, 0.4])
