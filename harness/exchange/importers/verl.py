"""verl: the JSON lines of its file logger (`trainer.logger=[console,file]`), `{"step": 1, "data": {...}}` a line, or what it prints.

Names from verl's `trainer/ppo/metric_utils.py`, `ray_trainer.py` and the actor workers; a printed line is `step:1 - actor/lr:1e-06 - ...`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.exchange.importers._log import (
    REGENERATED,
    ForeignLogError,
    Log,
    Logged,
    json_lines,
    log_of,
    numbers,
    read_text,
)
from harness.exchange.importers._trainer import Score, Trainer

_METRICS = {
    "critic/score/mean": "reward_mean",  # critic/rewards is the same minus the KL penalty
    "actor/entropy": "entropy_nats",
    "actor/entropy_loss": "entropy_nats",  # its name until 2025
    "response_length/mean": "response_tokens_mean",
    "response_length/clip_ratio": "truncated_fraction",
    "actor/pg_clipfrac": "clip_fraction",  # both directions together: verl does not split them
    "actor/kl_loss": "kl_to_reference",
    "actor/grad_norm": "gradient_norm",  # before clipping, as ours
    "actor/pg_loss": "loss",
    "actor/lr": "learning_rate",
    "train/num_gen_batches": "refill_rounds",
    "trained_tokens": "trained_tokens",
    "generated_tokens": "generated_tokens",
    "timing_s/gen": "seconds_rollout",
    "timing_s/reward": "seconds_verify",
    "timing_s/update_actor": "seconds_train",
    "timing_s/testing": "seconds_evaluate",
    "timing_s/step": "seconds_total",
}
_CONSOLE = re.compile(r"(?:^|[\s)])step:(\d+) - (\S+:.+)$", re.MULTILINE)
_WRAPPED = re.compile(r"np\.\w+\((.*)\)")
_DISCARDED = (  # of version 0.9's own trainer, in steps that threw groups away
    "training/filter_groups/evicted_samples",
    "training/filter_groups/discarded_surplus_samples",
)
_SCORES = [
    Score(
        re.compile(r"val-core/(?P<benchmark>.+)/acc/(?P<metric>mean|best|maj)@(?P<n>\d+)(?:/mean)?"),
        {"mean": "avg", "best": "verl_best", "maj": "verl_maj"},
    ),
    Score(
        re.compile(r"val-core/(?P<benchmark>.+)/(?:reward|score)/(?P<metric>mean)@(?P<n>\d+)(?:/mean)?"),
        {"mean": "reward"},
    ),
    Score(re.compile(r"val/(?P<metric>test_score)/(?P<benchmark>.+)"), {"test_score": "reward"}),
]
_REMARKS = [
    "verl: entropy is aggregated as the loss is; clip fraction counts both directions together.",
    "verl: best@n and maj@n are its bootstrap with replacement, biased against ours; they are kept as verl_best@n "
    "and verl_maj@n and never stand in a column of Pass@k or Maj@k.",
    "verl: generated tokens are those of the trained batch; unknown where groups were regenerated (num_gen_batches, filter_groups).",
    "verl 0.9: response_length/clip_ratio compares with the longest response of the batch, not with the cap.",
]


def with_tokens(values: Mapping[str, float]) -> dict[str, float]:
    """Adds response tokens: the batch's tokens times the share of responses in a mean sequence (both means are of one batch).

    Tokens of discarded groups are not logged, so generated tokens are only known where nothing was regenerated.
    """
    response, prompt = values.get("response_length/mean"), values.get("prompt_length/mean")
    total = values.get("perf/total_num_tokens")
    if total is None or response is None or prompt is None or response + prompt <= 0:
        return dict(values)
    tokens = total * response / (response + prompt)
    whole = values.get("train/num_gen_batches", 1.0) <= 1.0 and not any(key in values for key in _DISCARDED)
    return {
        **values,
        "trained_tokens": tokens,
        **({"generated_tokens": tokens} if whole else {REGENERATED: 1.0}),
    }


TRAINER = Trainer("verl", _METRICS, _SCORES, _REMARKS, ("training/global_step",), with_tokens)


def read(path: Path, run: str | None = None) -> Log:
    """Read one file. Raises `ForeignLogError`."""
    text, said = read_text(path), list[str]()
    rows = [_printed(int(line[1]), line[2]) for line in _CONSOLE.finditer(text)]
    if not rows:
        items, said = json_lines(path)
        rows = [found for item in items if (found := _entry(item)) is not None]
    if not rows:
        raise ForeignLogError(
            f'{path} has no line {{"step": ..., "data": {{...}}}} or step:... - ...; set trainer.logger to include "file"'
        )
    return log_of(rows, path, named="verl", said=said)


def prints(text: str) -> bool:
    """Return True for a text with lines as verl prints them."""
    return _CONSOLE.search(text) is not None


def _printed(step: int, text: str) -> dict[str, Any]:
    """The step that a printed line tells; numpy's wrapping of numbers is taken off."""
    pairs = (part.rpartition(":") for part in text.split(" - "))
    return {
        "training/global_step": step,
        **{name.strip(): _WRAPPED.sub(r"\1", value) for name, _, value in pairs},
    }


def _entry(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """The step that one line logs, None for a line of another kind."""
    data, step = item.get("data"), item.get("step")
    if isinstance(data, dict) and isinstance(step, int):
        return {**numbers(data), "training/global_step": step}
    return None


def training_row(item: Mapping[str, Any]) -> dict[str, float | int | None] | None:
    """Return the store's columns of one line of the file logger, with scores under verl's names; None for a line of another kind."""
    found = _entry(item)
    if found is None:
        return None
    step = int(found.pop("training/global_step"))
    (row,) = Log([Logged(step, with_tokens(found))], dataclasses.replace(TRAINER, scores=())).rows()
    return row
