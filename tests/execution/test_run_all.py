"""The supervisor on one machine: outcomes, resuming, isolation of failures."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from sweep_support import STUB_PATH, Spec, run_all, spec, sweep, wait_until
from tables import table

from harness.configuration.error import ConfigError
from harness.configuration.identity import IDENTITY_VERSION
from harness.execution.gpu_leases import GpuLease, GpuLeases
from harness.execution.progress import PlainProgress, Progress
from harness.execution.supervisor import dispatch
from harness.experiment.planning import plan_jobs
from harness.model.system import InstalledGpu
from harness.store import ResultStore, StoreFull
from harness.store.lease import holder as holder_of


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", STUB_PATH)
    return ResultStore(tmp_path / "results")


def run(store: ResultStore, specs: list[Spec], entry: str = "by_config", **options):
    return run_all(store.root, specs, entry=f"stub_worker:{entry}", **options)


# ---- one sweep of runs that end in every way ---------------------------------------------------------------------------------

NEWER = 10
ENDS = {
    0: ({"do": "raise"}, "failed", "RuntimeError: reward model exploded", 2),
    1: ({"do": "signal", "signal": int(signal.SIGKILL)}, "failed", "SIGKILL", 2),
    2: ({"do": "signal", "signal": int(signal.SIGSEGV)}, "failed", "SIGSEGV", 2),
    3: ({"code": 3}, "failed", "exit code 3", 2),
    4: ({}, "finished", "", 1),
    5: ({"code": 75}, "interrupted", "", 1),
    6: ({"do": "exit_message"}, "failed", "exit code 1; no such data set: see conf/benchmark", 2),
    7: ({"do": "refuse"}, "failed", "exit code 78; runtime.ranks=3 cannot be; set runtime.ranks=1", 1),
    8: ({"do": "crash_once"}, "finished", "", 2),
    9: ({"do": "grandchild"}, "finished", "", 1),
    NEWER: ({}, "failed", "newer version", 0),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The store, the summary and what was said."""
    store, stream = ResultStore(tmp_path_factory.mktemp("ended") / "results"), io.StringIO()
    newer = store.run(spec(NEWER).run_id)
    newer.path.mkdir(parents=True)
    (newer.path / "manifest.json").write_text('{"schema_version": 99}')
    specs = [spec(number, **config) for number, (config, *_) in ENDS.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", STUB_PATH)
        progress = PlainProgress(stream, heartbeat_seconds=0)
        summary = run(store, [*specs, specs[4], specs[4]], progress=progress, git_commit="abc")
    return store, summary, stream.getvalue()


@pytest.mark.parametrize("number", ENDS)
def test_one_end_of_any_kind_never_ends_the_rest(ended, number):
    store, summary, said = ended
    (_, outcome, error, attempts), one = ENDS[number], spec(number)
    assert one.run_id in getattr(summary, outcome)
    assert error in summary.errors.get(one.run_id, "")
    assert f"{outcome} arm_{number} seed {number} ({one.run_id})" in said
    if number != NEWER:
        manifest = store.run(one.run_id).manifest()
        assert (manifest["status"], len(manifest["attempts"])) == (outcome, attempts)
        assert store.run(one.run_id).claim_holder() is None


def test_a_run_that_finished_has_its_record(ended):
    store, summary, said = ended
    one = store.run(spec(4).run_id)
    manifest = one.manifest()
    assert (manifest["seed"], manifest["identity_version"]) == (4, IDENTITY_VERSION)
    assert (manifest["labels"], manifest["provenance"]) == (spec(4).labels, {"git_commit": "abc"})
    (attempt,) = manifest["attempts"]
    assert (attempt["index"], attempt["outcome"], attempt["exit_code"]) == (0, "finished", 0)
    assert attempt["pid"] > 0
    assert attempt["ended_at"] >= attempt["started_at"] >= manifest["created_at"]
    assert (one.path / "calls.txt").read_text().count("\n") == 1, "it was asked for three times"
    assert not summary.complete
    assert "11 runs, 0 finished already" in said
    assert f"started arm_4 seed 4 ({spec(4).run_id})" in said
    assert "a second attempt follows" in said


def test_what_a_worker_wrote_and_left_behind(ended):
    store, _, _ = ended
    assert "about to fail" in store.run(spec(0).run_id).manifest()["error"]
    assert (store.run(spec(6).run_id).path / "attempts/000/stdout.log").read_text() == "unfinished line"
    pid = int((store.run(spec(9).run_id).path / "grandchild.txt").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text())


def test_a_failed_run_is_retried_by_the_next_call(store):
    assert run(store, [spec(0, code=3)]).failed == [spec(0).run_id]
    shutil.rmtree(store.run(spec(0).run_id).path / "attempts")  # a pack has none
    summary = run(store, [spec(0)])  # the cause was outside the identity of the run and is gone
    assert summary.finished == [spec(0).run_id]
    manifest = store.run(spec(0).run_id).manifest()
    assert [attempt["outcome"] for attempt in manifest["attempts"]] == ["failed", "failed", "finished"]
    assert [attempt["index"] for attempt in manifest["attempts"]] == [0, 1, 2]
    assert manifest["error"] is None


@pytest.mark.parametrize(
    ("do", "says"),
    [
        ("full", r"^no space left writing checkpoints; free space$"),
        ("full_elsewhere", r"^no space left \(\[Errno 28\] .* 'rollouts\.jsonl'\); free space, then run the same"),
    ],
)
def test_a_worker_without_space_ends_the_sweep_with_its_one_line(store, do, says):
    """Every other run would train up to its first checkpoint, and fail there."""
    specs = [spec(0, do=do), spec(1, steps=3, seconds=0), spec(2), spec(3)]
    with pytest.raises(StoreFull, match=says):
        run(store, specs, workers=1)
    assert [store.run(one.run_id).status for one in specs] == ["interrupted", None, None, None]


def test_an_entry_that_cannot_be_imported_is_reported_per_run(store):
    summary = run_all(store.root, [spec(0), spec(1)], workers=1, entry="no_such_module:main")
    assert len(summary.failed) == 2
    assert "No module named 'no_such_module'" in summary.errors[spec(0).run_id]


def test_a_living_claim_elsewhere_is_left_alone(store):
    with store.run(spec(0).run_id).lock():
        summary = run(store, [spec(0), spec(1)])
    assert summary.elsewhere == [spec(0).run_id]
    assert summary.finished == [spec(1).run_id]
    assert not store.run(spec(0).run_id).exists()


def test_a_worker_waits_for_the_last_worker_of_its_run_to_end(store):
    target, ended = store.run(spec(0).run_id), store.root / "ended"
    command = [sys.executable, "-c", HOLD_WORKER_LOCK, str(target.path), str(ended)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as held:
        held.stdout.readline()
        summary = run(store, [spec(0)])
        held.kill()
    assert summary.finished == [spec(0).run_id]
    assert ended.exists(), "the new worker began before the old one had ended"


HOLD_WORKER_LOCK = """
import sys, time
from pathlib import Path
from harness.store import RunDir
run = Path(sys.argv[1])
with RunDir(run).worker_lock():
    print("held", flush=True)
    while not (run / "attempts/000/stderr.log").exists():  # the new worker opens it, then waits
        time.sleep(0.01)
    time.sleep(0.8)
    Path(sys.argv[2]).touch()
"""


def test_the_fork_server_dying_costs_its_runs_an_attempt_and_the_rest_goes_on(store):
    class KillTheServerOnce(Progress):
        done = False

        def update(self, snapshot):
            holder = holder_of(store.run(spec(0).run_id).path / "worker.lock")
            if not self.done and holder is not None and holder.pid is not None:
                self.done = True
                parent = int(Path(f"/proc/{holder.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
                os.kill(parent, signal.SIGKILL)

    summary = run(store, [spec(0, seconds=3), spec(1), spec(2)], workers=1, progress=KillTheServerOnce())
    assert sorted(summary.finished) == [spec(n).run_id for n in range(3)]
    first, second = store.run(spec(0).run_id).manifest()["attempts"]
    assert (first["outcome"], second["outcome"]) == ("failed", "finished")


def test_a_fork_server_that_is_just_dying_refuses_and_the_next_takes_the_worker(store, monkeypatch):
    refusals = [EOFError("no pid"), ConnectionRefusedError(111, "refused"), EOFError("to warm up")]

    def start(process, whole=ForkServerProcess.start):
        if refusals:
            raise refusals.pop()
        whole(process)

    monkeypatch.setattr(ForkServerProcess, "start", start)
    assert run(store, [spec(0)]).finished == [spec(0).run_id]
    assert not refusals


def test_a_full_disk_ends_the_sweep_with_the_reason(store):
    full = Mock(side_effect=StoreFull("no space left writing manifest.json"))
    with patch("harness.execution.attempt.Attempt.record_start", full), pytest.raises(StoreFull, match="no space left"):
        run(store, [spec(0, seconds=30)])
    assert run(store, [spec(0)]).finished == [spec(0).run_id]


def test_each_run_gets_a_leased_gpu_and_never_more_than_there_are(store):
    leases = GpuLeases(store.cache_dir("leases"), ["GPU-a", "GPU-b"], runs_per_gpu=1)
    other = leases.take()  # as if by another supervisor
    assert other.devices == "GPU-a"
    specs = [spec(number, do="environment") for number in range(3)]
    run(store, specs, workers=3, gpus=leases)
    seen = {(store.run(one.run_id).path / "environment.txt").read_text() for one in specs}
    assert seen == {"GPU-b"}
    other.release()


@pytest.mark.parametrize(("device", "visible"), [("auto", ""), ("cpu", ""), ("cuda", "GPU-a")])
def test_a_run_on_the_cpu_sees_no_gpu(store, monkeypatch, device, visible):
    """With `cuda` no lease means GPUs that the driver does not list."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a")
    run(store, [spec(0, do="environment")], device=device)
    assert (store.run(spec(0).run_id).path / "environment.txt").read_text() == visible


def test_gpu_leases_share_and_span(store):
    directory = store.cache_dir("leases")
    shared = GpuLeases(directory, [0, 1], runs_per_gpu=2)
    taken = [shared.take() for _ in range(4)]
    assert [lease.devices for lease in taken] == ["0", "1", "0", "1"]
    assert shared.take() is None
    spanning = GpuLeases(directory, [0, 1], gpus_per_run=2)
    assert spanning.take() is None
    for lease in taken:
        lease.release()
    assert spanning.take().devices == "0,1"


@pytest.mark.parametrize("name", ["1", "GPU-b"])
def test_a_gpu_has_one_lease_however_it_is_named(store, monkeypatch, name):
    """Slurm numbers the GPUs of a job anew, and CUDA_VISIBLE_DEVICES takes a UUID, too."""
    directory = store.cache_dir("leases")

    def take(gpu: str, uuids: list[str]) -> GpuLease | None:
        installed = tuple(InstalledGpu(str(index), uuid, "H200", "1") for index, uuid in enumerate(uuids))
        monkeypatch.setattr("harness.execution.gpu_leases.installed_gpus", lambda: installed)
        return GpuLeases(directory, [gpu]).take()

    of_a_job = take("0", ["GPU-b"])
    assert take(name, ["GPU-a", "GPU-b"]) is None
    of_a_job.release()
    assert take(name, ["GPU-a", "GPU-b"]).devices == name


@table(__file__, "shared", "override, says")
def test_what_the_runs_of_one_supervisor_share_does_not_differ_between_them(store, override, says):
    jobs = [["algorithm=grpo"], ["algorithm=dapo", override]]
    specs = plan_jobs([[*job, f"runtime.results={store.root}"] for job in jobs], []).specs
    with pytest.raises(ConfigError, match=says):
        dispatch(specs, store, Progress(), "harness run")
    assert store.run_ids() == []


def test_a_run_that_lost_a_file_since_it_finished_is_left_as_it_is_and_names_the_file(store):
    specs = sweep(2, 3, 0.0)
    assert len(run(store, specs, entry="steps").finished) == 2
    lost = store.run(specs[0].run_id)
    (lost.path / "samples/stub/step-000003/part-000.parquet").unlink()
    again = run(store, specs, entry="steps")
    assert again.skipped == [spec.run_id for spec in specs]
    assert "step-000003/part-000.parquet is missing" in lost.fault()
    assert len([*lost.path.glob("attempts/*")]) == 1
