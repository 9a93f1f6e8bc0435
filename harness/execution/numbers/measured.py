"""What the check reads from a finished run, and what it usually means when a value is out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.execution.numbers.protocol import BENCHMARK
from harness.store import RunDir

LOG_PROBS = "base policy, log-probabilities"
GAP = "sampler against trainer, nats a token"


@dataclass(frozen=True)
class Statistic:
    """One number of a run.

    Attributes:
        label: how reports call it, with its unit.
        column: of the run's metrics.
        meaning: what is usually wrong when it is out, in a sentence or two.
    """

    label: str
    column: str
    meaning: str


# Of the first step alone, by key. Rounding is all that may differ, so these find a fault in one response.
FIRST: Mapping[str, Statistic] = {
    "accuracy": Statistic(
        "accuracy",
        "accuracy_mean",
        "The responses of the first step, or their verdicts, are others than the reference's. Where response tokens are "
        "out too, look at the sampler (temperature, top-p, noise, end tokens); where not, at the verifier.",
    ),
    "tokens": Statistic(
        "response tokens",
        "response_tokens_mean",
        "The first step's responses are others than the reference's: look at the sampler (temperature, top-p, noise, "
        "end tokens, the cap).",
    ),
    "entropy": Statistic(
        "entropy, nats",
        "entropy_nats",
        "The distribution that the sampler draws from has another spread, or it was asked at other prefixes. Look at "
        "temperature, top-p and the engine's attention over its cache.",
    ),
    "loss": Statistic(
        "loss",
        "loss",
        "Where the responses agree and the loss does not, look at advantages (sign, baseline, scale), at the response "
        "mask and at the aggregation's weights.",
    ),
    "gradient_norm": Statistic(
        "gradient norm",
        "gradient_norm",
        "Where the responses agree and the gradient does not, look at advantages and response mask, at the backward "
        "pass of the device, and at the optimiser.",
    ),
}
# Of the second half of training, as means over its steps; `score` is avg@n of the evaluation after the last step.
OUTCOME: Mapping[str, Statistic] = {
    "score": Statistic(
        "score after training",
        "",
        "The policy learnt more or less than it should, or evaluation samples and grades otherwise. If the first step "
        "agrees, what later steps do is wrong: ratios, clipping, the optimiser's state, weights that do not reach the "
        "engine.",
    ),
    "late_accuracy": Statistic(
        "training accuracy, second half",
        "accuracy_mean",
        "Training moves the policy otherwise than it should. If the score agrees and this does not, training samples "
        "otherwise than evaluation does.",
    ),
    "late_entropy": Statistic(
        "entropy, second half, nats",
        "entropy_nats",
        "The policy sharpens faster or slower than it should: a sign of an advantage, the learning rate, or the "
        "sampler's temperature.",
    ),
    "late_tokens": Statistic(
        "response tokens, second half",
        "response_tokens_mean",
        "Responses grow or shrink otherwise than they should: the response mask, what is done with truncated responses, "
        "or the aggregation's weights.",
    ),
}
OTHER: Mapping[str, str] = {
    LOG_PROBS: "The policy's forward pass is wrong, before any sampling or training: another precision (TF32, bfloat16), "
    "a kernel, or damaged weights. All other findings may follow from this one.",
    GAP: "The engine computes other log-probabilities than the trainer for the same tokens: another temperature, "
    "precision or weights that do not reach it. Training is off-policy then.",
}


def measured(run: RunDir) -> dict[str, float]:
    """All statistics of a finished run, by key, and `gap`: the first step's mean distance of the sampler from the trainer."""
    rows = run.steps().sort_values("step")
    first, late = rows.iloc[0], rows.iloc[len(rows) // 2 :]
    samples = run.samples(BENCHMARK, int(rows["step"].iloc[-1]), ["correct"])
    values = {key: float(first[item.column]) for key, item in FIRST.items()}
    values |= {key: float(late[item.column].mean()) for key, item in OUTCOME.items() if item.column}
    return values | {
        "score": float(samples["correct"].mean()),
        "gap": float(first["sampler_log_prob_gap_mean"]),
    }
