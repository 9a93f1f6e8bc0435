"""open-instruct's `grpo_fast.py`: its metrics as JSON, a list or lines. It logs to wandb, and `format=wandb` reads that.

Names from open-instruct's `grpo_fast.py`, `grpo_utils.py` and `data_loader.py`, 2025 and 2026.
"""

from __future__ import annotations

import re
from pathlib import Path

from harness.exchange.importers._log import Log, json_lines, log_of
from harness.exchange.importers._trainer import Score, Trainer

_METRICS = {
    "scores": "reward_mean",
    "objective/verifiable_correct_rate": "accuracy_mean",
    "policy/entropy_avg": "entropy_nats",
    "objective/kl2_avg": "kl_to_reference",  # of its four estimators Schulman's k3, as ours
    "val/sequence_lengths": "response_tokens_mean",
    "policy/clipfrac_avg": "clip_fraction",
    "optim/grad_norm": "gradient_norm",
    "lr": "learning_rate",
    "loss/total_avg": "loss",
    "time/training": "seconds_train",
    "time/weight_sync": "seconds_sync",
    "time/total": "seconds_total",
}
_SCORES = [
    Score(
        re.compile(r"eval/objective/(?:(?P<benchmark>.+)_)?(?P<metric>correct_rate)"),
        {"correct_rate": "accuracy"},
    ),
    Score(re.compile(r"eval/(?P<metric>scores)"), {"scores": "reward"}),
    Score(re.compile(r"eval/(?P<metric>pass)_at_(?P<n>\d+)_unbiased"), {"pass": "pass"}),
]
_REMARKS = [
    "open-instruct: scores are in its reward's units (verification_reward, 10 unless set); a correct rate counts rewards above 0.",
    "open-instruct: val/num_step_tokens counts prompts too, so generated tokens need responses_per_step=; groups that were resampled "
    "are not counted then.",
    "open-instruct: clip fraction counts both directions together.",
]
TRAINER = Trainer("open_instruct", _METRICS, _SCORES, _REMARKS, ("training_step",))


def read(path: Path, run: str | None = None) -> Log:
    """Read one run. Raises `ForeignLogError`."""
    rows, said = json_lines(path)
    return log_of(rows, path, named="open_instruct", said=said)
