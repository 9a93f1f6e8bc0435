from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import pytest

from harness.verify import MathVerifier, VerifierConfig
from harness.verify.pool import WorkerPool


@pytest.fixture(scope="session")
def verifiers() -> Iterator[Callable[..., MathVerifier]]:
    """A verifier for each configuration, all with the same two workers: to start one takes more than most tests."""
    with contextlib.closing(WorkerPool(VerifierConfig(timeout_cpu_seconds=10))) as pool:

        @functools.cache
        def make(extraction: str = "any", answer_must_end: bool = False, form: str = "evaluated") -> MathVerifier:
            made = MathVerifier(VerifierConfig(extraction, answer_must_end, form))
            made.pool = pool
            return made

        yield make


@pytest.fixture(scope="session")
def verifier(verifiers: Callable[..., MathVerifier]) -> MathVerifier:
    """The verifier that accepts every shape."""
    return verifiers()


@pytest.fixture(scope="session")
def impatient() -> Iterator[MathVerifier]:
    """A verifier for hostile texts: what they cost a worker is bounded by its clock, which is short here."""
    with MathVerifier(VerifierConfig(extraction="any", answer_must_end=False, timeout_cpu_seconds=0.05)) as shared:
        yield shared
