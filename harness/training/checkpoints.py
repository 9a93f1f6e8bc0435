"""Resumable checkpoints of a run: one file for a native policy, sharded ones written in the background for a sharded policy.

A sharded checkpoint is staged by `torch.distributed.checkpoint` beside the published ones while training goes on, and published when all
ranks have written. It holds whole tensors in pieces, so it resumes on another number of ranks. The last step's holds the policy as an
ordinary checkpoint and the loop's counts: weights and optimiser that nobody trains on would be three times its size.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import torch

from harness.configuration.error import ConfigError
from harness.model.ranks import Ranks, cpu_group
from harness.store import RunDir

STATE, POLICY, SHARDS = "state.pt", "policy", "shards"


class Checkpoints:
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
                torch.save(state if final else trained | state, folder / STATE)
                if final:
                    self.policy.save(folder / POLICY)

            self.run.publish_checkpoint(step, write, keep=self.keep)
            return
        staging = self.run.path / "checkpoints" / f".staging-{step}.tmp"
        if self.ranks.first:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(parents=True)
            torch.save(state, staging / STATE)
        self.ranks.from_first(None)  # nobody writes before the folder is there
        if final:
            self.policy.save(staging / POLICY)
            self._publish(step, staging)
            return
        self._pending = (step, staging, _write_shards(self.policy, self.optimizer, staging / SHARDS))

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

        For a run that was trained to its end only the state is loaded, since there is nothing left to train.
        """
        checkpoints = self.ranks.from_first(self.run.checkpoints())
        if not checkpoints:
            return None
        folder = checkpoints[-1][1]
        state: dict[str, Any] = torch.load(folder / STATE, map_location="cpu", weights_only=True)
        if (folder / POLICY).is_dir():
            return state
        if (folder / SHARDS).exists() != self.policy.sharded:
            raise ConfigError(
                f"{folder} was written by {'several ranks' if not self.policy.sharded else 'one rank'}, which keep the weights in another "
                "form there; resume with the runtime.ranks that it had, or begin a new run"
            )
        if not self.policy.sharded:
            self.policy.restore(state.pop("policy"))
            self.optimizer.load_state_dict(state.pop("optimizer"))
            return state
        _read_shards(self.policy, self.optimizer, folder / SHARDS)
        return state


def holds_shards(run: RunDir) -> bool:
    checkpoints = run.checkpoints()
    return bool(checkpoints) and (checkpoints[-1][1] / SHARDS).exists()


def save_fault(run: RunDir, step: int, batch: dict[str, Any]) -> Path:
    """Keep the batch of a faulty update for inspection: `torch.load(path)` gives dicts of tensors."""
    path = run.path / "faults" / f"step-{step:06d}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(as_data(batch), path)
    return path


def as_data(value: Any) -> Any:
    """Return the same value with dataclasses as dicts of their fields and without gradients, as checkpoints hold it."""
    if dataclasses.is_dataclass(value):
        return {field.name: as_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: as_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_data(item) for item in value]
    return value.detach() if isinstance(value, torch.Tensor) else value


# ---- whole tensors in pieces, readable by any number of ranks ---------------------------------------------------------------


def _write_shards(policy: Any, optimizer: torch.optim.Optimizer, folder: Path) -> Any:
    """Copy the tensors now and write them in a thread; a future with `done()` and `result()`. Collective."""
    from torch.distributed.checkpoint.state_dict_saver import async_save

    return async_save(
        _tensors(policy, optimizer), checkpoint_id=folder, process_group=cpu_group("checkpoints")
    )


def _read_shards(policy: Any, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Load what `_write_shards` wrote, on this or another number of ranks. Collective."""
    from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict
    from torch.distributed.checkpoint.state_dict_loader import load

    # torch fills an empty optimiser state with zeros to load into, but only where no gradient is there.
    optimizer.zero_grad(set_to_none=True)
    tensors = _tensors(policy, optimizer)
    load(tensors, checkpoint_id=folder)
    policy.restore(tensors["policy"])
    set_optimizer_state_dict(policy.scoring, optimizer, tensors["optimizer"])
    for parameter in policy.parameters():
        parameter.grad = torch.zeros_like(parameter)


def _tensors(policy: Any, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    options = StateDictOptions(ignore_frozen_params=True)
    return {
        "policy": policy.state(),
        "optimizer": get_optimizer_state_dict(policy.scoring, optimizer, options=options),
    }
