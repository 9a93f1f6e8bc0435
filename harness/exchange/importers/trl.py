"""TRL's GRPOTrainer: `trainer_state.json` (a file, or the run's folder with checkpoints), or its logs line by line.

Names from TRL's `trainer/grpo_trainer.py` and the Trainer of transformers, releases 0.14 to 1.16.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.exchange.importers._log import ForeignLogError, Log, json_lines, log_of, numbers
from harness.exchange.importers._trainer import Score, Trainer

_METRICS = {
    "reward": "reward_mean",
    "entropy": "entropy_nats",
    "kl": "kl_to_reference",
    "completions/mean_length": "response_tokens_mean",
    "completion_length": "response_tokens_mean",  # its name until 0.16
    "completions/clipped_ratio": "truncated_fraction",
    "clip_ratio/low_mean": "clip_fraction_low",
    "clip_ratio/high_mean": "clip_fraction_high",
    "clip_ratio/region_mean": "clip_fraction",
    "clip_ratio": "clip_fraction",  # until 0.17
    "frac_reward_zero_std": "zero_spread_groups_fraction",  # all right and all wrong together
    "sampling/sampling_logp_difference/mean": "sampler_log_prob_gap_mean",
    "sampling/sampling_logp_difference/max": "sampler_log_prob_gap_max",
    "grad_norm": "gradient_norm",
    "learning_rate": "learning_rate",
    "loss": "loss",
    "step_time": "seconds_total",
    "updates": "updates",
}
_NAMES = {"accuracy": "accuracy", "reward": "reward"}
_SCORES = [
    Score(re.compile(r"eval_rewards/\S*(?P<metric>accura)\S*/mean"), {"accura": "accuracy"}),
    Score(re.compile(r"eval_(?P<metric>accuracy|reward)"), _NAMES),
    Score(re.compile(r"eval_(?P<benchmark>\S+?)_(?P<metric>accuracy|reward)"), _NAMES),
]
_REMARKS = [
    "TRL: a step is an optimiser step, not a rollout step; values are means over the steps since the last line.",
    "TRL: num_tokens counts prompts too, so generated tokens need responses_per_step=; groups without spread are "
    "not split into all right and all wrong.",
]


def _own(values: Mapping[str, float]) -> dict[str, float]:
    """`train/reward` and `eval/reward` as the Trainer calls them before it hands them to a tracker; nothing of the summary at the end."""
    if "train/train_runtime" in values or "train_runtime" in values:
        return {}
    return {_name(name): value for name, value in values.items()}


def _name(name: str) -> str:
    return f"eval_{name.removeprefix('eval/')}" if name.startswith("eval/") else name.removeprefix("train/")


TRAINER = Trainer("trl", _METRICS, _SCORES, _REMARKS, ("train/global_step", "global_step"), _own, means=True)


def read(path: Path, run: str | None = None) -> Log:
    """Read one run. Raises `ForeignLogError`."""
    items, said = _newest(path) if path.is_dir() else _items(path)
    rows, step = [], 0
    for item in items:
        # a printed log without a progress bar has no step: lines are counted, and an evaluation belongs to the line before it
        evaluation = any(name.startswith("eval_") for name in item)
        step = int(numbers(item).get("step", step if evaluation else step + 1))
        rows.append({**item, "step": step} if evaluation else {**item, "step": step, "updates": step})
    return log_of(rows, path, named="trl", said=said)


def _newest(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Read the newest state of a run that is whole: a job that ends while it writes leaves a torn one."""
    states = list(folder.glob("trainer_state.json")) or list(folder.glob("checkpoint-*/trainer_state.json"))
    if not states:
        raise ForeignLogError(
            f"{folder} has neither trainer_state.json nor checkpoint-*/trainer_state.json; call trainer.save_state()"
        )
    states = sorted(states, key=_checkpoint, reverse=True)
    torn: list[str] = []
    for state in states:
        try:
            items, said = _items(state)
        except ForeignLogError as error:
            torn.append(f"{error}")
            continue
        return items, [*said, *(f"{line}; read {state.parent.name} instead" for line in torn)]
    raise ForeignLogError(torn[0])


def _items(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the logged lines of a state or of a printed log, less the summary at the end."""
    found, said = json_lines(path)
    items: list[dict[str, Any]] = []
    for item in found:
        history = item.get("log_history")
        items += history if isinstance(history, list) else [item]
    items = [item for item in items if isinstance(item, dict) and "train_runtime" not in item]
    if not any(TRAINER.knows(numbers(item)) for item in items):
        raise ForeignLogError(f"{path} holds no log_history and no logged lines of TRL")
    return items, said


def _checkpoint(path: Path) -> int:
    digits = path.parent.name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else -1
