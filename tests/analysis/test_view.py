"""`harness view` over HTTP: what it shows while runs go on, to whom, and that it leaves the store as it is."""

from __future__ import annotations

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

from harness.cli import main
from harness.store import ResultStore, layout


def run_of(store: ResultStore, arm: int, seed: int):
    return store.run(store.plan("ladder")["arms"][arm]["runs"][str(seed)])


@pytest.fixture
def growing(tmp_path) -> ResultStore:
    """Two arms, two seeds: seed 0 finished in both, of seed 1 one failed and one never started."""
    return build_store(tmp_path / "results", **SMALL, missing=[((0, 1), "failed"), ((1, 1), "not started")])


def test_the_page_is_the_report_marked_provisional_with_progress_on_top(growing):
    running, rng = run_of(growing, 0, 1), np.random.default_rng(0)
    running.write_manifest(running.manifest() | {"status": "running", "labels": {"steps": "6"}, "attempts": [{}]})
    running.append_step(step_row(rng, 4, 6, 0.5) | {"seconds_total": 2.5})
    running.new_attempt()
    running.say_phase(0, "evaluating")
    with running.lock(), served(growing.root) as url:
        status, text, headers = ask(f"{url}/ladder")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    order = [text.index(f'<section id="{key}"') for key in ("progress", "answer", "chart", "samples", "tables")]
    assert order == sorted(order)
    assert text.count("(provisional, 2 runs of 4)</caption>") >= 2
    assert "not corrected for looking before the end" in text
    progress = re.sub("<[^>]+>+", " ", text[order[0] : order[1]])
    assert re.search(r"first arm seed 1\s+running\s+4/6\s+evaluating\s+5 s", progress)
    assert re.search(r"\+ second arm seed 1\s+waiting", progress)
    assert embedded(text, "sample-data")["so_far"] == [None, None]


def test_no_finished_run_yet_shows_curves_and_samples_so_far(tmp_path):
    missing = [((arm, seed), "running") for arm in (0, 1) for seed in (0, 1)]
    with served(build_store(tmp_path, **SMALL, missing=missing).root) as url:
        text = ask(f"{url}/ladder")[1]
    samples = embedded(text, "sample-data")
    assert samples["so_far"] == [3, 3]  # runs stand at step 3 of 6
    assert all(samples["problems"][0]["samples"])
    assert embedded(text, "chart-data")["charts"][0]["axes"]["rollout steps"][0]["x"] == [0, 3]


@pytest.mark.parametrize("what", ["manifest", "metrics", "samples", "plan", "new run", "nothing"])
def test_a_page_is_made_again_where_the_store_changed_and_only_there(growing, what):
    run = run_of(growing, 0, 0)
    with served(growing.root) as url:
        first, version = ask(f"{url}/ladder")[1], ask(f"{url}/ladder?version")[1]
        assert f'data-version="{version}"' in first
        if what == "manifest":
            run.write_manifest(run.manifest())
        elif what == "metrics":
            run.append_step(step_row(np.random.default_rng(0), 7, 7, 0.5))
        elif what == "samples":
            run.write_samples("arithmetic_heldout", 1, 7, run.samples("arithmetic_heldout", 6))
        elif what == "plan":
            growing.write_plan("ladder", growing.plan("ladder") | {"title": "another"})
        elif what == "new run":
            run_of(growing, 1, 1).path.mkdir()
            run_of(growing, 1, 1).append_step(step_row(np.random.default_rng(0), 1, 6, 0.5))
        changed = what != "nothing"
        assert (ask(f"{url}/ladder?version")[1] != version) == changed
        assert (ask(f"{url}/ladder")[1] != first) == changed
        assert len(ask(f"{url}/?version")[1]) == 16


def test_the_list_has_every_experiment_and_its_stored_sentence(growing):
    growing.write_plan("other", growing.plan("ladder") | {"name": "other"})
    with served(growing.root) as url:
        before = ask(f"{url}/?version")[1]
        assert main(["report", "experiment=ladder", f"runtime.results={growing.root}"]) == 0
        assert ask(f"{url}/?version")[1] != before
        assert re.search(r'<a href="ladder">ladder</a> One seed cannot [^<]+\.</li>', ask(url)[1])
        assert re.findall(r'<li><a href="(\w+)">', ask(url)[1]) == ["ladder", "other"]
    with served(growing.root / "absent") as url:
        assert "No experiment has been started" in ask(url)[1]
    assert not (growing.root / "absent").exists()


@pytest.mark.parametrize("plan", ['{"torn', '{"schema_version": 1, "arms": 3}', "[]"])
def test_what_cannot_be_read_is_a_line_on_the_page(growing, plan):
    (run_of(growing, 0, 0).path / layout.MANIFEST).write_text('{"torn')
    next((run_of(growing, 0, 1).path / "samples").glob("*/*/part-*")).write_bytes(b"PAR1 torn")
    with served(growing.root) as url:
        status, text, _ = ask(f"{url}/ladder")
        assert (status, "is not JSON" in text, "is not a readable Parquet file" in text) == (200, True, True)
        layout.plan_file(growing.root, "ladder").write_text(plan)
        for address in (url, f"{url}/ladder"):
            assert ask(address)[0] == 200
        assert "plan" in ask(f"{url}/ladder")[1]


def test_a_computation_that_breaks_is_said_and_tried_again_with_the_next_version(growing, monkeypatch, capsys):
    def broken(*given):
        raise FileNotFoundError("part-000.parquet went away")

    with monkeypatch.context() as patch, served(growing.root) as url:
        patch.setattr("harness.commands.view.results_of", broken)
        assert "part-000.parquet went away" in ask(f"{url}/ladder")[1]
        assert "Traceback" in capsys.readouterr().err
        patch.undo()
        run_of(growing, 0, 1).append_step(step_row(np.random.default_rng(0), 4, 6, 0.5))
        assert '<section id="answer"' in ask(f"{url}/ladder")[1]


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything under a folder: dates, and what files hold."""
    paths = [root, *root.rglob("*")]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in paths}


def test_only_named_routes_are_answered_to_get_and_head_and_nothing_is_written(growing):
    (growing.root / "secret.json").write_text("{}")
    before = tree(growing.root)
    with served(growing.root) as url:
        for path in ("/../secret.json", "/..%2fsecret.json", "/ladder/plan.json", "/ladder/", "/.json"):
            status, text, _ = ask(url + path)
            assert (status, "ladder" in text) == (404, True), path
        for method in ("POST", "PUT", "DELETE", "NONSENSE"):
            status, text, headers = ask(f"{url}/ladder", method)
            assert (status, headers["x-frame-options"], "first arm" in text) == (501, "DENY", False), method
        got, asked = ask(f"{url}/ladder"), ask(f"{url}/ladder", "HEAD")
        assert asked[:2] == (200, "")
        assert asked[2]["content-length"] == got[2]["content-length"] == str(len(got[1].encode()))
        assert "access-control-allow-origin" not in got[2]
    assert tree(growing.root) == before


def test_only_names_of_this_machine_are_answered_and_with_a_token_who_has_it(growing):
    with served(growing.root) as url:
        for host in ("localhost:9000", "LOCALHOST", "127.0.0.1", "[::1]:8000"):
            assert ask(f"{url}/ladder?version", Host=host)[0] == 200, host
        for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "0.0.0.0"):
            status, text, _ = ask(f"{url}/ladder", Host=host)
            assert (status, "first arm" in text) == (403, False), host
    with served(growing.root, token="secret") as url:
        for path in ("/", "/ladder", "/ladder?version", "/secret", "/secretladder", "/SECRET/", "/%73ecre/"):
            status, text, _ = ask(f"{url}{path}")
            assert (status, "ladder" in text) == (403, False), path
        assert ask(f"{url}/secret/ladder")[0] == ask(f"{url}/secret/?version")[0] == 200
        assert ask(f"{url}/secret/ladder", Host="evil.example")[0] == 403


def test_two_hundred_clients_at_once_are_answered(growing):
    with served(growing.root) as url, ThreadPoolExecutor(200) as clients:
        pages = [f"{url}/ladder", f"{url}/ladder?version", url]
        assert list(clients.map(lambda number: ask(pages[number % 3])[0], range(200))) == [200] * 200


def command(root: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "harness", "view", f"runtime.results={root}", *more]


def test_the_verb_prints_an_address_with_a_token_and_an_interrupt_ends_it_quietly(growing):
    process = subprocess.Popen(
        command(growing.root, "experiment=ladder", "port=0", "token=true"),
        stdout=-1,
        stderr=-1,
        text=True,
        # Where the tests run in the background interrupts are ignored, and children inherit it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        address = process.stdout.readline().split()[0]
        port, token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/(.{40,})/ladder", address).groups()
        assert ask(f"{address}?version")[0] == 200
        assert ask(address.replace(token, "x"))[0] == 403
        # The listening socket in the kernel's table: 0100007F is 127.0.0.1.
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        listening = [row[1] for row in rows if row[1].endswith(f":{int(port):04X}") and row[3] == "0A"]
        assert listening == [f"0100007F:{int(port):04X}"]
    finally:
        os.kill(process.pid, signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, errors.strip()) == (0, "")


def test_a_taken_port_names_the_key(growing, said):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = said("view", f"runtime.results={growing.root}", f"port={port}", code=2)
    assert f"port={port} cannot be had (Address already in use); port=0 takes any free one" in told
