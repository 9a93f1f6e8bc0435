"""`harness view` over HTTP: what it shows while runs go on, to whom, and that it leaves the store as it is."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from synthetic_store import build_store, embedded, step_row
from view_support import SMALL, ask, served

from harness.commands._answer import answer_key, sign_answer
from harness.commands._server import Watch
from harness.store import ResultStore, atomic, layout


def run_of(store: ResultStore, arm: int, seed: int):
    return store.run(store.plan("ladder")["arms"][arm]["runs"][str(seed)])


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything under a folder: dates, and what files hold."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [root, *root.rglob("*")]
    }


@pytest.fixture
def growing(tmp_path) -> ResultStore:
    """Two arms, two seeds: seed 0 finished in both, of seed 1 one failed and one never started."""
    return build_store(tmp_path / "results", **SMALL, missing=[((0, 1), "failed"), ((1, 1), "not started")])


def test_the_page_is_the_report_marked_provisional_with_progress_on_top(growing):
    with served(growing.root) as url:
        status, text, headers = ask(f"{url}/ladder")
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    keys = ("progress", "answer", "chart", "samples", "tables")
    order = [text.index(f'<section id="{key}"') for key in keys]
    assert order == sorted(order)
    assert "Provisional, 2 runs of 4" in text
    assert text.count("(provisional, 2 runs of 4)</caption>") >= 2
    assert "not corrected for looking before the end" in text
    now = embedded(text, "progress-data")
    assert now["counts"] == {"failed": 1, "finished": 2, "waiting": 1}
    samples = embedded(text, "sample-data")
    assert (samples["seed"], samples["so_far"]) == (0, [None, None])


def test_progress_counts_steps_and_says_who_works(growing):
    running, lost = run_of(growing, 0, 1), run_of(growing, 1, 1)
    for run in (running, lost):
        manifest = {"arm_id": "x", "seed": 1, "status": "running", "labels": {"steps": "6"}, "attempts": [{}]}
        run.path.mkdir(exist_ok=True)
        run.write_manifest({**manifest, "provenance": {}, "error": None})
    running.append_step({"step": 4, "reward_mean": float("nan"), "seconds_total": 2.5})
    running.new_attempt()
    running.say_phase(0, "evaluating")
    with running.lock(), served(growing.root) as url:
        now = json.loads(ask(f"{url}/ladder.json")[1])
    assert now["counts"] == {"finished": 2, "lost": 1, "running": 1}
    first = next(run for run in now["runs"] if run["status"] == "running")
    assert (first["step"], first["total"], first["phase"]) == (4, 6, "evaluating")
    assert first["seconds_left"] == 2 * 2.5
    assert first["reward"] is None
    assert now["fraction"] == pytest.approx((2 + 4 / 6) / 4)


def test_no_finished_run_yet_shows_curves_and_samples_so_far(tmp_path):
    missing = [((arm, seed), "running") for arm in (0, 1) for seed in (0, 1)]
    store = build_store(tmp_path, **SMALL, missing=missing)
    with served(store.root) as url:
        status, text, _ = ask(f"{url}/ladder")
    assert status == 200
    samples = embedded(text, "sample-data")
    assert samples["so_far"] == [3, 3]  # runs stand at step 3 of 6
    assert len(samples["problems"]) == 6
    assert all(samples["problems"][0]["samples"])
    chart = embedded(text, "chart-data")["charts"][0]["axes"]["rollout steps"][0]
    assert chart["x"] == [0, 3]
    assert all(value is not None for value in chart["mean"])


def test_results_are_computed_again_only_where_the_store_changed(growing):
    with served(growing.root) as url:
        first = ask(f"{url}/ladder")[1]
        version = json.loads(ask(f"{url}/ladder.json")[1])["version"]
        assert f'data-version="{version}"' in first
        assert ask(f"{url}/ladder")[1] == first
        run_of(growing, 0, 1).append_step(step_row(np.random.default_rng(0), 4, 6, 0.5))
        text = ask(f"{url}/ladder")[1]
        assert f'data-version="{version}"' not in text
    charts = {chart["title"]: chart["axes"] for chart in embedded(text, "chart-data")["charts"]}
    assert charts["mean reward"]["rollout steps"][0]["x"][:4] == [1, 2, 3, 4]


@pytest.mark.parametrize("what", ["manifest", "metrics", "samples", "plan", "new run"])
def test_the_version_follows_everything_that_results_are_made_of(growing, what):
    watch, run = Watch(growing.root), run_of(growing, 0, 0)
    before = watch.version("ladder")
    assert watch.version("ladder") == before
    if what == "manifest":
        run.write_manifest(run.manifest())
    elif what == "metrics":
        run.append_step(step_row(np.random.default_rng(0), 7, 7, 0.5))
    elif what == "samples":
        run.write_samples("arithmetic_heldout", 1, 7, run.samples("arithmetic_heldout", 6))
    elif what == "plan":
        growing.write_plan("ladder", growing.plan("ladder") | {"title": "another"})
    else:
        other = run_of(growing, 1, 1)
        other.path.mkdir()
        other.append_step(step_row(np.random.default_rng(0), 1, 6, 0.5))
    assert watch.version("ladder") != before


def test_the_answer_of_the_list_is_marked_until_it_is_of_the_runs_that_are_there(growing):
    """Runs that a merge took over keep their dates."""
    folder, watch = growing.root / "experiments" / "ladder", Watch(growing.root)
    atomic.write_file(folder / "tables" / "answer.md", b"**All is well.**\n")
    atomic.write_file(folder / "report.html", b"")
    sign_answer(growing, "ladder", answer_key(growing, "ladder"))
    assert watch.answer("ladder") == "All is well."
    run = run_of(growing, 0, 1)
    run.write_manifest(run.manifest() | {"status": "finished"})
    os.utime(run.path / layout.MANIFEST, (1, 1))
    assert watch.answer("ladder") == "All is well. (before the newest results)"


def test_remembered_cells_are_those_of_a_fresh_reading(growing):
    watch = Watch(growing.root)
    watch.page("ladder")
    run = run_of(growing, 1, 0)
    samples = run.samples("arithmetic_heldout", 6)
    samples["correct"], samples["verdict"] = True, "right"
    run.write_samples("arithmetic_heldout", 1, 6, samples)
    assert watch.page("ladder") == Watch(growing.root).page("ladder")


def test_torn_files_are_lines_on_the_page(growing):
    (run_of(growing, 0, 0).path / layout.MANIFEST).write_text('{"torn')
    metrics = run_of(growing, 1, 0).path / layout.METRICS_FILE
    metrics.write_text("not json\n" + metrics.read_text())
    part = next((run_of(growing, 0, 1).path / "samples").glob("*/*/part-*"))
    part.write_bytes(b"PAR1 torn")
    with served(growing.root) as url:
        status, text, _ = ask(f"{url}/ladder")
        now = json.loads(ask(f"{url}/ladder.json")[1])
    assert status == 200
    assert "is not JSON" in text
    assert "metrics.jsonl:1: not a JSON object" in text
    assert "is not a readable Parquet file" in text
    assert now["counts"]["unreadable"] == 1


@pytest.mark.parametrize("plan", ['{"torn', '{"schema_version": 1, "arms": 3}', "[]"])
def test_a_plan_that_is_none_is_a_line_on_both_pages(growing, plan):
    layout.plan_file(growing.root, "ladder").write_text(plan)
    error = Watch(growing.root).progress("ladder")["error"]
    assert "ladder" in error
    with served(growing.root) as url:
        for address in (f"{url}/", f"{url}/ladder", f"{url}/ladder.json"):
            status, text, _ = ask(address)
            assert status == 200
            assert "plan" in text
        assert json.loads(ask(f"{url}/ladder.json")[1])["error"] == error


def test_a_computation_that_breaks_is_said_and_tried_again_with_the_next_version(growing, monkeypatch, capsys):
    def broken(*given):
        raise FileNotFoundError("part-000.parquet went away")

    with monkeypatch.context() as patch, served(growing.root) as url:
        patch.setattr("harness.commands._server.results_of", broken)
        status, text, _ = ask(f"{url}/ladder")
        assert status == 200
        assert "part-000.parquet went away" in text
        assert "Traceback" in capsys.readouterr().err
        patch.undo()
        run_of(growing, 0, 1).append_step(step_row(np.random.default_rng(0), 4, 6, 0.5))
        assert '<section id="answer"' in ask(f"{url}/ladder")[1]


def test_reading_leaves_the_store_as_it_is(growing):
    (growing.root / "experiments" / "ladder" / "report.html").write_text("of before")
    before = tree(growing.root)
    with served(growing.root) as url:
        for address in ("/", "/ladder", "/ladder.json", "/ladder", "/nothing", "/../plan.json"):
            ask(url + address)
    assert tree(growing.root) == before


def test_only_named_routes_are_answered(growing):
    (growing.root / "secret.json").write_text("{}")
    with served(growing.root) as url:
        for path in ("/../secret.json", "/..%2fsecret.json", "/ladder/plan.json", "/ladder/", "/.json"):
            status, text, _ = ask(url + path)
            assert status == 404, path
            assert "ladder" in text  # what there is
        assert ask(f"{url}/ladder?x=1")[0] == 200


def test_nothing_but_get_and_head(growing):
    with served(growing.root) as url:
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "NONSENSE"):
            status, text, headers = ask(f"{url}/ladder", method)
            assert (status, headers["x-frame-options"]) == (501, "DENY"), method
            assert "first arm" not in text


def test_head_has_the_headers_and_no_body(growing):
    with served(growing.root) as url:
        got, asked = ask(f"{url}/ladder"), ask(f"{url}/ladder", "HEAD")
    assert asked[:2] == (200, "")
    assert asked[2]["content-length"] == got[2]["content-length"] == str(len(got[1].encode()))
    assert got[2]["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in got[2]


def test_only_names_of_this_machine_are_answered(growing):
    with served(growing.root) as url:
        for host in ("localhost:9000", "LOCALHOST", "127.0.0.1", "[::1]:8000"):
            assert ask(f"{url}/ladder.json", Host=host)[0] == 200, host
        for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "0.0.0.0"):
            status, text, _ = ask(f"{url}/ladder.json", Host=host)
            assert status == 403, host
            assert "first arm" not in text


def names_of(index: str) -> list[str]:
    return [one["name"] for one in embedded(index, "index-data")]


def test_one_experiment_alone(growing):
    growing.write_plan("other", growing.plan("ladder") | {"name": "other"})
    with served(growing.root) as url:
        assert names_of(ask(url)[1]) == ["ladder", "other"]
    with served(growing.root, only="other") as url:
        assert names_of(ask(url)[1]) == ["other"]
        assert ask(f"{url}/ladder")[0] == 404


def test_an_empty_root_says_so(tmp_path):
    with served(tmp_path / "absent") as url:
        assert names_of(ask(url)[1]) == []
    assert not (tmp_path / "absent").exists()


def command(root: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "harness", "view", f"runtime.results={root}", *more]


def test_the_verb_prints_its_address_and_an_interrupt_ends_it_quietly(growing):
    process = subprocess.Popen(
        command(growing.root, "experiment=ladder", "port=0"),
        stdout=-1,
        stderr=-1,
        text=True,
        # Where the tests run in the background interrupts are ignored, and children inherit it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        line = process.stdout.readline()
        url = re.match(r"http://127\.0\.0\.1:\d+/ladder", line)[0]
        assert ask(f"{url}.json")[0] == 200
        _only_this_machine_can_connect(int(re.search(r":(\d+)/", url)[1]))
    finally:
        os.kill(process.pid, signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0
    assert errors.strip() == ""


def _only_this_machine_can_connect(port: int) -> None:
    """The listening socket in the kernel's table: 0100007F is 127.0.0.1."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [row[1] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"]
    assert listening == [f"0100007F:{port:04X}"]


def test_a_taken_port_names_the_key(growing):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = subprocess.run(
            command(growing.root, f"port={port}"), capture_output=True, text=True, check=False, timeout=120
        )
    assert found.returncode == 2
    assert found.stderr.strip().count("\n") == 0
    assert f"port={port} cannot be had (Address already in use); port=0 takes any free one" in found.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("port=65536", "is no port"),
        ("port=http", "is no port"),
        ("token=maybe", "token=maybe; choose true or false"),
        ("experiment=nothing", "holds no experiment"),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_served(growing, given, words, said):
    assert words in said("view", f"runtime.results={growing.root}", given, code=2)


def test_two_hundred_clients_at_once_are_answered(growing):
    with served(growing.root) as url, ThreadPoolExecutor(200) as clients:
        pages = [f"{url}/ladder", f"{url}/ladder.json", url]
        answers = list(clients.map(lambda number: ask(pages[number % 3])[0], range(200)))
    assert answers == [200] * 200


def test_with_a_token_only_who_has_it_sees_anything(growing):
    with served(growing.root, token="secret") as url:
        for path in (
            "/",
            "/ladder",
            "/ladder.json",
            "/secret",
            "/secretladder",
            "/SECRET/",
            "/Secret/ladder",
            "/%73ecre/",
        ):
            status, text, _ = ask(f"{url}{path}")
            assert (status, "ladder" in text) == (403, False), path
        assert names_of(ask(f"{url}/secret/")[1]) == ["ladder"]
        assert ask(f"{url}/secret/ladder")[0] == ask(f"{url}/secret/ladder.json")[0] == 200
        assert ask(f"{url}/secret/ladder", Host="evil.example")[0] == 403


def test_the_verb_makes_a_token(growing):
    process = subprocess.Popen(command(growing.root, "port=0", "token=true"), stdout=-1, stderr=-1, text=True)
    try:
        url = re.match(r"http://127\.0\.0\.1:\d+/", line := process.stdout.readline())[0]
        assert ask(url)[0] == 403
        assert names_of(ask(line.split()[0])[1]) == ["ladder"]
        assert len(line.split()[0]) > len(url) + 40
    finally:
        process.terminate()
        process.communicate(timeout=60)
