"""verl's checkpoints: the newest one to resume from, and the last one as an ordinary `transformers` folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.backends.verl.overrides import Place
from harness.backends.verl.process import VerlFailed, environment, run_to_end
from harness.model.checkpoint import copy_side_files
from harness.store import RunDir

POLICY = "policy"
_TRACKER = "latest_checkpointed_iteration.txt"


def newest_step(checkpoints: Path) -> int:
    """Return the step verl resumes from (`trainer.resume_mode=auto`), 0 for the beginning."""
    tracker = checkpoints / _TRACKER
    text = tracker.read_text().strip() if tracker.exists() else ""
    step = int(text) if text.isdigit() else 0
    return step if (checkpoints / f"global_step_{step}").is_dir() else 0


def remove_old(checkpoints: Path) -> None:
    """Remove what a dead attempt left beside the newest checkpoint; verl only counts what it has saved itself."""
    newest = checkpoints / f"global_step_{newest_step(checkpoints)}"
    for folder in checkpoints.glob("global_step_*"):
        if folder != newest:
            shutil.rmtree(folder)


def export(python: str, run: RunDir, place: Place, step: int, log: Path) -> Path:
    """Merge the shards of a step into the run's checkpoint of that step; returns the policy's folder.

    verl merges in bfloat16. Configuration and tokenizer are the initial policy's: verl's copy has the chat template that it was given for
    prompts that are written out already.

    Raises:
        VerlFailed: the merger ended with an error, or wrote no weights.
    """
    shards = place.checkpoints / f"global_step_{step}" / "actor"

    def write(folder: Path) -> None:
        policy, merged = folder / POLICY, folder / "merged"
        policy.mkdir()
        command = [python, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
        run_to_end(
            [*command, "--local_dir", str(shards), "--target_dir", str(merged)], environment(python), log
        )
        copy_side_files(place.model, policy)
        weights = [*merged.glob("*.safetensors"), *merged.glob("*.safetensors.index.json")]
        if not weights:
            raise VerlFailed(f"verl's model merger left no safetensors of {shards}; see {log}")
        for file in weights:
            file.rename(policy / file.name)
        shutil.rmtree(merged)

    return run.publish_checkpoint(step, write) / POLICY
