from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.verify import MathVerifier, VerifierConfig


@pytest.fixture(scope="session")
def verifier() -> Iterator[MathVerifier]:
    """One verifier that accepts every shape, shared because its workers take a second to start."""
    with MathVerifier(VerifierConfig(extraction="any")) as shared:
        yield shared
