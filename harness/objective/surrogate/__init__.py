"""Surrogate losses. A member is a file with one dataclass `Config` that inherits `Surrogate`.

Its fields are the settings, with `kind` naming the file; its methods are the formulas.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from harness.configuration.error import Checked
from harness.configuration.schema import RunConfig
from harness.engagement.measure import KeyedMeasures
from harness.objective.types import Tensor, TokenBatch


class Surrogate(Checked, ABC, key="algorithm.surrogate"):
    """Base of all surrogates.

    Attributes:
        pairs: the responses of a group that have gradient must be in one micro-batch.
        needs_reference: it reads `batch.ref_logprobs_N` even with a KL coefficient of 0.
        folds_correction: it reads the engine's weights `batch.policy_weights_N` itself; otherwise they multiply its loss.
        selects: it treats some tokens of an update apart, which `select` chooses.
        one_loss: its loss is one of the response, which stands on each of its tokens.
        trains_without_advantage: tokens with zero advantage may have gradient, too.
        ratio_keys: the fields that matter only where the ratio is not 1.
        far_tokens: what becomes of tokens whose ratio moved far: `clipped` (no gradient), `stopped` (none outside a trust region of its
            own), `kept`, or empty for something else.
    """

    kind: str
    pairs: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = False
    folds_correction: ClassVar[bool] = False
    selects: ClassVar[bool] = False
    one_loss: ClassVar[bool] = False
    trains_without_advantage: ClassVar[bool] = False
    ratio_keys: ClassVar[tuple[str, ...]] = ()
    far_tokens: ClassVar[str] = ""

    @property
    def likeliest(self) -> int:
        """How many of the sampler's likeliest tokens it reads, in `batch.logprobs_NK` and `batch.sampler_logprobs_NK`."""
        return 0

    def refusals(self, run: RunConfig) -> Iterator[str]:
        """Yield what it cannot be combined with, each with its key and the fix; a member adds its own to these, of its attributes."""
        algorithm = run.algorithm
        correction = algorithm.engine_correction
        if self.selects and algorithm.importance_ratio != "token":
            yield f"algorithm.surrogate={self.kind} chooses tokens by their ratio; set algorithm.importance_ratio=token"
        if self.folds_correction and correction.kind != "none" and not correction.weighs_tokens:
            yield f"algorithm.surrogate={self.kind} needs algorithm.engine_correction.kind=token, token_mask or none"
        if self.folds_correction and algorithm.top_entropy_fraction < 1:
            yield f"algorithm.surrogate={self.kind} needs algorithm.top_entropy_fraction=1"

    @abstractmethod
    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        """Return the loss of every token before aggregation, [N].

        At ratio 1 the gradient of a policy-gradient member is that of -A · log π.

        Args:
            logprobs_N: log π of the current policy, with gradient.
            log_ratio_N: log π - log π_old at the level (token or sequence) of `algorithm.importance_ratio`, with gradient.
            batch: everything else of the micro-batch.
        """

    def select(self, logprobs_N: Tensor, old_logprobs_N: Tensor, advantages_N: Tensor, draws_N: Tensor) -> Tensor:
        """Choose the tokens that are treated apart, bool [N], handed to `token_loss` as `batch.selected_N`; only with `selects`.

        The choice is made before backward among all loss tokens of an optimiser update, so micro-batches and ranks change nothing.
        `logprobs_N` are the current policy's without gradient; `draws_N` uniform numbers that depend on nothing but the token's identity.
        """
        raise NotImplementedError(f"{self.kind} treats all tokens alike")

    def clipped(self, logprobs_N: Tensor, ratio_N: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor] | None:
        """Return which tokens the lower and which the upper bound changed, bool [N] each; None without bounds."""
        return None

    def released(self, ratio_N: Tensor, advantages_N: Tensor) -> Tensor | None:
        """Return which tokens have gradient only since the upper bound is wider than the lower one, bool [N]; None without bounds."""
        return None

    def off_ratio(self) -> bool:
        """Return whether it is chosen for what it does where the ratio is not 1: by default if all its fields are `ratio_keys`."""
        names = {field.name for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return bool(self.ratio_keys) and names - {"kind", "code"} == set(self.ratio_keys)

    def engagement(self, old: Surrogate) -> KeyedMeasures:
        """Yield (field, measure, whether runs of this configuration show it) for each measured difference from `old`, of the same kind."""
        yield from ()


Member = Surrogate
