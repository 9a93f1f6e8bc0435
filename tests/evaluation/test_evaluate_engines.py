"""`harness evaluate model=` with samples from elsewhere: a server, and vLLM where it is."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from verbs import Said

sys.path.insert(0, str(Path(__file__).parents[1] / "rollout"))

from engine_support import cases, needs_openai
from evaluation_support import ANSWERS, first_cell, samples_of
from fake_server import FakeServer, server_of_base_policy  # noqa: F401 (a fixture)


def greedy(chains: Path) -> list[str]:
    """A protocol in which no noise separates the engines."""
    arguments = [f"data.path={chains}", "template=plain", "evaluation.caps=[16]", "evaluation.temperature=0.0"]
    return [*arguments, "evaluation.top_p=1.0", "evaluation.samples_per_problem=2"]


@needs_openai
def test_a_served_model_needs_only_a_tokenizer_here(
    server: FakeServer, base_policy: Path, chains: Path, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(base_policy / name, tmp_path / "tokenizer")
    native = first_cell(tmp_path, f"model={base_policy}", *greedy(chains))
    remote = [f"model={tmp_path / 'tokenizer'}", "engine=openai", f"engine.base_url={server.base_url}"]
    served = first_cell(tmp_path, *remote, *greedy(chains))
    assert served["settings"] == {
        "engine": "openai", "base_url": server.base_url, "model": server.models[0], "logprobs": "raw"
    }  # fmt: skip
    assert served["avg"] == native["avg"]
    pd.testing.assert_frame_equal(samples_of(tmp_path, served)[ANSWERS], samples_of(tmp_path, native)[ANSWERS])


@needs_openai
def test_the_samples_of_two_models_of_one_address_are_kept_apart(
    server: FakeServer, base_policy: Path, chains: Path, tmp_path: Path
) -> None:
    asked = [f"model={base_policy}", "engine=openai", f"engine.base_url={server.base_url}", *greedy(chains)]
    server.models = ["a", "b"]
    named = [first_cell(tmp_path, *asked, f"engine.model={name}")["samples"] for name in ("a", "b")]
    server.models = ["after"]
    assert len({*named, first_cell(tmp_path, *asked)["samples"]}) == 3
    assert [body["model"] for body in server.requests] == ["a"] * 8 + ["b"] * 8 + ["after"] * 8


@needs_openai
def test_a_server_that_is_not_there_is_one_line(base_policy: Path, chains: Path, tmp_path: Path, said: Said) -> None:
    command = ["evaluate", f"model={base_policy}", "engine=openai", "engine.base_url=http://127.0.0.1:9/v1"]
    command += ["engine.retries=0", f"runtime.results={tmp_path}", *greedy(chains)]
    assert "http://127.0.0.1:9/v1 gave no usable answer" in said(*command, code=1)


@pytest.mark.parametrize("name", cases("vllm"))
def test_vllm_evaluates_a_checkpoint_as_the_native_engine_does(
    name: str, base_policy: Path, chains: Path, tmp_path: Path
) -> None:
    native, other = (
        first_cell(tmp_path, f"model={base_policy}", f"engine={engine}", *greedy(chains)) for engine in ("native", name)
    )
    assert other["settings"]["engine"] == name
    pd.testing.assert_frame_equal(samples_of(tmp_path, other)[ANSWERS], samples_of(tmp_path, native)[ANSWERS])
