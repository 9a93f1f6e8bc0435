"""Weights & Biases: group = experiment, job type = arm, run id = ours, so that a resumed run goes on in the same place."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.error import require
from harness.store.layout import experiment_dir
from harness.tracking._feed import About

MODULES = ("wandb",)
EXTRA = "track"


@dataclass
class Config:
    """The place that rows are sent to.

    Attributes:
        mode: offline (files; `wandb sync` sends them) or online.
        project: of wandb.
        entity: of wandb; null: the user's default.
        directory: where wandb's files go; null: the results root.
        tags: on every run.
    """

    kind: str = "wandb"
    mode: str = "offline"
    project: str = "rlvr-harness"
    entity: str | None = None
    directory: str | None = None
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        require("runtime.trackers.wandb.mode", self.mode, ("offline", "online"))


def destination(config: Config) -> str:
    """The project, of the user's default entity where none is named; offline also the directory of the files."""
    project = f"{config.entity}/{config.project}" if config.entity else config.project
    files = f" in {Path(config.directory).resolve()}" if config.mode == "offline" and config.directory else ""
    return f"{config.mode} {project}{files}"


def open_sink(config: Config, about: About) -> _Sink:
    """A wandb run. Raises what wandb raises: not installed, not logged in, no network."""
    run = _init(
        config,
        about.results,
        id=about.run_id,
        name=f"{about.arm} seed {about.seed}",
        group=about.experiment,
        job_type=about.arm[:64],
        tags=[*config.tags, about.arm_id[:8], f"seed-{about.seed}"],
        config={**about.config, "provenance": dict(about.provenance)},
    )
    return _Sink(run)


def send_results(config: Config, results: Path, experiment: str, files: list[Path]) -> None:
    """Tables and figures of an experiment as one artefact of a run of their own."""
    run = _init(
        config,
        results,
        id=f"results-{experiment}",
        name=f"{experiment} results",
        group=experiment,
        job_type="results",
    )
    artifact = importlib.import_module("wandb").Artifact(f"{experiment}-results", type="results")
    folder = experiment_dir(results, experiment)
    for file in files:
        artifact.add_file(str(file), name=str(file.relative_to(folder)))
    run.log_artifact(artifact)
    run.finish()


def _init(tracker: Config, results: Path, /, **identity: Any) -> Any:
    wandb = importlib.import_module("wandb")
    directory = Path(tracker.directory) if tracker.directory else results
    directory.mkdir(parents=True, exist_ok=True)
    return wandb.init(
        mode=tracker.mode,
        project=tracker.project,
        entity=tracker.entity,
        dir=str(directory),
        reinit="create_new",
        resume="allow",
        settings=wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_meta=True),
        **identity,
    )


class _Sink:
    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)
