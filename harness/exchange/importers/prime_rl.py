"""prime-rl: the JSON lines of its file monitor (`metrics.jsonl`; a folder: those of trainer and orchestrator together).

Names from prime-rl's `orchestrator/orchestrator.py`, `orchestrator/metrics.py` and `trainer/rl/train.py`, 0.3 to 0.8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from harness.exchange.importers._log import ForeignLogError, Log, json_lines, log_of
from harness.exchange.importers._trainer import Score, Trainer

_METRICS = {
    "train/agg/all/reward/mean": "reward_mean",  # of all rollouts that arrived; `effective` is what was trained on
    "reward/all/mean": "reward_mean",  # to 0.5
    "reward/mean": "reward_mean",  # to 0.4
    "entropy/all/mean": "entropy_nats",
    "entropy/mean": "entropy_nats",
    "train/agg/all/num_output_tokens/mean": "response_tokens_mean",
    "decode_len/all/mean": "response_tokens_mean",
    "completion_len/mean": "response_tokens_mean",
    "train/agg/all/is_truncated/mean": "truncated_fraction",
    "is_truncated/all/mean": "truncated_fraction",
    "is_truncated/mean": "truncated_fraction",
    "progress/output_tokens": "trained_tokens",
    "progress/decode_tokens": "trained_tokens",
    "optim/grad_norm": "gradient_norm",
    "optim/lr": "learning_rate",
    "loss/mean": "loss",
    "time/step": "seconds_total",
}
_METRIC = r"(?P<metric>avg|pass)@(?P<n>\d+)"
_SCORES = [
    Score(
        re.compile(rf"eval/(?P<benchmark>[^/]+)/(?:effective/)?(?:[^/]+/)?{_METRIC}"),
        {"avg": "avg", "pass": "pass"},
    ),
]
_REMARKS = [
    "prime-rl: means of rewards and lengths are over all rollouts that arrived in the step; to 0.5 first over each problem's.",
    "prime-rl: evaluation scores are means of rewards over the rollouts without an error; trained tokens are those of the shipped "
    "batch, and generated ones need responses_per_step=.",
    "prime-rl: mismatch_kl is between trainer and sampler, not to a reference, and keeps its name.",
]
_OF_AGENT = re.compile(r"(train/agg/(?:all|effective))/([^/]+)/(reward|is_truncated)/mean")


def _own(values: Mapping[str, float]) -> dict[str, float]:
    """The names without the agent's, where there is one agent only."""
    agents = {match[2] for name in values if (match := _OF_AGENT.fullmatch(name))}
    if len(agents) != 1:
        return dict(values)
    return {_OF_AGENT.sub(r"\1/\3/mean", name): value for name, value in values.items()}


TRAINER = Trainer("prime_rl", _METRICS, _SCORES, _REMARKS, ("step",), _own)


def read(path: Path, run: str | None = None) -> Log:
    """Read one run. Raises `ForeignLogError`."""
    files = sorted(path.rglob("metrics.jsonl")) if path.is_dir() else [path]
    if not files:
        raise ForeignLogError(
            f"{path} has no metrics.jsonl; prime-rl writes it unless started with --no-monitors.file"
        )
    read = [json_lines(file) for file in files]
    said = [line for _, lines in read for line in lines]
    return log_of([item for items, _ in read for item in items], path, named="prime_rl", said=said)
