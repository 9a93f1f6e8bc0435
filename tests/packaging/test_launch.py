"""examples/launch, as far as this machine goes: the shares of Kueue and SkyPilot run and merge, the Slurm job goes back into the queue."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from small_runs import FEW
from verbs import Said

from harness.cli import main

LAUNCH = Path(__file__).parents[2] / "examples" / "launch"
SMALL = [*FEW, "training.steps=2", "training.evaluate_every=2", "runtime.workers=1"]


def script(name: str) -> str:
    """The shell text that a pod or a machine runs."""
    read = yaml.safe_load((LAUNCH / name).read_text())
    if name == "skypilot.yaml":
        return str(read["run"])
    (container,) = read["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["bash", "-c"]
    return str(container["args"][0])


def environment(**more: str) -> dict[str, str]:
    path = [str(Path(sys.executable).parent), str(LAUNCH), os.environ["PATH"]]
    return {**os.environ, "PATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1", **more}


def run(command: list[str], where: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, check=False, timeout=600)


def test_every_share_runs_its_seeds_and_they_merge_into_one_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pod 0 and machine 1: the two files share the seeds alike."""
    kueue = script("kueue-job.yaml").replace('" 4 ', '" 2 ').replace("/volume", str(tmp_path))
    sky = script("skypilot.yaml").replace("/packs", str(tmp_path / "packs"))
    small = f"experiment=base_variance {' '.join(SMALL)}"
    shares = [
        (kueue, {"JOB_COMPLETION_INDEX": "0"}),
        (sky, {"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2", "HOME": str(tmp_path)}),
    ]
    for text, told in shares:
        assert "experiment=dapo_ladder" in text
        done = run(
            ["bash", "-c", text.replace("experiment=dapo_ladder", small)],
            tmp_path,
            environment(SEEDS="3 5", **told),
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    packs = sorted(map(str, (tmp_path / "packs").glob("*.tar.xz")))
    assert [Path(pack).name for pack in packs] == [f"base_variance-{index}.tar.xz" for index in (0, 1)]
    here = f"runtime.results={tmp_path / 'merged'}"
    assert main(["merge", *packs, here]) == 1  # the second plan asks for other seeds than the first
    seeds = "experiment.seeds=[3,5]"  # who asks for the seeds of all shares finds their runs
    assert main(["run", "--no-answer", "experiment=base_variance", *SMALL, seeds, here]) == 0
    capsys.readouterr()
    assert main(["report", "experiment=base_variance", "only=table", here, "--json"]) == 0
    (metric,) = json.loads(capsys.readouterr().out)["metrics"]
    assert all(list(arm["by_seed"]) == ["3", "5"] for arm in metric["arms"])


def test_a_share_without_seeds_and_a_wrong_argument_end_at_once(tmp_path: Path) -> None:
    share = [str(LAUNCH / "share.sh")]
    left_over = run([*share, "2", "3", ".", "experiment=aa"], tmp_path, environment(SEEDS="0 1"))
    assert (left_over.returncode, left_over.stdout) == (0, "share 2 of 3: no seeds are left for it\n")
    wrong = run([*share, "0", "1", ".", "experiment=nothing_of_the_kind"], tmp_path, environment())
    assert wrong.returncode == 2
    assert "nothing_of_the_kind" in wrong.stderr


def test_the_command_for_a_cluster_of_ray_joins_the_one_that_runs(said: Said) -> None:
    pytest.importorskip("hydra_plugins.hydra_ray_launcher", reason="pip install --no-deps hydra-ray-launcher")
    head = (LAUNCH / "ray-cluster.yaml").read_text().partition("cluster_name:")[0]
    _, command, _ = head.replace("\\\n#", "").split("'")
    launcher = said(*shlex.split(command.partition("bin/harness ")[2]), "--cfg", "hydra", "-p", "hydra.launcher.ray")
    # `ray.init` takes no size of the object store beside an address.
    assert yaml.safe_load(launcher)["init"] == {"address": "auto", "object_store_memory": None}


@pytest.mark.parametrize(("code", "requeued"), [(0, False), (1, False), (75, True)])
def test_the_slurm_job_goes_back_into_the_queue_only_if_there_is_more_to_do(
    tmp_path: Path, code: int, requeued: bool
) -> None:
    stand_ins(tmp_path, f"exit {code}")
    done = run(["bash", str(LAUNCH / "slurm.sbatch"), "experiment=aa"], tmp_path, slurm(tmp_path))
    assert done.returncode == code
    assert (tmp_path / "asked").read_text() == "run experiment=aa\n"
    assert (tmp_path / "requeued").exists() == requeued


def test_slurms_signal_reaches_the_runs(tmp_path: Path) -> None:
    stand_ins(tmp_path, "trap 'sleep 0.5; exit 75' TERM; touch ready; while :; do sleep 0.1; done")
    process = subprocess.Popen(
        ["bash", str(LAUNCH / "slurm.sbatch"), "experiment=aa"], cwd=tmp_path, env=slurm(tmp_path)
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 75
    assert (tmp_path / "requeued").read_text() == "requeue 42\n"


def stand_ins(folder: Path, harness: str) -> None:
    """Programs in the place of `harness` and Slurm's `scontrol`, which write down what they were asked."""
    (folder / "bin").mkdir()
    for name, text in (("harness", f'echo "$@" > asked\n{harness}'), ("scontrol", 'echo "$@" > requeued')):
        path = folder / "bin" / name
        path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
        path.chmod(0o755)


def slurm(folder: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "SLURM_JOB_ID": "42"}
