from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.verify import MathVerifier, VerifierConfig


@pytest.fixture(scope="session")
def verifier() -> Iterator[MathVerifier]:
    """One verifier that accepts every shape, shared because its workers take a second to start."""
    with MathVerifier(VerifierConfig(extraction="any", answer_must_end=False)) as shared:
        yield shared


@pytest.fixture(scope="session")
def impatient() -> Iterator[MathVerifier]:
    """A verifier for hostile texts: what they cost a worker is bounded by its clock, which is short here."""
    with MathVerifier(VerifierConfig(extraction="any", answer_must_end=False, timeout_cpu_seconds=0.2)) as shared:
        yield shared
