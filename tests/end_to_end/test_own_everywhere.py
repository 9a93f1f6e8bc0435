"""Every kind of member of one's own in one run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from random_model import random_checkpoint
from verbs import harness_here

from harness.model.shapes import SHAPES
from tests.configuration.test_own_members import write

HEAD = "from dataclasses import dataclass\n\n\n@dataclass\nclass Config:\n    kind: str = '{kind}'\n"
TRACKER = """

def open_sink(config, about):
    return Lines(about.results / "tracked.txt", f"{about.experiment} {about.arm} {about.seed}")


class Lines:
    def __init__(self, path, name):
        self.path, self.name = path, name

    def log(self, step, metrics):
        with self.path.open("a") as file:
            file.write(f"{self.name} step {step} {len(metrics) > 20}\\n")

    def close(self, finished):
        pass
"""
SUMS = """    first: int = 0
    problems: int = 32


def load(config):
    from harness.problems.problem import Benchmark, Problem
    numbers = range(config.first, config.first + config.problems)
    return Benchmark("sums", 1, [Problem(f"sums/{n}", f"{n // 8 % 8}+{n % 8}:", str((n // 8 + n) % 8)) for n in numbers])
"""
NATIVE = "from harness.rollout.engine.native import build, open_folder\n"
BACKEND = "from harness.training.loop import train_run as train\ncheck = lambda config: []\n"
# Member to its code and to the group that its YAML is chosen from.
MEMBERS = {
    "rollout/engine/echo": (NATIVE, "engine"),
    "tracking/lines": (TRACKER, "tracker"),
    "problems/benchmarks/sums": (SUMS, "task"),
    "backends/mine": (BACKEND, "backend"),
}
ABSOLUTE = """    def estimate(self, logprobs_N, ref_logprobs_N):
        return (logprobs_N - ref_logprobs_N).abs()
"""
FIRST = """from dataclasses import dataclass
from harness.sampling.curriculum import Curriculum, require_problems
import numpy as np
@dataclass
class Config:
    kind: str = 'first'
class First(Curriculum):
    STATE = ()
    def __init__(self, problems):
        self.problems = problems
    def draw(self, count):
        require_problems(count, self.problems)
        return np.arange(count)
def build(config, problems, seed):
    return First(problems)
"""
REWARD = "def half(response, gold):\n    return 0.5\n"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a member of every kind, and a reward function."""
    folder = tmp_path_factory.mktemp("mine") / "their_tricks"
    for member, (code, group) in MEMBERS.items():
        write(folder, member, HEAD.format(kind=member.rpartition("/")[2]) + code, group)
    write(folder, "sampling/curriculum/first", FIRST)
    write(folder, "objective/kl/absolute", ABSOLUTE)
    (folder / "tracker/lines.yaml").write_text("# @package runtime.trackers.lines\nkind: lines\n")
    (folder / "algorithm/kl/absolute.yaml").write_text("kind: absolute\ncoefficient: 0.0\n")
    (folder / "benchmark").mkdir()
    (folder / "benchmark/sums.yaml").write_text("kind: sums\nfirst: 32\nproblems: 8\n")
    (folder / "evaluation").mkdir()
    (folder / "evaluation/small.yaml").write_text(
        "defaults:\n  - /benchmark@benchmarks.sums: sums\n  - _self_\nsamples_per_problem: 2\nsamples_between: null\n"
        "temperature: 1.0\ntop_p: 1.0\ncaps: [6]\nseed: 1\nstop_strings: []\n"
    )
    (folder / "rewards.py").write_text(REWARD)
    return folder


CHOSEN = [
    "task=sums", "evaluation=small", "engine=echo", "tracker=lines", "algorithm/curriculum=first", "algorithm/kl=absolute",
    "algorithm.kl.coefficient=0.01", "backend=mine", "model=pretrained",
    "sampling.max_response_tokens=6", "algorithm.prompts_per_step=4", "algorithm.responses_per_prompt=2", "algorithm.updates_per_step=1",
    "training.steps=1", "model.precision=float32", "runtime.workers=1", "seed=0", "experiment.name=everything", "experiment.benchmark=sums",
]  # fmt: skip


def test_a_run_of_own_members_alone(mine: Path, tmp_path: Path) -> None:
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2}
    chosen = [*CHOSEN, f"model.path={random_checkpoint({**SHAPES['qwen2.5-0.5b'], **sizes}, 0, tmp_path)}"]
    folder, reward = ("--config-dir", str(mine)), f"algorithm.reward.function={mine}/rewards.py:half"
    said = harness_here(tmp_path, "run", *folder, *chosen, reward, "--no-answer")
    assert "1 run: 1 finished" in said
    tracked = (tmp_path / "results/tracked.txt").read_text()
    assert re.fullmatch(r"everything .* 0 step 1 True\n", tracked)
    (config,) = (tmp_path / "results/runs").glob("*/config.yaml")
    assert config.read_text().count("  code: ") + config.read_text().count("\n    code: ") >= 6
    (row,) = (config.parent / "metrics.jsonl").read_text().splitlines()
    assert json.loads(row)["reward_mean"] == 0.5
