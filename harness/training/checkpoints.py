"""Resumable checkpoints of a run: one file for a native policy, sharded ones written in the background for a sharded policy.

A sharded checkpoint is staged by `torch.distributed.checkpoint` beside the published ones while training goes on, and published when all
ranks have written. It holds whole tensors in pieces, so it resumes on another number of ranks. The last step's holds the policy as an
ordinary checkpoint and the loop's counts: weights and optimiser that nobody trains on would be three times its size.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from harness.configuration.error import ConfigError
from harness.model.ranks import Ranks
from harness.store import RunDir
from harness.training.stored_state import as_data, load_state, save_state

STATE, POLICY, SHARDS = "state.pt", "policy", "shards"


class Checkpoints:
    """Writes and reads the checkpoints of one run."""

    def __init__(
        self, run: RunDir, keep: int, policy: Any, optimizer: torch.optim.Optimizer, ranks: Ranks
    ) -> None:
        self.run, self.keep, self.policy, self.optimizer, self.ranks = run, keep, policy, optimizer, ranks
        self._pending: tuple[int, Path, Any] | None = None

    def save(self, step: int, state: dict[str, Any], final: bool) -> None:
        """Publish (at once, or in the background until `finish`) everything a resume needs; after the last step the policy.

        Args:
            step: the rollout step.
            state: what the loop keeps besides weights and optimiser, as tensors and plain values; the same on every rank.
            final: write the policy as an ordinary checkpoint instead of weights and optimiser.
        """
        self.finish()
        if not self.policy.sharded:

            def write(folder: Path) -> None:
                trained = {"policy": self.policy.state(), "optimizer": self.optimizer.state_dict()}
                save_state(state if final else trained | state, folder / STATE)
                if final:
                    self.policy.save(folder / POLICY)

            self.run.publish_checkpoint(step, write, keep=self.keep)
            return
        staging = self.run.path / "checkpoints" / f".staging-{step}.tmp"
        if self.ranks.first:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(parents=True)
            save_state(state, staging / STATE)
        self.ranks.from_first(None)  # nobody writes before the folder is there
        if final:
            self.policy.save(staging / POLICY)
            self._publish(step, staging)
            return
        from harness.training.shards import start_writing

        self._pending = (step, staging, start_writing(self.policy, self.optimizer, staging / SHARDS))

    def poll(self) -> None:
        """Publish a background checkpoint that all ranks have written; never waits."""
        if self._pending and all(self.ranks.gather(self._pending[2].done())):
            self.finish()

    def finish(self) -> None:
        """Wait for a background checkpoint and publish it; nothing if there is none."""
        if self._pending is None:
            return
        step, staging, future = self._pending
        self._pending = None
        future.result()
        self._publish(step, staging)

    def _publish(self, step: int, staging: Path) -> None:
        self.ranks.gather(None)  # every rank has written
        if self.ranks.first:

            def move(folder: Path) -> None:
                for item in staging.iterdir():
                    item.rename(folder / item.name)

            self.run.publish_checkpoint(step, move, keep=self.keep)
            staging.rmdir()
        self.ranks.from_first(None)

    def newest(self) -> dict[str, Any] | None:
        """Load weights and optimiser from the newest checkpoint; the loop's state, None where there is no checkpoint.

        Of a run that is trained to its end the state alone: there is nothing to go on with.

        Raises:
            UnreadableCheckpoint: it holds something else than tensors and plain values.
        """
        found = self.ranks.from_first(self.run.checkpoints())
        if not found:
            return None
        folder = found[-1][1]
        if (folder / POLICY).is_dir():
            return load_state(folder / STATE)
        if (folder / SHARDS).exists() != self.policy.sharded:
            raise ConfigError(
                f"{folder} was written by {'several ranks' if not self.policy.sharded else 'one rank'}, which keep the weights in another "
                "form there; resume with the runtime.ranks that it had, or begin a new run"
            )
        state = load_state(folder / STATE)
        if not self.policy.sharded:
            self.policy.restore(state.pop("policy"))
            self.optimizer.load_state_dict(state.pop("optimizer"))
            return state
        from harness.training.shards import read

        read(self.policy, self.optimizer, folder / SHARDS)
        return state


def holds_shards(run: RunDir) -> bool:
    """Tell whether the newest checkpoint of a run was written by a sharded policy."""
    found = run.checkpoints()
    return bool(found) and (found[-1][1] / SHARDS).exists()


def save_fault(run: RunDir, step: int, batch: dict[str, Any]) -> Path:
    """Keep the batch of a faulty update for inspection: `torch.load(path)` gives dicts of tensors."""
    path = run.path / "faults" / f"step-{step:06d}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_state(as_data(batch), path)
    return path
