"""Weights & Biases: group = experiment, job type = arm; a run that is resumed goes on in the same place, from the step that W&B has."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.error import require
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


def open_sink(config: Config, about: About) -> _Sink:
    """A wandb run. Raises what wandb raises: not installed, not logged in, no network."""
    wandb = importlib.import_module("wandb")
    directory = Path(config.directory) if config.directory else about.results
    directory.mkdir(parents=True, exist_ok=True)
    run = wandb.init(
        # The same run made anew, or in another results root, is another one there: W&B would drop its steps.
        id=f"{about.run_id}-{re.sub('[^0-9]', '', about.created_at)[:17]}",
        name=f"{about.arm} seed {about.seed}",
        group=about.experiment,
        job_type=about.arm[:64],
        tags=[*config.tags, about.arm_id[:8], f"seed-{about.seed}"],
        config={**about.config, "provenance": dict(about.provenance)},
        mode=config.mode,
        project=config.project,
        entity=config.entity,
        dir=str(directory),
        reinit="create_new",
        resume="allow",
        settings=wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_meta=True),
    )
    return _Sink(run)


class _Sink:
    def __init__(self, run: Any) -> None:
        self._run, self.next_step = run, int(run.step)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)
