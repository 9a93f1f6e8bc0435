"""Sets of warmed-up base policies that ship with the package: their manifests, content and checkpoint folders.

A set is a folder under `harness/testbed/bases`: `manifest.json`, the files that all its policies share (`config.json`, tokenizer), and
`NN.safetensors` with the weights of policy NN. `tests/benchmarks/make_bases.py` writes one.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash, flatten
from harness.configuration.registry import nearest
from harness.store.atomic import publish_directory_once

SETS = Path(__file__).parent / "bases"
MANIFEST = "manifest.json"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class BaseSet:
    """One set as its manifest tells it.

    Attributes:
        name: of the set and its folder.
        folder: where it lies.
        recipe: how its policies were warmed up: `version`, `operations`, `architecture`, `demonstrator`, `warmup` (without the seed).
        files: name → sha256 of the files that all policies share.
        weights: sha256 of each policy's weights file, by its place in the set.
    """

    name: str
    folder: Path
    recipe: dict[str, Any]
    files: dict[str, str]
    weights: tuple[str, ...]

    def content(self, index: int) -> str:
        """16 hexadecimal digits that name the content of policy `index`: weights, configuration and tokenizer."""
        return content_hash(self.weights[index], self.files)

    def weights_file(self, index: int) -> Path:
        return self.folder / f"{index:02d}.safetensors"

    def checkpoint(self, index: int, cache: Path) -> Path:
        """The checkpoint folder of policy `index`, put together in `cache` at first use; its name holds its content.

        Raises:
            ConfigError: a file of the package is not what the manifest says.
        """
        folder = cache / f"base-{self.name}-{index:02d}-{self.content(index)}"
        publish_directory_once(folder, lambda path: self._write(index, path))
        return folder

    def _write(self, index: int, folder: Path) -> None:
        parts = [(self.weights_file(index), WEIGHTS, self.weights[index])]
        parts += [(self.folder / name, name, digest) for name, digest in self.files.items()]
        for source, name, digest in parts:
            if not source.exists() or file_hash(source) != digest:
                raise ConfigError(
                    f"{source} is not the file that {self.folder / MANIFEST} names; reinstall rlvr-harness"
                )
            shutil.copyfile(source, folder / name)


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def base_set(name: str) -> BaseSet:
    """The shipped set of that name.

    Raises:
        ConfigError: there is none, naming the nearest.
    """
    if not (SETS / name / MANIFEST).exists():
        known = sorted(path.parent.name for path in SETS.glob(f"*/{MANIFEST}"))
        raise ConfigError(f"model.bases.set has no option {name!r}{nearest(name, known)}")
    return read_set(SETS / name)


@functools.cache
def read_set(folder: Path) -> BaseSet:
    manifest = json.loads((folder / MANIFEST).read_text())
    weights = tuple(entry["sha256"] for entry in manifest["bases"])
    return BaseSet(manifest["set"], folder, manifest["recipe"], manifest["files"], weights)


def check_recipe(name: str, wanted: dict[str, Any], max_operations: int) -> None:
    """Refuse a configuration that asks for what the policies of a set were not made with.

    Args:
        name: of the set.
        wanted: the sections `architecture`, `demonstrator` and `warmup` of a testbed model's configuration.
        max_operations: of the task: prompts are padded to its longest.

    Raises:
        ConfigError: naming the key, the value the set has, and the fix.
    """
    recipe = base_set(name).recipe
    made = flatten({section: recipe[section] for section in wanted}) | {"warmup.seed": 0}
    for key, value in flatten(wanted).items():
        if key == "warmup.seed" and value != 0:
            raise ConfigError(
                f"model.warmup.seed={value} changes nothing with model.bases.set={name}: choose a shipped policy with "
                f"model.bases.first and model.bases.count, or set model.bases.set=null for a warm-up of the run's own"
            )
        if value != made[key]:
            raise ConfigError(
                f"model.{key}={value}, but the shipped policies of model.bases.set={name} were made with {made[key]}: set "
                "model.bases.set=null for a warm-up of the run's own, or leave the key as it is"
            )
    if max_operations != recipe["operations"][1]:
        raise ConfigError(
            f"task.max_operations={max_operations}, but the shipped policies of model.bases.set={name} read prompts of at most "
            f"{recipe['operations'][1]} operations: set model.bases.set=null for a warm-up of the run's own, or leave the key as it is"
        )
