"""An interpreter whose `verl` is the stand-in under `fake/`, and a run that trains with it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from small_runs import small_config

from harness.backends import verl
from harness.base_policy import pretrained
from harness.configuration.schema import RunConfig
from harness.store import ResultStore, RunDir

FAKE = Path(__file__).with_name("fake")


def interpreter(folder: Path, version: str = "0.9.1") -> Path:
    """A script that runs this interpreter with the stand-in of a version on its path ("": without any)."""
    packages = folder / "packages"
    if version:
        shutil.copytree(FAKE, packages)
        (packages / "verl-0.9.1.dist-info").rename(packages / f"verl-{version}.dist-info")
        metadata = packages / f"verl-{version}.dist-info" / "METADATA"
        metadata.write_text(metadata.read_text().replace("0.9.1", version))
    script = folder / "python"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return script


def verl_run(tmp_path: Path, base_policy: Path) -> tuple[RunConfig, RunDir]:
    """A configuration of a few seconds for backend=verl and an empty run directory."""
    config = small_config()
    config.model = pretrained.Config(path=str(base_policy))
    config.backend = verl.Config()
    config.runtime.verl.python = str(interpreter(tmp_path / "environment"))
    run = ResultStore(tmp_path / "results").run("0123456789abcdef")
    run.path.mkdir(parents=True)
    return config, run
