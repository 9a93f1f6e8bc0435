"""`harness evaluate model=FOLDER` of folders that are no models, damaged or hostile: one line, in bounded time."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evaluation_support import first_cell
from tables import table
from verbs import Said, jsonl

from harness.configuration.error import ConfigError
from harness.problems.problem import Problem
from harness.rollout import types
from harness.store.seal import add_seal

Change = Callable[[Path], Any]
CODE = "open('PWNED', 'w').write('ran')\nfrom transformers import *\nclass Mod(LlamaForCausalLM): pass\n"


def keys(file: str, **values: Any) -> Change:
    def change(folder: Path) -> None:
        path = folder / file
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def holds(file: str, content: bytes | str) -> Change:
    return lambda folder: (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())


def no_numbers(folder: Path) -> None:
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-4000:] = b"\xff" * 4000
    (folder / "model.safetensors").write_bytes(content)


def without_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


def weights_elsewhere(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "w.safetensors")
    index = {"weight_map": {"model.embed_tokens.weight": "../w.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def remote_code(folder: Path) -> None:
    (folder / "evil.py").write_text(CODE)
    keys("config.json", auto_map={"AutoConfig": "evil.Mod", "AutoModelForCausalLM": "evil.Mod"}, model_type="evil")(
        folder
    )


FOLDERS: dict[str, tuple[Change, str]] = {
    "code of its own": (remote_code, "it brings code of its own, which is not run"),
    "configuration torn": (holds("config.json", "{"), "is no model that can be used"),
    "configuration deep": (holds("config.json", "[" * 100_000), "is no model that can be used"),
    "configuration a list": (holds("config.json", "[]"), "is no model that can be used"),
    "negative heads": (keys("config.json", num_attention_heads=-1), "is no model that can be used"),
    "unknown type": (keys("config.json", model_type="nonsense"), "is no model that can be used"),
    "huge layers": (keys("config.json", num_hidden_layers=10**6), ""),
    "tokenizer torn": (holds("tokenizer.json", "{"), "is no model that can be used"),
    "tokenizer random": (holds("tokenizer.json", random.Random(2).randbytes(4000)), "is no model that can be used"),
    "backtracking": (
        keys("tokenizer.json", pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}),
        "",
    ),
    "tokenizer gone": (without_tokenizer, "has no tokenizer (tokenizer.json); copy the files"),
    "weights torn": (holds("model.safetensors", struct.pack("<Q", 2**62) + b"{}"), "is not a whole file of weights"),
    "weights outside": (weights_elsewhere, "model/w.safetensors"),
    "weights no numbers": (no_numbers, "holds values that are no numbers"),
}  # fmt: skip
PROBLEM = [{"id": "a", "problem": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1+1!", "answer": "2"}]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_is_no_model_is_one_line(
    name: str, base_policy: Path, tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", lambda _: "y")  # who is asked whether to run its code
    change, words = FOLDERS[name]
    shutil.copytree(base_policy, tmp_path / "model")
    (tmp_path / "model" / "files.seal").unlink(missing_ok=True)
    change(tmp_path / "model")
    problems = jsonl(tmp_path / "p.jsonl", PROBLEM)
    asked = [f"data.path={problems}", "template=plain", "evaluation.caps=[8]", "evaluation.samples_per_problem=1"]
    told = said("evaluate", "model=./model", *asked, f"runtime.results={tmp_path / 'results'}", code=2)
    assert words in told
    assert told.strip().count("\n") == 0, told
    assert not (tmp_path / "PWNED").exists()


def test_a_flipped_bit_of_a_sealed_checkpoint_is_refused(
    base_policy: Path, chains: Path, tmp_path: Path, said: Said
) -> None:
    """One flipped bit in a stored policy gave numbers, with exit code 0."""
    checkpoint = tmp_path / "step-000008"
    checkpoint.mkdir()
    add_seal(lambda folder: shutil.copytree(base_policy, folder / "policy") and None)(checkpoint)
    asked = [f"data.path={chains}", "template=plain", "evaluation.caps=[16]", "evaluation.samples_per_problem=1"]
    assert first_cell(tmp_path, f"model={checkpoint}", *asked)["n_samples"] == 4
    weights = checkpoint / "policy" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 64
    weights.write_bytes(content)
    told = said("evaluate", f"model={checkpoint}", *asked, f"runtime.results={tmp_path}", code=2)
    assert "policy/model.safetensors has other content" in told


class Turns:
    """A tokenizer with a chat template of this text, as `transformers` renders it."""

    def __init__(self, template: str) -> None:
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast

        self.own = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
        self.own.chat_template = template


@table(__file__, "templates", "template, words")
def test_a_chat_template_has_a_limit_of_time_and_memory(
    template: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop without an end was killed after 40 seconds; ten billion letters were a traceback."""
    monkeypatch.setattr(types, "_TEMPLATE_SECONDS", 1.0)
    benchmark = types.Benchmark("b", 1, [Problem("a", "1+1", "2")], chat=True)
    with pytest.raises(ConfigError, match=words):
        types.prompt_tokens(Turns(template).own, benchmark)
