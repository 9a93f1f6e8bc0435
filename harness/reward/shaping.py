"""Rewards of responses, and grades during training and evaluation: the verifier's verdicts as tensors and columns."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import torch

from harness.configuration.sections import OverlongConfig, RewardConfig, RuntimeConfig, VerifierSection
from harness.verify import TROUBLE, MathVerifier, Verdict, VerifierConfig

GradedAnswer = tuple[str, str, str, Verdict]  # a response, its gold answer, the text of its problem


def overlong_ramp(lengths: torch.Tensor, cap: int, buffer_fraction: float) -> torch.Tensor:
    """Return the share in [0, 1] of the soft punishment: 0 up to L_max - L_cache, linear to 1 at L_max (DAPO, arXiv:2503.14476 Eq. 13)."""
    buffer = cap * buffer_fraction
    return ((lengths.double() - (cap - buffer)) / buffer).clamp(0.0, 1.0)


def shaped_rewards(components: torch.Tensor, overlong: OverlongConfig) -> torch.Tensor:
    """Return rewards (float32) of responses from their `reward_components` [..., 3]."""
    value, credit, penalty = components.unbind(-1)
    shaped = value + credit
    shaped = shaped + penalty if overlong.shape == "additive" else shaped * (1 + penalty).clamp(min=0.0)
    return shaped.float()


def reward_components(
    correct: torch.Tensor,
    answered: torch.Tensor,
    lengths: torch.Tensor,
    cap: int,
    reward: RewardConfig,
    overlong: OverlongConfig,
    truncated: torch.Tensor,
    outcome: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return what `shaped_rewards` are made of, float64 [..., 3]: outcome value, format credit, length penalty (negative).

    All tensors have one shape. The sum of the components is the shaped reward, unless the punishment is multiplicative, which the
    configuration refuses where an algorithm reads them apart. Under `overlong.policy=wrong` a truncated response earns `reward.wrong` and
    nothing else, whatever the verifier says of it. `outcome`: rewards of a function of one's own, instead of those of the verdicts.
    """
    if overlong.policy == "wrong":
        correct, answered = correct & ~truncated, answered & ~truncated
    value = correct.double() * reward.correct + (~correct).double() * reward.wrong
    if outcome is not None:
        value = torch.where(truncated, reward.wrong, outcome) if overlong.policy == "wrong" else outcome
    penalty = torch.zeros_like(value)
    if overlong.punishes:
        penalty = -overlong.penalty * overlong_ramp(lengths, cap, overlong.buffer_fraction)
    return torch.stack([value, reward.format_credit * answered.double(), penalty], -1)


@dataclass
class Grades:
    """Verdicts of R responses and what training needs of them."""

    verdicts: list[Verdict]

    @property
    def correct_R(self) -> torch.Tensor:
        """Bool [R]: the response is right (a timeout or error is not)."""
        return torch.tensor([verdict.correct for verdict in self.verdicts], dtype=torch.bool)

    @property
    def faults(self) -> int:
        """Responses that got no verdict on their answer: timeouts, killed workers, errors, refusals. They score as wrong."""
        return sum(verdict.verdict in TROUBLE for verdict in self.verdicts)


class Grader:
    """A verifier with the run's extraction rules; a verification that hangs or dies costs its sample a status, not the run."""

    def __init__(self, rules: VerifierSection, runtime: RuntimeConfig) -> None:
        self.verifier = MathVerifier(VerifierConfig(**asdict(rules), workers=runtime.verifier_workers))
        self.threads = ThreadPoolExecutor(runtime.verifier_workers, "grader")  # for who has other work meanwhile

    def grade(
        self,
        responses: Sequence[str],
        golds: Sequence[str],
        problems: Sequence[str | None] | None = None,
        truncated: Sequence[bool] | None = None,
    ) -> Grades:
        """Grade each response against its gold, in order; `problems` are the texts that were asked, where they are known.

        `truncated`: which responses were cut off; these have no answer but a closed box or a line that ends. Equal
        responses to a problem, of which a trained policy gives many, are graded once.
        """
        size = len(golds)
        cases = list(zip(responses, golds, problems or [None] * size, truncated or [False] * size, strict=True))
        distinct = list(dict.fromkeys(cases))
        verdicts = self.verifier.verify_many(
            [case[:2] for case in distinct], [case[2] for case in distinct], [case[3] for case in distinct]
        )
        verdict_of = dict(zip(distinct, verdicts, strict=True))
        return Grades([verdict_of[case] for case in cases])

    def second(self, responses: Sequence[str], golds: Sequence[str]) -> list[bool | None]:
        """Return the second grader's verdicts, in order; None where it has none. Nothing is trained on them."""
        return self.verifier.second_many(list(zip(responses, golds, strict=True)))

    def close(self) -> None:
        self.threads.shutdown(cancel_futures=True)
        self.verifier.close()
