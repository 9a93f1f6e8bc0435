"""Make a set of base policies to ship: warm up one per seed, round to bfloat16, write weights and manifest.

python benchmarks/make_bases.py harness/testbed/bases/NAME --seeds 0-15

A set that exists is continued: its policies stay as they are, those of further seeds follow, and the recipe has to be the same.
Warm-ups take minutes each and are kept in `--cache`, so a repeated command goes on. Weights are rounded to the nearest bfloat16: half
the bytes, and float32 holds them exactly. Another processor, torch or kernel ends with other bits (training amplifies rounding): the
manifest says what they were made with, and the set ships because nobody can make the same one elsewhere.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from harness.configuration.error import ConfigError
from harness.model.linear import resolve_kernel
from harness.model.system import processor
from harness.problems.benchmarks.arithmetic import Config as ArithmeticConfig
from harness.testbed.recipe import MANIFEST, WEIGHTS, Bases, Config, file_hash
from harness.testbed.warm_up import RECIPE_VERSION, prepare_testbed

_THREADS = 1
# The file that says which release of transformers wrote it is the same without saying so.
_FORGOTTEN = "transformers_version"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the set; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python benchmarks/make_bases.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("out", type=Path, help="folder of the set; its name is the set's")
    parser.add_argument("--seeds", default="0-15", help="warm-up seeds FIRST-LAST, one policy each")
    parser.add_argument(
        "--cache", type=Path, default=Path("results/cache"), help="where this machine keeps its warm-ups"
    )
    parser.add_argument("--kernel", choices=("auto", "torch", "onednn"), default="auto")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    torch.set_num_threads(_THREADS)
    seeds = range(int(first), int(last or first) + 1)
    make_set(options.out, seeds, options.cache, options.kernel, Config(bases=Bases(set=None)))
    return 0


def make_set(out: Path, seeds: Sequence[int], cache: Path, kernel: str, config: Config) -> None:
    """Write the policies of `seeds` and, when all are there, the manifest. Policies that the set has already are left alone.

    Args:
        out: folder of the set.
        seeds: warm-up seeds, in the order of the set.
        cache: of warm-ups.
        kernel: `auto`, `torch` or `onednn`.
        config: architecture, demonstrator and warm-up (of its own: `bases.set` is null).

    Raises:
        ConfigError: the set exists and was made by another recipe.
    """
    task, kernel = ArithmeticConfig(), resolve_kernel(kernel)
    out.mkdir(parents=True, exist_ok=True)
    recipe, made_with = _recipe(config, task), _made_with(kernel)
    manifest: dict[str, Any] = {
        "set": out.name,
        "recipe": recipe,
        "made_with": made_with,
        "files": {},
        "bases": [],
    }
    if (out / MANIFEST).exists():
        manifest = json.loads((out / MANIFEST).read_text())
        if manifest["recipe"] != recipe:
            raise ConfigError(f"{out / MANIFEST} tells of another recipe; give the set another name")
    entries = manifest["bases"]
    there = {entry["warmup_seed"] for entry in entries}
    for seed in (seed for seed in seeds if seed not in there):
        warmup = dataclasses.replace(config.warmup, seed=seed)
        folder = prepare_testbed(dataclasses.replace(config, warmup=warmup), task, cache, kernel)
        weights = out / f"{len(entries):02d}.safetensors"
        write_rounded(folder / WEIGHTS, weights)
        manifest["files"] = manifest["files"] or _write_shared_files(folder, out)
        entry = {"warmup_seed": seed, "sha256": file_hash(weights)}
        entries.append(entry if made_with == manifest["made_with"] else {**entry, "made_with": made_with})
        sys.stdout.write(f"{weights.name}: warm-up seed {seed}, {weights.stat().st_size} bytes\n")
    (out / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def _recipe(config: Config, task: ArithmeticConfig) -> dict[str, Any]:
    """Return what all policies of a set have in common."""
    warmup = dataclasses.asdict(config.warmup)
    del warmup["seed"]
    return {
        "version": RECIPE_VERSION,
        "operations": [task.min_operations, task.max_operations],
        "modulus": task.modulus,
        "architecture": dataclasses.asdict(config.architecture),
        "demonstrator": dataclasses.asdict(config.demonstrator),
        "warmup": warmup,
    }


def write_rounded(source: Path, target: Path) -> None:
    """Write a checkpoint's tensors rounded to the nearest bfloat16 (ties to even)."""
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in sorted(load_file(source).items())}
    save_file(tensors, target, metadata={"format": "pt"})
    target.chmod(0o644)


def _write_shared_files(folder: Path, out: Path) -> dict[str, str]:
    """Configuration and tokenizer, which all policies of a set share; name → sha256."""
    hashes = {}
    for path in sorted(folder.glob("*.json")):
        values = json.loads(path.read_text())
        values.pop(_FORGOTTEN, None)
        (out / path.name).write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
        hashes[path.name] = file_hash(out / path.name)
    return hashes


def _made_with(kernel: str) -> dict[str, Any]:
    return {
        "linear_kernel": kernel,
        "threads": _THREADS,
        "torch": torch.__version__,
        "processor": processor().name,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "note": "Weights in float32 rounded to bfloat16. Another processor, torch build or kernel ends with other bits.",
    }


if __name__ == "__main__":
    raise SystemExit(main())
