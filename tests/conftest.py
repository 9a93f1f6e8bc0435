"""Fixtures shared by all tests."""

from __future__ import annotations

import copy
import functools
import gc
import importlib.util
import io
import os
import pickle
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from omegaconf import OmegaConf
from small_runs import TWO_HEADS, Bench, small_config
from verbs import Said

from harness.cli import main
from harness.problems.benchmarks import arithmetic
from harness.store import ResultStore
from harness.testbed import recipe as testbed
from harness.testbed.warm_up import cached_folder, prepare_testbed

torch.set_num_threads(1)
# The same examples at every run; new ones with `--hypothesis-profile=search`.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("repeatable")

# The files of the longest tests, longest first: the workers of `make test` take whole files in this order (`--dist loadfile`, so that
# what a file sets up is set up once), and none begins a long one when the others are done.
LONG_FILES = (
    "slurm/test_slurm.py",
    "end_to_end/test_language_model.py",
    "execution/test_launchers.py",
    "training/test_ranks.py",
    "backends/test_trl_ranks.py",
    "experiment/test_shipped.py",
    "verify/test_verify_attacks.py",
    "commands/test_hostile_stores.py",
    "end_to_end/test_own_question.py",
    "store/test_crash_safety_end_to_end.py",
    "configuration/test_conf.py",
    "training/test_resume.py",
    "experiment/test_claim_declarations.py",
    "packaging/test_launch.py",
    "experiments/test_pages.py",
    "verify/test_verify_service.py",
    "end_to_end/test_notebook.py",
    "end_to_end/test_tutorial.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, in the order of `LONG_FILES`; the others as they were."""
    place = {Path(__file__).parent / name: number for number, name in enumerate(LONG_FILES)}
    assert all(path.exists() for path in place), "LONG_FILES names a file that is not there"
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Three workers for a room or more; none for single files, where their start takes longer than it saves."""
    return 0 if all(Path(one.partition("::")[0]).is_file() for one in config.args) else 3


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded by the end of it stays: no pass of the collector of garbage goes over it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)  # compositions make thousands of objects that live
        gc.enable()


# `make test-rest` names here what it has set up: a skip whose reason has one of these words is a failure.
REQUIRED = os.environ.get("HARNESS_REQUIRE", "").replace(",", "|")
Report = pytest.TestReport | pytest.CollectReport


def _failed_where_required(report: Report) -> Report:
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if REQUIRED and re.search(rf"\b({REQUIRED})\b", reason, re.IGNORECASE):
            report.outcome = "failed"
            report.longrepr = f"{reason}\nHARNESS_REQUIRE={os.environ['HARNESS_REQUIRE']} asks for it"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Report, Report]:
    return _failed_where_required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Report, Report]:
    return _failed_where_required((yield))


@pytest.fixture(scope="session")
def warmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which base policies are warmed up, the same for all workers of pytest-xdist."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "base-policy"


@pytest.fixture(scope="session", autouse=True)
def _warmed_up_once(warmed: Path) -> Iterator[None]:
    """Runs in this process copy a base policy that some test has warmed up already into their store."""

    def prepare(config: testbed.Config, task: arithmetic.Config, cache: Path, linear_kernel: str) -> Path:
        folder = cached_folder(config, task, cache)
        if not folder.exists():
            source = prepare_testbed(config, task, warmed / linear_kernel, linear_kernel)
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix=".warmup-") as scratch:
                shutil.copytree(source, Path(scratch) / source.name)
                try:
                    (Path(scratch) / source.name).rename(folder)
                except OSError:
                    assert folder.exists(), "another process was first"
        return folder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.testbed.warm_up.prepare_testbed", prepare)
        yield


@pytest.fixture(scope="session", autouse=True)
def _neither_parsed_again_nor_flushed() -> Iterator[None]:
    """Hydra parses every file of `conf/` for every composition, a quarter of its time; here each text is parsed once a process.

    And what these processes write need not survive a power cut: tests of that have an `fsync` of their own.
    """
    load = OmegaConf.load

    @functools.cache
    def parsed(name: str, text: str) -> bytes:
        stream = io.StringIO(text)
        stream.name = name  # for the words of an error
        return pickle.dumps(load(stream))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OmegaConf, "load", lambda file: pickle.loads(parsed(file.name, file.read())))
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def base_policy(warmed: Path) -> Path:
    """The checkpoint folder of a barely warmed-up testbed policy, the same for all workers of pytest-xdist."""
    config = small_config(**({} if importlib.util.find_spec("vllm") is None else TWO_HEADS))
    return prepare_testbed(copy.deepcopy(config.model), config.task, warmed / "torch", "torch")


@pytest.fixture
def bench(base_policy: Path, tmp_path: Path) -> Iterator[Bench]:
    """Trainers of this test over that policy."""
    bench = Bench(base_policy, ResultStore(tmp_path))
    yield bench
    bench.close()


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def said(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()  # what was printed before
        assert main(list(arguments)) == code
        found = capsys.readouterr()
        assert "Traceback" not in found.err
        return found.err if code == 2 else found.out + found.err

    return said


@pytest.fixture(scope="session")
def tiny_model() -> testbed.Config:
    """The testbed model's configuration with a warm-up of a second."""
    return copy.deepcopy(small_config().model)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultStore:
    monkeypatch.setenv("COLUMNS", "200")
    return ResultStore(tmp_path / "results")
