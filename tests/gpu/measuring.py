"""What the scripts that measure share: their options, the narrow model of a rehearsal, and the row that each leaves."""

from __future__ import annotations

import argparse
import importlib.util
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

TINY = {"num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 256, "vocab_size": 512}
TINY |= {"num_attention_heads": 4, "num_key_value_heads": 2}  # heads of 32, the least that vLLM knows


def parser(description: str | None) -> argparse.ArgumentParser:
    """Of a script that measures on `--device` and writes `--out`."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--device", default="cuda")
    options.add_argument("--out", type=Path, required=True)
    return options


def parser_of_steps(description: str | None) -> argparse.ArgumentParser:
    """Of a script that measures steps of a random model."""
    options = parser(description)
    options.add_argument("--shape", default="qwen2.5-0.5b")
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--response", type=int, default=1024)
    options.add_argument("--prompts", type=int, default=16)
    options.add_argument("--samples", type=int, default=8)
    options.add_argument("--tiny", action="store_true", help="two narrow layers: a rehearsal on a CPU")
    return options


def measured(engine: str, package: str | None, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What was measured, or why nothing was: the package is absent, or it failed."""
    if package and importlib.util.find_spec(package) is None:
        return {"engine": engine, "absent": f"{package} is not installed"}
    try:
        return measure()
    except Exception as error:
        traceback.print_exc()
        return {"engine": engine, "failed": f"{type(error).__name__}: {error}"}


def leave(row: dict[str, Any], out: Path) -> None:
    """Write a row and print it."""
    out.write_text(json.dumps(row, indent=1))
    print(json.dumps(row))
