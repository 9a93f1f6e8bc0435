"""Grades of responses during training and evaluation: the verifier's verdicts as tensors and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from harness.configuration.sections import RuntimeConfig, VerifierSection
from harness.verify import TROUBLE, MathVerifier, Verdict, VerifierConfig


@dataclass
class Grades:
    """Verdicts of R responses and what training needs of them."""

    verdicts: list[Verdict]

    @property
    def correct_R(self) -> torch.Tensor:
        """Bool [R]: the response is right (a timeout or error is not)."""
        return torch.tensor([verdict.correct for verdict in self.verdicts], dtype=torch.bool)

    @property
    def answered_R(self) -> torch.Tensor:
        """Bool [R]: an answer could be extracted."""
        return torch.tensor([verdict.answer is not None for verdict in self.verdicts], dtype=torch.bool)

    @property
    def faults(self) -> int:
        """Responses that got no verdict on their answer: timeouts, killed workers, errors, refusals. They score as wrong."""
        return sum(verdict.verdict in TROUBLE for verdict in self.verdicts)


class Grader:
    """A verifier with the run's extraction rules; a verification that hangs or dies costs its sample a status, not the run."""

    def __init__(self, rules: VerifierSection, runtime: RuntimeConfig) -> None:
        self.verifier = MathVerifier(
            VerifierConfig(
                extraction=rules.extraction,
                answer_must_end=rules.answer_must_end,
                form=rules.form,
                workers=runtime.verifier_workers,
            )
        )

    def grade(
        self, responses: Sequence[str], golds: Sequence[str], problems: Sequence[str | None] | None = None
    ) -> Grades:
        """Grade each response against its gold, in order; `problems` are the texts that were asked, where they are known."""
        return Grades(self.verifier.verify_many(list(zip(responses, golds, strict=True)), problems))

    def second(
        self, responses: Sequence[str], golds: Sequence[str], numerals_only: bool = False
    ) -> list[bool | None]:
        """Return the second grader's verdicts, in order; None where it has none. Nothing is trained on them."""
        return self.verifier.second_many(list(zip(responses, golds, strict=True)), numerals_only)

    def close(self) -> None:
        """End the verifier's processes."""
        self.verifier.close()
