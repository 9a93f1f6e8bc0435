"""One run from configuration to finished store entry, with TRL's trainer between our evaluations.

A checkpoint of the run holds Trainer's own; a resume is Trainer's, from a boundary between rollout steps.
"""

import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from harness.backends.trl.settings import absent_packages, refusals
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.model.ranks import Ranks
from harness.model.transformers_policy import merged_weights, save_model
from harness.reward.shaping import Grader
from harness.rollout.types import RolloutEngine
from harness.store import RunDir, layout
from harness.training.attempt import base_policy, fit_memory, out_of_memory
from harness.training.checkpoints import POLICY, STATE, newest_checkpoint, warn_of_lost_steps
from harness.training.loop import warn_of_nothing
from harness.training.opening import open_folder
from harness.training.task import TaskParts

TRAINER = "trainer"  # Trainer's checkpoint inside one of the run


def train_run(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """See `harness.backends`."""
    if reasons := refusals(config):
        raise ConfigError("backend=trl cannot express this run: " + "; ".join(reasons))
    if reasons := absent_packages(config):
        raise ConfigError("; ".join(reasons))
    disable_progress_bar()  # a run's log is no terminal
    with closing(Grader(config.verifier, config.runtime)) as grader:
        torch.set_num_threads(config.runtime.threads)
        ranks = Ranks.join()
        kernel, initial = ranks.from_first(base_policy(config, run, attempt) if ranks.first else None)
        config, initial = fit_memory(config, run), initial.resolve()
        with closing(_TrlRun(TaskParts(config, run, initial, kernel, grader, ranks), attempt)) as trained:
            return trained.finish(stop)


class _TrlRun:
    def __init__(self, parts: TaskParts, attempt: int) -> None:
        self.parts, self.config, self.run, self.ranks = parts, parts.config, parts.run, parts.ranks
        self.attempt, self.scratch = attempt, parts.run.path / "trl"
        self.engine: RolloutEngine | None = None

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()

    def finish(self, stop: Callable[[], bool]) -> bool:
        """Train from the newest checkpoint to the end; return whether the run is complete."""
        step, folder = self.ranks.from_first(self._rewind_run() if self.ranks.first else None)
        if folder is not None and (folder / POLICY).is_dir():
            return True
        if not step:
            warn_of_nothing(self._evaluate(0))
        if not self.config.training.steps:
            return True
        return self._train(folder, stop)

    def _rewind_run(self) -> tuple[int, Path | None]:
        """Go back to the newest checkpoint: its step and folder, 0 and None where there is none. Raises `ConfigError`."""
        folder = newest_checkpoint(self.run)
        if folder is None:
            warn_of_lost_steps(self.run, self.config)
        elif (folder / TRAINER).is_dir():
            world = len(list((folder / TRAINER).glob("rng_state*.pth")))
            if world != self.ranks.world:
                raise ConfigError(f"run {self.run.run_id} began with runtime.ranks={world}: set that to resume")
        step = next((step for step, path in self.run.checkpoints() if path == folder), 0)
        self.run.rewind(step)
        return step, folder

    def _train(self, folder: Path | None, stop: Callable[[], bool]) -> bool:
        from harness.backends.trl.rollouts import Rollouts
        from harness.backends.trl.trainer import Recorder, build

        if self.ranks.first:
            shutil.rmtree(self.scratch, ignore_errors=True)  # what a dead attempt was writing
            self.scratch.mkdir()
        self.ranks.from_first(None)
        rollouts = Rollouts(self.parts)
        recorder = Recorder(self.parts, rollouts, self.attempt, self._evaluate, self._publish, stop)
        trainer = build(self.parts, rollouts, self.scratch, recorder)
        if folder is not None:
            self.parts.curriculum.restore(torch.load(folder / STATE, weights_only=True)["curriculum"])
        try:
            trainer.train(resume_from_checkpoint=str(folder / TRAINER) if folder else None)
        except torch.OutOfMemoryError as error:
            raise out_of_memory(self.config, self.run) from error
        self.ranks.gather(None)  # Trainer looks into its folder once more
        if not self.ranks.first:
            return recorder.ended
        shutil.rmtree(self.scratch, ignore_errors=True)
        if recorder.ended:
            last = trainer.state.global_step // recorder.updates
            write = partial(self._save_policy, trainer.model)
            self.run.publish_checkpoint(last, lambda path: write(path / POLICY), keep=1)
        return recorder.ended

    def _publish(self, step: int, folder: Path) -> None:
        def write(path: Path) -> None:
            folder.rename(path / TRAINER)
            torch.save({"step": step, "curriculum": self.parts.curriculum.state()}, path / STATE)

        self.ranks.gather(None)  # every rank has written its random numbers
        if self.ranks.first:
            self.run.publish_checkpoint(step, write, keep=self.config.runtime.keep_checkpoints)

    def _save_policy(self, model: Any, folder: Path) -> None:
        """Write the policy as an ordinary checkpoint, adapters merged; its float32 weights as they are where products are float32."""
        exact = getattr(self.config.model, "precision", "float32") == "float32"
        save_model(merged_weights(_plain(model)), self.parts.initial, folder, dtype=torch.float32 if exact else None)

    def _evaluate(self, step: int, last: bool = True, model: Any = None) -> dict[str, float]:
        """Evaluate as the built-in trainer does, by one engine that takes the model's weights; without a model the initial policy."""
        parts = self.parts
        parts.say(self.attempt, f"evaluating step {step}" if step else "evaluating the base policy")
        devices = [torch.cuda.current_device()] if self.config.runtime.device == "cuda" else []
        with torch.random.fork_rng(devices):
            if self.engine is None:
                self.engine = open_folder(self.config, parts.initial, parts.linear_kernel, parts.tokenizer)
            self.engine.wake()
            if model is not None:
                self.engine.load_weights(merged_weights(_plain(model)))
            right = parts.evaluator_of(self.engine).evaluate(step, last=last)
            self.engine.sleep()
        parts.say(self.attempt, layout.TRAINING)
        return right


def _plain(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model
