"""What is stored is data: every verb is asked of a store and an archive full of traps, and runs, sends and opens nothing that they name."""

from __future__ import annotations

import hashlib
import http.server
import io
import itertools
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from audited import AS_MODULE
from planned_runs import finish, plan
from small_runs import FEW
from verbs import ROOT

from harness.cli import FAMILY
from harness.configuration.compose import compose_run
from harness.configuration.identity import run_id
from harness.configuration.registry import kinds
from harness.configuration.schema import dump
from harness.evaluation.stored import write_problems
from harness.problems.problem import Benchmark, Problem
from harness.store import ResultStore
from harness.store.layout import problems_file

AUDITED = Path(__file__).with_name("audited.py")
EXPERIMENT, SECRET = "experiment=clip_lr_grid", "hf_SECRET"
TEMPLATE = "{{ cycler.__init__.__globals__.os.system('touch MARKERS/template') }}{{ messages }}"
MEMBER = """
open(r"MARKERS/member", "a").close()
from dataclasses import dataclass
from harness.objective.advantage import Advantage
@dataclass
class Config(Advantage):
    kind: str = "evil"
    def advantages(self, batch): return batch
"""


class Touch:
    """Pickled, it makes a file where it is loaded."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


@pytest.fixture(scope="module")
def requests() -> Iterator[list[str]]:
    """What a server on this machine was asked; its address comes first."""
    asked: list[str] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('Authorization')}")
            self.send_error(400)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked.append(f"http://127.0.0.1:{server.server_port}/v1")
        yield asked
        server.shutdown()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, base_policy: Path, requests: list[str]) -> Path:
    """`work/results` is the store of a stranger, `reader` what is nobody's business, `markers` where code that ran leaves a file."""
    place = tmp_path_factory.mktemp("hostile")
    for name in ("work", "reader", "markers", "home", "tmp"):
        (place / name).mkdir()
    (place / "reader" / "secret.jsonl").write_text("".join(f'{{"token": "{SECRET}_{i}"}}\n' for i in range(64)))
    shutil.copytree(base_policy, place / "reader" / "model")
    store = ResultStore(place / "work" / "results")
    planned = plan(store, "experiment.seeds=[0]", 'experiment.grid=["optimizer.learning_rate=1e-4,2e-4,4e-4"]')
    record = planned.record() | {"title": "${oc.env:HF_TOKEN}", "question": "${oc.env:HF_TOKEN}"}
    store.write_plan("clip_lr_grid", record)
    for number, spec in enumerate(planned.specs):
        finish(store, spec, 0.4 + 0.05 * number)
        _set_traps(
            store,
            spec.run_id,
            list(planned.arms).index(planned.arm(spec.labels["arm"])),
            place,
            base_policy,
            requests[0],
        )
    (store.root / "cache" / "warm").mkdir(parents=True)
    (store.root / "cache" / "warm" / "state.pt").write_bytes(pickle.dumps(Touch(place / "markers" / "cache")))
    (store.root / "runs" / "linked").symlink_to(place / "reader")
    (store.root / "runs" / ("1" * 16)).symlink_to(place / "reader")
    return place


def _set_traps(store: ResultStore, run_id: str, arm: int, place: Path, base_policy: Path, address: str) -> None:
    run, code = store.run(run_id), f"results/runs/{run_id}/checkpoints/step-000101"
    member = MEMBER.replace("MARKERS", str(place / "markers"))
    config = run.settings()
    secret = str(place / "reader" / "secret.jsonl")
    if arm == 0:
        config["runtime"]["config_dir"] = [code]
        config["algorithm"]["advantage"] = {"kind": "evil", "code": hashlib.sha256(member.encode()).hexdigest()[:16]}
    elif arm == 1:
        config["algorithm"]["reward"]["function"] = f"{code.replace('/', '.')}.pkg.mod:f"
        config["sampling"]["stop_strings"] = ["${oc.env:HF_TOKEN}"]
    else:
        engine = {"kind": "openai", "base_url": address, "api_key_env": "HF_TOKEN", "model": "m"}
        config |= {"engine": engine, "model": {"kind": "pretrained", "path": str(place / "reader" / "model")}}
        config["task"] = {"kind": "dataset", "path": secret}
        data = {"kind": "dataset", "path": secret, "fields": {"problem": "token", "answer": "token"}}
        config["evaluation"]["benchmarks"]["arithmetic_heldout"] = data
        config["runtime"] |= {"verl": {"python": str(place / "reader" / "secret.jsonl"), "ray_address": address}}
        config["runtime"]["trackers"] = {"wandb": {"kind": "wandb", "mode": "online", "entity": address}}
    run.write_config(yaml.safe_dump(config))

    def write(folder: Path) -> None:
        shutil.copytree(base_policy, folder / "policy")
        (folder / "policy" / "chat_template.jinja").write_text(TEMPLATE.replace("MARKERS", str(place / "markers")))
        (folder / "state.pt").write_bytes(pickle.dumps(Touch(place / "markers" / "state")))
        (folder / "objective" / "advantage").mkdir(parents=True)
        (folder / "objective" / "advantage" / "evil.py").write_text(member)
        (folder / "pkg").mkdir()
        (folder / "pkg" / "__init__.py").write_text(member)
        (folder / "pkg" / "mod.py").write_text("def f(response): return 0\n")

    run.publish_checkpoint(101, write)
    asked = Benchmark("held", 1, [Problem(f"p{number:03d}", "?", "1") for number in range(100)])
    write_problems(problems_file(run.path, "arithmetic_heldout"), asked)
    manifest = run.manifest() or {}
    labels = manifest["labels"] | {"${oc.env:HF_TOKEN}": "../../../reader"}
    run.write_manifest(run.seal_manifest({**manifest, "created_at": "2099-01-01T00:00:00.000+00:00", "labels": labels}))


def archive(place: Path, name: str, *, names_of_ours: bool) -> None:
    """The stranger's store as a pack, whole, or without what no pack of ours holds."""
    store = place / "work" / "results"
    with tarfile.open(place / "work" / name, "w:xz", preset=0) as archive:
        for path in sorted(store.rglob("*")):
            file = path.relative_to(store).as_posix()
            if (
                path.is_file()
                and not path.is_symlink()
                and (
                    not names_of_ours
                    or re.search(
                        r"/(plan\.json|config\.yaml|manifest\.json|metrics\.jsonl|part-.*|problems.jsonl)$", file
                    )
                )
            ):
                archive.add(path, file)
        if not names_of_ours:
            entry = tarfile.TarInfo("../../reader/evil")
            entry.size = 1
            archive.addfile(entry, io.BytesIO(b"x"))


def verbs(runs: list[str]) -> dict[str, list[list[str]]]:
    """What each verb is asked, by its name; the last one takes the store away."""
    few = ["evaluation.samples_per_problem=1"]
    return {
        "status": [[], ["--runs"], [EXPERIMENT], *([run] for run in runs[:3]), runs[:2]],
        "plan": [[EXPERIMENT, "experiment.seeds=[0,1]"], ["-m", "optimizer.learning_rate=1e-4,2e-4", "seed=0,1"]],
        "evaluate": [
            *([f"model={run}{mark}", *few] for run in runs for mark in ("", "@0")),
            *([f"model={run}", "benchmark=arithmetic_heldout", *few] for run in runs[:1]),
            *([f"regrade={run}", "verifier=any"] for run in runs),
        ],
        "compare": [[runs[0], runs[-1]], [f"clip_lr_grid/{_arm(0)}", f"clip_lr_grid/{_arm(2)}"]],
        "report": [[EXPERIMENT, "only=page"], [EXPERIMENT, "only=tables"], [EXPERIMENT, "only=methods"]],
        "doctor": [[], ["store=true"]],
        "pack": [[EXPERIMENT, "out=p.tar.xz"]],
        "merge": [
            ["whole.tar.xz", "runtime.results=merged"],
            ["few.tar.xz", "runtime.results=merged"],
            ["results", "runtime.results=merged"],
        ],
        "audit": [["claim=all", "--judge"]],
        "judge": [["results/experiments/clip_lr_grid/frames/scores.csv"]],
        "translate": [["to=trl", "algorithm=dapo"], ["from=trl", f"file=results/runs/{runs[0]}/config.yaml"]],
        "keys": [["optimizer"]],
        "explain": [["rewards=[1,0]", "lengths=[2,3]"]],
        "new": [["experiment=x", f"model={runs[0]}", "task=results/experiments/clip_lr_grid/plan.json"]],
        "view": [],  # below: it goes on until it is stopped
        "run": [],  # below: it trains
    }


def _arm(number: int) -> str:
    return f"learning_rate_{('1e-4', '2e-4', '4e-4')[number]}"


def start(place: Path, commands: list[list[str]]) -> subprocess.Popen[str]:
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "HOME": str(place / "home"), "TMPDIR": str(place / "tmp"),
        "HF_TOKEN": SECRET, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "MPLCONFIGDIR": str(place / "home"),
        "PYTHONDONTWRITEBYTECODE": "1", "TORCHINDUCTOR_CACHE_DIR": str(place / "tmp"),
    }  # fmt: skip
    (place / "commands.json").write_text(json.dumps(commands))
    command = [sys.executable, str(AUDITED), str(place / "log"), str(place / "commands.json")]
    return subprocess.Popen(
        command, cwd=place / "work", env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )


ALLOWED = ("/usr/", "/lib", "/etc/", "/proc/", "/sys/", "/dev/", "/opt/", "/bin/", "/var/lib/")


FORBIDDEN = ("socket.getaddrinfo", "os.system")
FORBIDDEN_CALLS = [("pickle.find_class", [module, "system"]) for module in ("os", "posix")]


def faults(place: Path, markers: Path, requests: list[str]) -> list[str]:
    """What was run, sent and opened that nobody asked for."""
    found = [f"ran: {path.name}" for path in markers.iterdir()] + [f"sent: {line}" for line in requests[1:]]
    places = (ROOT, sys.prefix, sys.base_prefix, *sys.path, *(place / name for name in ("work", "home", "tmp", "log")))
    own = tuple(os.path.realpath(each) for each in places if str(each))
    verb = ""
    for line in (place / "log").read_text().splitlines():
        event, *arguments = json.loads(line)
        if event == "verb":
            verb = " ".join(arguments)
        elif (
            event in FORBIDDEN
            or (event == "socket.connect" and arguments[1].startswith("("))  # an address; workers are asked over files
            or (event, arguments) in FORBIDDEN_CALLS
            or f"{event} {arguments[0]}".startswith("import results.")
        ):
            found.append(f"{verb}: {event} {arguments}")
        elif event.startswith("o") and arguments[0] not in ("None", "") and not event.startswith("os.exec"):
            path = os.path.normpath(place / "work" / arguments[0])
            real = os.path.realpath(path)
            if not all(f"{each}/".startswith((*ALLOWED, *own)) for each in (path, real)):
                found.append(f"{verb}: {event} {arguments}")
    return found


def ask(place: Path, commands: list[list[str]]) -> list[tuple[list[str], int, str]]:
    """What each command answers: its arguments, exit code and words."""
    process = start(place, commands)
    said = process.communicate()[0]
    assert process.returncode == 0, said[-3000:]
    answers: list[tuple[list[str], int, str]] = json.loads(said)
    return answers


def test_no_verb_runs_sends_or_opens_what_a_store_names(place: Path, tmp_path: Path, requests: list[str]) -> None:
    store = ResultStore(place / "work" / "results")
    asked = verbs(store.run_ids())
    missing = set(kinds(FAMILY)) - set(asked)
    assert not missing, f"say here what {missing} is asked of a store of traps"
    here = tmp_path / "place"
    shutil.copytree(place, here, symlinks=True)
    for name, names_of_ours in (("whole.tar.xz", False), ("few.tar.xz", True)):
        archive(here, name, names_of_ours=names_of_ours)
    # First the verbs that load members, once for each run, with another number of samples: so each evaluates anew.
    loading = [["evaluate", f"model={run}", "evaluation.samples_per_problem=2"] for run in store.run_ids()]
    commands = [[verb, *arguments] for verb in asked if verb in kinds(FAMILY) for arguments in asked[verb]]
    answers = ask(here, [["plan", *asked["plan"][0]], *loading, AS_MODULE, *commands])
    assert faults(here, place / "markers", requests) == []
    assert not [each for each in answers if each[1] not in (0, 1, 2) or "Traceback" in each[2] or SECRET in each[2]]
    codes = {" ".join(arguments): (code, text) for arguments, code, text in answers}
    for run, number in itertools.product(map(store.run, store.run_ids()), (1, 2)):
        code, text = codes[f"evaluate model={run.run_id} evaluation.samples_per_problem={number}"]
        names_data = "secret.jsonl" in run.config()
        assert (code, "name it yourself: evaluation.benchmarks" in text) == ((2, True) if names_data else (0, False))
    assert "nothing of it is taken" in codes["merge whole.tar.xz runtime.results=merged"][1]
    assert codes["merge few.tar.xz runtime.results=merged"] == (0, "few.tar.xz: 3 new runs\n")


def test_a_browser_is_shown_a_store_of_traps(place: Path, requests: list[str]) -> None:
    process = start(place, [AS_MODULE, ["view", "port=0"]])
    assert process.stdout is not None
    address = next(line for line in process.stdout if "http://" in line).partition("http://")[2].split("/")[0]
    for page in ("", "clip_lr_grid"):
        with urllib.request.urlopen(f"http://{address}/{page}", timeout=60) as answer:
            assert SECRET not in answer.read().decode()
    process.terminate()
    process.wait(timeout=60)
    assert faults(place, place / "markers", requests) == []


def test_a_run_that_goes_on_is_trained_from_what_the_command_says(place: Path, requests: list[str]) -> None:
    """Its stored configuration and its pickled state are a stranger's."""
    overrides = [*FEW, "training.steps=1", "training.evaluate_every=1", "runtime.workers=1"]
    config, store = compose_run(overrides), ResultStore(place / "work" / "results")
    run, donor = store.run(run_id(config)), store.run(store.run_ids()[0])
    shutil.copytree(donor.path, run.path, ignore=shutil.ignore_patterns("samples", "metrics.jsonl"))
    record = json.loads((run.path / "manifest.json").read_text()) | {"run_id": run.run_id, "status": "interrupted"}
    (run.path / "manifest.json").write_text(json.dumps(record))
    ((_, code, text),) = ask(place, [AS_MODULE, ["run", *overrides]])
    assert faults(place, place / "markers", requests) == []
    assert run.settings()["engine"] == dump(config)["engine"]
    assert (code, run.status) == (1, "failed")
    assert "weights_only" in text, "the pickled state is refused"
