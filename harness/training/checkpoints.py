"""Checkpoints of a run: weights, optimiser and what the loop keeps besides, as tensors and plain values."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.model.policy import NativePolicy
from harness.model.ranks import Ranks, objects_group
from harness.store import RunDir
from harness.training.task import warn

STATE, POLICY, WHOLE, SHARDS = "state.pt", "policy", "trained.pt", "shards"


class Checkpoints:
    """Checkpoints of a run.

    One process writes plain files: the native policy's all in `state.pt`, the transformers policy's weights and optimiser whole in
    `trained.pt`. Several ranks write them as `shards`. The last two are read on any number of ranks.
    """

    def __init__(self, run: RunDir, keep: int, policy: Any, optimizer: torch.optim.Optimizer, ranks: Ranks) -> None:
        self.run, self.keep, self.policy, self.optimizer, self.ranks = run, keep, policy, optimizer, ranks

    def save(self, step: int, state: dict[str, Any], final: bool) -> None:
        """Publish everything a resume needs; after the last step (`final`) the policy as an ordinary checkpoint. Collective.

        `state`: what the loop keeps besides weights and optimiser, as tensors and plain values; the same on every rank but for `waiting`.
        """
        state = state if final else {**state, "waiting": self.ranks.gather(state["waiting"])}
        keep = 1 if final else self.keep
        if self.ranks.world == 1:
            self.run.publish_checkpoint(step, lambda folder: self._write(folder, state, final), keep=keep)
            return
        staging = self.run.path / "checkpoints" / f".staging-{step}.tmp"
        if self.ranks.first:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(parents=True)
        self.ranks.from_first(None)  # nobody writes before the folder is there
        self._write(staging, state, final)
        self.ranks.gather(None)  # every rank has written
        if self.ranks.first:

            def move(folder: Path) -> None:
                for item in staging.iterdir():
                    item.rename(folder / item.name)

            self.run.publish_checkpoint(step, move, keep=keep)
            staging.rmdir()
        self.ranks.from_first(None)

    def _write(self, folder: Path, state: dict[str, Any], final: bool) -> None:
        """Write this rank's part."""
        native = isinstance(self.policy, NativePolicy)
        if not (native or final or self.optimizer.state):  # torch fills an empty one by a step at rate 0, and counts it
            _tensors(self.policy, self.optimizer)
            for each in self.optimizer.state.values():
                each["step"].zero_()
        tensors = {} if final else _tensors(self.policy, self.optimizer)
        if self.ranks.first:
            _save(state | tensors if native else state, folder / STATE)
        if final:
            self.policy.save(folder / POLICY)
        elif self.ranks.world > 1:
            from torch.distributed.checkpoint.state_dict_saver import save

            save(tensors, checkpoint_id=folder / SHARDS, process_group=objects_group())
        elif not native:
            _save(tensors, folder / WHOLE)

    def newest(self) -> dict[str, Any] | None:
        """Load weights and optimiser from the newest checkpoint that is what was written; the loop's state, None where there is none.

        One that is not is told of and passed over. For a run that was trained to its end only the state is loaded, since there is nothing
        left to train.
        """
        folder = self.ranks.from_first(newest_checkpoint(self.run) if self.ranks.first else None)
        if folder is None:
            return None
        state: dict[str, Any] = torch.load(folder / STATE, map_location="cpu", weights_only=True)
        if (folder / POLICY).is_dir():
            return state
        waiting = state["waiting"] if any(state["waiting"]) else [[]] * self.ranks.world
        if len(waiting) != self.ranks.world:
            raise ConfigError(f"{folder} has what waits on each of its {len(waiting)} ranks; resume with as many")
        state["waiting"] = waiting[self.ranks.rank]
        whole, shards, native = folder / WHOLE, folder / SHARDS, isinstance(self.policy, NativePolicy)
        if native == (whole.exists() or shards.exists()):
            kind = "transformers" if native else "native"
            raise ConfigError(f"{folder} is of the {kind} policy; resume with the runtime.ranks and device that it had")
        if shards.exists():
            _read_shards(self.policy, self.optimizer, shards)
        else:
            source = state if native else torch.load(whole, map_location="cpu", weights_only=True)
            _restore(self.policy, self.optimizer, {name: source.pop(name) for name in ("policy", "optimizer")})
        return state


def has_transformers_checkpoint(run: RunDir) -> bool:
    return any((folder / name).exists() for _, folder in run.checkpoints() for name in (WHOLE, SHARDS))


def newest_checkpoint(run: RunDir) -> Path | None:
    """The newest checkpoint that is what was written, None where there is none; tells of those that are passed over."""
    folder, faults = run.newest_checkpoint()
    for fault in faults:
        warn(f"{fault}; this checkpoint is left out" + (f", {folder.name} is taken" if folder else ""))
    return folder


def warn_of_lost_steps(run: RunDir, config: RunConfig) -> None:
    """Tell how many steps a run without a checkpoint trains once more."""
    if lost_steps := (run.last_step() or {"step": 0})["step"]:
        every = f"runtime.checkpoint_every={config.runtime.checkpoint_every}"
        warn(f"the run starts again from step 1 and trains {lost_steps} steps anew: no checkpoint is left ({every})")


def save_fault(run: RunDir, step: int, batch: dict[str, Any]) -> Path:
    """Keep the batch of a faulty update for inspection: `torch.load(path)` gives dicts of tensors."""
    path = run.path / "faults" / f"step-{step:06d}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(as_data(batch), path)
    return path


def as_data(value: Any) -> Any:
    """Return the same value as checkpoints hold it: dataclasses as dicts of their fields, numbers of NumPy as plain ones, no gradients."""
    if dataclasses.is_dataclass(value):
        return {field.name: as_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: as_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_data(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value.detach() if isinstance(value, torch.Tensor) else value


def _save(tensors: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:  # by a path torch would not say that the disk is full
        torch.save(tensors, file)


def _read_shards(policy: Any, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Load shards that this or another number of ranks wrote. Collective."""
    from torch.distributed.checkpoint.state_dict_loader import load

    # torch fills an empty optimiser state with zeros to load into, but only where no gradient is there.
    optimizer.zero_grad(set_to_none=True)
    tensors = _tensors(policy, optimizer)
    load(tensors, checkpoint_id=folder, process_group=objects_group())
    _restore(policy, optimizer, tensors)


def _tensors(policy: Any, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Weights and optimiser as a checkpoint holds them: whole on one rank, this rank's shards on several."""
    if isinstance(policy, NativePolicy):
        return {"policy": policy.state(), "optimizer": optimizer.state_dict()}
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    state = get_optimizer_state_dict(policy.scoring, optimizer, options=policy.state_options())
    return {"policy": policy.state(), "optimizer": state}


def _restore(policy: Any, optimizer: torch.optim.Optimizer, tensors: dict[str, Any]) -> None:
    """Take weights and optimiser back, whole or as this rank's shards. Collective."""
    policy.restore(tensors["policy"])
    if isinstance(policy, NativePolicy):
        optimizer.load_state_dict(tensors["optimizer"])
        return
    from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict

    optimizer.zero_grad(set_to_none=True)  # see `_read_shards`
    set_optimizer_state_dict(
        policy.scoring, optimizer, tensors["optimizer"], options=policy.state_options(tensors["policy"])
    )
