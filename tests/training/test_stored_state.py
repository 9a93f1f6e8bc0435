"""Checkpoints are data: what else lies in a checkpoint folder is named and refused, and none of it runs."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from small_runs import Bench, small_config
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from harness.configuration.registry import kinds, member
from harness.rollout.types import Completions
from harness.sampling.groups import Groups
from harness.store import UnreadableCheckpoint
from harness.training.checkpoints import STATE
from harness.training.shards import PlainValues, ShardReader
from harness.training.stored_state import as_data, load_state, save_state

CURRICULUM = "harness.sampling.curriculum"


class Hostile:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "code-was-run"


def test_a_resume_refuses_a_hostile_checkpoint_and_runs_none_of_it(bench: Bench, mark: Path) -> None:
    bench.run().publish_checkpoint(2, lambda folder: torch.save({"step": Hostile(mark)}, folder / STATE))
    words = r"step-000002.state\.pt holds posix\.mkdir; .*nothing in it is run\. Delete the folder"
    with pytest.raises(UnreadableCheckpoint, match=words):
        bench.trained(small_config())
    assert not mark.exists()


@dataclass
class Elsewhere:
    """A class of another project."""

    value: int


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_bare_pickle_is_no_checkpoint(tmp_path: Path, mark: Path, protocol: int) -> None:
    (tmp_path / STATE).write_bytes(pickle.dumps(Hostile(mark), protocol=protocol))
    with pytest.raises(UnreadableCheckpoint, match=r"state\.pt is not a checkpoint"):
        load_state(tmp_path / STATE)
    assert not mark.exists()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_class_is_named_and_refused_whatever_the_protocol(
    tmp_path: Path, mark: Path, protocol: int
) -> None:
    for value, name in (
        (Hostile(mark), r"posix\.mkdir"),
        (Elsewhere(1), rf"{Elsewhere.__module__}\.Elsewhere"),
    ):
        torch.save({"step": value, "left": np.arange(3)}, tmp_path / STATE, pickle_protocol=protocol)
        said = rf"holds .*{name}" if protocol == 2 else STATE
        with pytest.raises(UnreadableCheckpoint, match=said):
            load_state(tmp_path / STATE)
    assert not mark.exists()


def groups() -> Groups:
    """Two groups of two responses."""
    tokens = torch.arange(7)
    completions = Completions(
        tokens,
        -tokens.float(),
        tokens * 0.5,
        torch.tensor([1, 2, 3, 1]),
        torch.tensor([True, True, False, True]),
    )
    right = torch.tensor([[True, False], [False, True]])
    return Groups(torch.tensor([4, 9]), completions, right, ~right, right.float())


def assert_same_groups(a: Groups, b: Groups) -> None:
    for one, other in ((vars(a), vars(b)), (vars(a.completions), vars(b.completions))):
        assert one.keys() == other.keys()
        for name, values in one.items():
            assert not isinstance(values, torch.Tensor) or torch.equal(values, other[name]), name


def test_carried_groups_are_stored_as_tensors(tmp_path: Path) -> None:
    save_state({"carried": as_data(groups())}, tmp_path / STATE)
    assert_same_groups(Groups.of_state(load_state(tmp_path / STATE)["carried"]), groups())


@pytest.mark.parametrize("kind", sorted(kinds(CURRICULUM)))
def test_every_curriculums_state_is_data_and_comes_back(tmp_path: Path, kind: str) -> None:
    settings = member(CURRICULUM, kind)
    one, other = (settings.build(settings.Config(), 12, 0) for _ in range(2))
    if hasattr(one, "calibrate"):
        one.calibrate(np.linspace(0, 1, 12))
    for accuracy in (0.0, 0.5, 1.0):
        one.observe(one.draw(4), np.full(4, accuracy))
    save_state(one.state(), tmp_path / STATE)
    other.restore(load_state(tmp_path / STATE))
    for _ in range(4):
        assert one.draw(4).tolist() == other.draw(4).tolist()


def test_what_is_no_data_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"state\['curriculum'\]\['left'\] is a numpy\.ndarray"):
        save_state({"curriculum": {"left": np.arange(2)}}, tmp_path / STATE)
    with pytest.raises(TypeError, match=r"state\['seconds'\]\[1\] is a numpy\.float64"):
        save_state({"seconds": [1.0, np.float64(2.0)]}, tmp_path / STATE)
    assert not (tmp_path / STATE).exists()


def test_dataclasses_become_dicts_of_their_fields() -> None:
    found = as_data({"batch": [Elsewhere(2)], "weight": torch.ones(1, requires_grad=True)})
    assert found == {"batch": [{"value": 2}], "weight": torch.ones(1)}
    assert not found["weight"].requires_grad


# ---- shards ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this process alone, which torch's reader asks for where shards are read."""
    if dist.is_initialized():
        yield
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def read_shards(folder: Path) -> dict[str, object]:
    state: dict[str, object] = {"weight": torch.zeros(3), "rate": 0.0, "betas": None}
    load(state, storage_reader=ShardReader(folder), planner=PlainValues(folder))
    return state


def test_shards_of_tensors_and_plain_values_are_read(alone: None, tmp_path: Path) -> None:
    save({"weight": torch.arange(3.0), "rate": 0.5, "betas": (0.9, 0.99)}, checkpoint_id=tmp_path)
    read = read_shards(tmp_path)
    assert torch.equal(read.pop("weight"), torch.arange(3.0))  # type: ignore[arg-type]
    assert read == {"rate": 0.5, "betas": (0.9, 0.99)}


def test_a_hostile_index_of_shards_does_not_run(alone: None, tmp_path: Path, mark: Path) -> None:
    save({"weight": torch.arange(3.0), "rate": 0.5, "betas": None}, checkpoint_id=tmp_path)
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Hostile(mark)))
    with pytest.raises(CheckpointException, match=r"\.metadata holds posix\.mkdir"):
        read_shards(tmp_path)
    assert not mark.exists()


def test_a_hostile_value_among_the_shards_does_not_run(alone: None, tmp_path: Path, mark: Path) -> None:
    save({"weight": torch.arange(3.0), "rate": 0.5, "betas": Hostile(mark)}, checkpoint_id=tmp_path)
    with pytest.raises(CheckpointException, match="something else than a plain value as betas"):
        read_shards(tmp_path)
    assert not mark.exists()
