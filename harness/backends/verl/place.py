"""The files and folders of one attempt of one run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.configuration.identity import content_hash
from harness.configuration.schema import RunConfig, dump

DATA_VERSION = 1


@dataclass(frozen=True)
class Place:
    """Paths of an attempt, all absolute: every process of verl, on whatever node, sees them (a shared file system).

    Attributes:
        run: the run's directory.
        data: folder of the problems as verl reads them; equal content, equal folder.
        model: the initial policy, an ordinary checkpoint folder.
        prompt_tokens: tokens of the longest prompt.
        stop_token_ids: tokens that end a response.
        attempt: number of this attempt.
    """

    run: Path
    data: Path
    model: Path
    prompt_tokens: int
    stop_token_ids: tuple[int, ...]
    attempt: int

    @property
    def folder(self) -> Path:
        """Everything verl writes."""
        return self.run / "verl"

    @property
    def checkpoints(self) -> Path:
        """Verl's checkpoints: `global_step_N` folders."""
        return self.folder / "checkpoints"

    @property
    def metrics(self) -> Path:
        """Verl's file logger; one file an attempt, since it empties the file that it opens."""
        return self.folder / f"metrics-{self.attempt:03d}.jsonl"

    @property
    def ledger(self) -> Path:
        """One line per response that was graded in this attempt, a file per process."""
        return self.folder / f"ledger-{self.attempt:03d}"

    @property
    def validation(self) -> Path:
        """Responses of verl's validations: `STEP.jsonl`."""
        return self.folder / f"validation-{self.attempt:03d}"

    @property
    def train_file(self) -> Path:
        """Training problems."""
        return self.data / "train.parquet"

    @property
    def validation_file(self) -> Path:
        """Problems of all benchmarks."""
        return self.data / "validation.parquet"


def data_folder(config: RunConfig, cache: Path, model: Path) -> Path:
    """Return the folder of a configuration's problems: named by all they depend on (the tokenizer writes chat turns)."""
    depends = [DATA_VERSION, dump(config.task), dump(config.evaluation)["benchmarks"], str(model)]
    return cache / "verl" / content_hash(*depends)
