"""Ray: one machine, and a cluster of several nodes (raylets) of which one is killed in the middle."""

from __future__ import annotations

import sys
import threading
import time

import pytest
from harness.execution.launch import ray as launcher
from launch_support import Events, use_stubs, work
from sweep_support import spec, sweep, wait_until

from harness.configuration.error import ConfigError
from harness.store import ResultStore


@pytest.fixture(autouse=True)
def _stubs(monkeypatch):
    use_stubs(monkeypatch)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")


def test_without_ray_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[ray\]'"):
        launcher.launch(launcher.Config(), work(tmp_path, [spec(0, steps=1, seconds=0)]), Events())


def test_without_a_cluster_the_message_says_how_to_start_one(tmp_path):
    with pytest.raises(ConfigError, match="ray start --head"):
        launcher.launch(launcher.Config(), work(tmp_path, [spec(0, steps=1, seconds=0)]), Events())


def test_a_killed_node_loses_no_run_and_no_checkpoint(tmp_path):
    from ray.cluster_utils import Cluster

    specs = sweep(4, steps=40, seconds=0.25)
    store = ResultStore(tmp_path)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=2) for _ in range(2)]
        cluster.wait_for_nodes()
        result: list = []

        def go() -> None:
            result.append(
                launcher.launch(launcher.Config(address=cluster.address), work(tmp_path, specs), Events())
            )

        thread = threading.Thread(target=go)
        thread.start()
        wait_until(
            lambda: all((store.run(one.run_id).last_step() or {}).get("step", 0) > 8 for one in specs), 120
        )
        reached = {one.run_id: store.run(one.run_id).checkpoints()[-1][0] for one in specs}
        cluster.remove_node(nodes[0], allow_graceful=False)
        killed_at = time.monotonic()
        thread.join(240)
        assert result, "the launcher did not end"
    finally:
        cluster.shutdown()
    summary = result[0]
    assert sorted(summary.finished) == [one.run_id for one in specs]
    attempts = {one.run_id: len(store.run(one.run_id).manifest()["attempts"]) for one in specs}
    assert sorted(attempts.values()) == [1, 1, 2, 2]  # two ran on the killed node
    for run_id, count in attempts.items():
        steps = store.run(run_id).steps()
        assert list(steps["step"]) == list(range(1, 41))
        if count == 2:
            assert (steps["attempt"] == 1).sum() <= 40 - reached[run_id]
    assert time.monotonic() - killed_at < 240
