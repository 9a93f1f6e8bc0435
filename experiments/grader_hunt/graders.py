"""Graders of the field as reward functions: `algorithm.reward.function=experiments/grader_hunt/graders.py:trl_accuracy`.

Each calls the code of its own package, which must be importable; of packages that import more than their graders need, what is not
installed is replaced by a stub. How to get them stands in README.md beside this file.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock


def math_verify_alone(response: str, gold: str) -> bool:
    """Math-Verify 0.9 with its defaults."""
    import math_verify

    return bool(math_verify.verify(_gold(gold), math_verify.parse(response)))


@functools.lru_cache(4096)
def _gold(gold: str) -> list[object]:
    import math_verify

    return list(math_verify.parse(f"${gold}$"))


def trl_accuracy(response: str, gold: str) -> bool:
    """TRL's `accuracy_reward`, which reads boxes and other LaTeX."""
    module = _imported("trl.rewards.accuracy_rewards")
    return module.accuracy_reward([[{"role": "assistant", "content": response}]], [f"${gold}$"])[0] == 1.0


def verl_gsm8k_strict(response: str, gold: str) -> bool:
    """The `gsm8k` grader of verl: what stands after the last `####`."""
    return _verl("gsm8k").compute_score(response, gold, method="strict") == 1.0


def verl_gsm8k_flexible(response: str, gold: str) -> bool:
    """The `gsm8k` grader of verl: the last number."""
    return _verl("gsm8k").compute_score(response, gold, method="flexible") == 1.0


def verl_math_dapo(response: str, gold: str) -> bool:
    """The `math_dapo` grader of verl: what stands after the last `Answer:`."""
    return bool(_verl("math_dapo").compute_score(response, gold)["acc"])


def open_instruct_gsm8k(response: str, gold: str) -> bool:
    """open-instruct's `GSM8KVerifier`: the last number."""
    return _open_instruct("GSM8KVerifier")([], response, gold).score == 1.0


def open_instruct_math(response: str, gold: str) -> bool:
    """open-instruct's `MathVerifier`: the box, else the last formula, else all of it; in a process of its own, with ANTLR 4.11."""
    process = _math_process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([response, gold]) + "\n")
    process.stdin.flush()
    return {"True\n": True, "False\n": False}[process.stdout.readline()]


def verifiers_boxed(response: str, gold: str) -> bool:
    """The `MathRubric` of verifiers 0.1, which prime-rl trains with: Math-Verify on the last box."""
    boxed = _imported("verifiers.utils.data_utils").extract_boxed_answer(response, strict=True)
    return _imported("verifiers.rubrics.math_rubric").verify_response(boxed, gold, 50_000)[0] == 1.0


@functools.cache
def _open_instruct(name: str) -> Any:
    return getattr(_imported("open_instruct.ground_truth_utils"), name)()


@functools.cache
def _math_process() -> subprocess.Popen[str]:
    """Start this file where `antlr4` is 4.11, which SymPy's reader of LaTeX needs; Hydra needs 4.9 here."""
    folders = [Path(entry, "antlr_4_11") for entry in sys.path]
    found = next((folder for folder in folders if folder.is_dir()), None)
    if found is None:
        raise ImportError("there is no folder antlr_4_11 on the path; README.md says how to get it")
    path = os.pathsep.join([str(found), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, __file__], env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def _answer_lines() -> None:
    """Answer `[response, gold]` a line of the input with True or False, until it ends."""
    answers, sys.stdout = sys.stdout, sys.stderr
    verifier = _open_instruct("MathVerifier")
    for line in sys.stdin:
        answers.write(f"{verifier([], *json.loads(line)).score == 1.0}\n")
        answers.flush()


@functools.cache
def _verl(name: str) -> ModuleType:
    """Load one file of verl's graders, without verl itself, which imports Ray and its engines."""
    package = importlib.util.find_spec("verl")
    if package is None or not package.submodule_search_locations:
        raise ImportError("verl is not importable; README.md says how to get it")
    path = Path(package.submodule_search_locations[0], "utils", "reward_score", f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"verl_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _imported(name: str) -> ModuleType:
    """Import a module; what its package imports and is not installed becomes a stub."""
    root = name.partition(".")[0]
    for _ in range(100):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name or root
            if missing == root:
                raise ImportError(f"{root} is not importable; README.md says how to get it") from error
            for begun in [key for key in sys.modules if key.partition(".")[0] == root]:
                del sys.modules[begun]
            sys.modules[missing] = MagicMock(name=missing)
    raise ImportError(f"{name} imports too much that is not installed")


if __name__ == "__main__":
    _answer_lines()
