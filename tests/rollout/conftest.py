"""What the suites of the engines share: a policy, prompts, and engines that are closed again."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_support import Opener, open_engine

from harness.model.checkpoint import load_tokenizer
from harness.model.policy import NativePolicy
from harness.problems.benchmarks import arithmetic
from harness.rollout.types import RolloutEngine


@pytest.fixture(scope="module")
def folder(base_policy: Path) -> Path:
    return Path(os.environ.get("RLVR_POLICY", base_policy))


@pytest.fixture(scope="module")
def policy(folder: Path) -> NativePolicy:
    return NativePolicy.load(folder, "torch")


@pytest.fixture(scope="module")
def prompts(folder: Path) -> list[list[int]]:
    """Twelve prompts of the testbed, of equal length."""
    tokenizer = load_tokenizer(folder)
    problems = arithmetic.load(arithmetic.Config(split="heldout", problems=12)).problems
    return [tokenizer(problem.prompt)["input_ids"] for problem in problems]


@pytest.fixture
def opener() -> Iterator[Opener]:
    """Opens engines of the test's own, and closes them."""
    opened: list[RolloutEngine] = []

    def opening(name: str, folder: Path, policy: NativePolicy) -> RolloutEngine:
        opened.append(open_engine(name, folder, policy))
        return opened[-1]

    yield opening
    for one in opened:
        one.close()
    opened.clear()
    gc.collect()
