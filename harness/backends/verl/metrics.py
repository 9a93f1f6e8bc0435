"""verl's files as rows of the run: its metrics while it trains, and the ledger of graded responses.

The reward workers (`harness.backends.verl.reward_plugin`) write the ledger: what a step generated, the discarded groups included.
"""

import json
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from harness.backends.verl.overrides import Place
from harness.backends.verl.process import VerlFailed, environment, run_to_end
from harness.configuration.schema import RunConfig
from harness.configuration.sections import AlgorithmConfig
from harness.exchange.logs import verl_row
from harness.model.checkpoint import copy_side_files
from harness.store import RunDir
from harness.store.layout import WARNING
from harness.store.metrics_log import new_lines
from harness.store.run import verl_step
from harness.training.checkpoints import POLICY
from harness.training.metrics import average

_LEDGER_SECONDS = 30.0  # that lines of other nodes may take to be seen here
# With this aggregation verl's entropy and KL are sums over tokens divided by a constant, not means over tokens.
_SUM_COLUMNS = {"constant_sum": ("entropy_nats", "kl_to_reference")}


class GradedResponse(NamedTuple):
    """One graded training response: its step, its group, and what came of it."""

    step: int
    group: str
    tokens: int
    reward: float
    correct: int
    truncated: int


class Ledger:
    """The graded responses of each step, as far as the files of a folder tell by now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = defaultdict(int)
        self._steps: dict[int, list[GradedResponse]] = defaultdict(list)

    def step(self, number: int) -> Sequence[GradedResponse]:
        for path in sorted(self._folder.glob("*.jsonl")):
            lines, self._offsets[path] = new_lines(path, self._offsets[path])
            for line in lines:
                response = GradedResponse(*json.loads(line))
                self._steps[response.step].append(response)
        return self._steps.get(number, ())

    def forget(self, number: int) -> None:
        self._steps.pop(number, None)


def ledger_columns(responses: Sequence[GradedResponse], algorithm: AlgorithmConfig) -> Mapping[str, float]:
    """Return the store's columns of one step, over all groups it generated (verl draws and finishes them whatever their outcome)."""
    frame, dead = pd.DataFrame(responses), algorithm.dead_groups
    tokens = frame["tokens"].to_numpy(float)
    correct, truncated = frame["correct"].to_numpy(bool), frame["truncated"].to_numpy(bool)
    groups = frame.groupby("group")
    shares = groups["correct"].mean()
    outcomes = groups["reward" if dead.metric == "reward" else "correct"].nunique()
    live_groups = len(shares) if dead.policy == "keep" else int((outcomes > 1).sum())
    kept_groups = min(live_groups, algorithm.prompts_per_step)  # the rest was dead or surplus
    return {
        "reward_mean": float(frame["reward"].to_numpy(float).mean()),
        "accuracy_mean": float(correct.mean()),
        "response_tokens_mean": float(tokens.mean()),
        "response_tokens_p95": float(np.percentile(tokens, 95)),
        "response_tokens_mean_right": average(tokens[correct]),
        "response_tokens_mean_wrong": average(tokens[~correct]),
        "response_tokens_mean_truncated": average(tokens[truncated]),
        "truncated_fraction": float(truncated.mean()),
        "groups": len(shares),
        "all_right_groups": int((shares == 1).sum()),
        "all_wrong_groups": int((shares == 0).sum()),
        "kept_groups": kept_groups,
        "discarded_groups": len(shares) - kept_groups,
        "generated_groups": len(shares),
        "generated_tokens": int(tokens.sum()),
    }


class MetricsImport:
    """Appends a row for every step that verl's file logger has gained, once the ledger of that step is complete."""

    def __init__(self, config: RunConfig, run: RunDir, place: Place, resumed_step: int) -> None:
        self._config, self._run, self._place = config, run, place
        self._ledger, self._offset = Ledger(place.ledger), 0
        self._waiting: list[tuple[float, dict[str, Any]]] = []  # when a row came, and the row
        rows = run.steps()
        totals = rows[rows["step"] <= resumed_step]["generated_tokens_total"].dropna()
        self._tokens = int(totals.iloc[-1]) if len(totals) else 0

    def update(self) -> None:
        """Take in what is there by now; a row waits for its ledger, and later rows for it, but not for a group that stays short."""
        lines, self._offset = new_lines(self._place.metrics, self._offset)
        rows, now = (verl_row(json.loads(line)) for line in lines), time.monotonic()
        self._waiting += [(now, row) for row in rows if row is not None and int(row["step"] or 0) >= 1]
        while self._waiting:
            arrival, row = self._waiting[0]
            if not self._is_complete(int(row["step"])) and now - arrival < _LEDGER_SECONDS:
                break
            self._append(row)
            del self._waiting[0]

    def finish(self) -> None:
        """Take in the rest. What the ledger still lacks after a while is left out of its row, and that is said."""
        self.update()
        while self._waiting:
            time.sleep(0.2)
            self.update()

    def _is_complete(self, step: int) -> bool:
        """Lines of another node may be seen seconds after the metrics of their step."""
        algorithm, sizes = self._config.algorithm, Counter(item.group for item in self._ledger.step(step))
        return len(sizes) >= algorithm.prompts_per_step and {*sizes.values()} == {algorithm.responses_per_prompt}

    def _append(self, row: dict[str, Any]) -> None:
        step, algorithm = int(row["step"]), self._config.algorithm
        for column in ("generated_tokens", *_SUM_COLUMNS.get(algorithm.aggregation.kind, ())):
            row.pop(column, None)
        if self._is_complete(step):
            row |= ledger_columns(self._ledger.step(step), algorithm)
        else:
            sys.stderr.write(
                f"{WARNING}step {step}: {self._place.ledger} lacks graded responses; rewards, accuracy, lengths and tokens are left out\n"
            )
        self._ledger.forget(step)
        self._tokens += int(row.get("generated_tokens") or 0)
        row["attempt"] = self._place.attempt
        row["updates"] = step * algorithm.updates_per_step * algorithm.epochs_per_step
        row["generated_tokens_total"] = self._tokens
        self._run.append_step(row)


def remove_old(checkpoints: Path) -> None:
    """Remove what a dead attempt left beside the newest checkpoint; verl only counts what it has saved itself."""
    newest = checkpoints / f"global_step_{verl_step(checkpoints)}"
    for folder in checkpoints.glob("global_step_*"):
        if folder != newest:
            shutil.rmtree(folder)


def export(python: str, run: RunDir, place: Place, step: int, log: Path) -> Path:
    """Merge the shards of a step into the run's checkpoint of that step; returns the policy's folder. Raises `VerlFailed`.

    verl merges in bfloat16. Configuration and tokenizer are the initial policy's: verl's copy has the chat template that it was given.
    """
    shards = place.checkpoints / f"global_step_{step}" / "actor"

    def write(folder: Path) -> None:
        policy, target = folder / POLICY, folder / "merged"
        policy.mkdir()
        command = [python, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
        run_to_end([*command, "--local_dir", str(shards), "--target_dir", str(target)], environment(python), log)
        copy_side_files(place.model, policy)
        weights = [*target.glob("*.safetensors"), *target.glob("*.safetensors.index.json")]
        if not weights:
            raise VerlFailed(f"verl's model merger left no safetensors of {shards}; see {log}")
        for file in weights:
            file.rename(policy / file.name)
        shutil.rmtree(target)

    return run.publish_checkpoint(step, write) / POLICY
