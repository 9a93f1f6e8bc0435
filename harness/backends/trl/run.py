"""One run from configuration to finished store entry, with TRL's trainer between our evaluations.

A checkpoint of the run holds Trainer's own; a resume is Trainer's, from a boundary between rollout steps.
"""

from __future__ import annotations

import dataclasses
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
from harness.evaluation.evaluate import Evaluator
from harness.model.ranks import ALONE, Ranks
from harness.model.transformers_policy import merged_weights, save_model
from harness.reward.shaping import Grader
from harness.store import RunDir, layout
from harness.training.attempt import base_policy, deterministic, fit_memory, out_of_memory
from harness.training.checkpoints import POLICY, STATE, newest_checkpoint, warn_of_lost_steps
from harness.training.loop import warn_of_nothing
from harness.training.run_parts import build_engine, open_policy
from harness.training.task import TaskParts, base_evaluations

TRAINER = "trainer"  # Trainer's checkpoint inside one of the run


def train_run(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """See `harness.backends`.

    Raises:
        ConfigError: TRL cannot train this configuration, or is not installed.
    """
    if reasons := refusals(config):
        raise ConfigError("backend=trl cannot express this run: " + "; ".join(reasons))
    if reasons := absent_packages(config):
        raise ConfigError("; ".join(reasons))
    disable_progress_bar()  # a run's log is no terminal
    with deterministic(config.runtime.deterministic), closing(Grader(config.verifier, config.runtime)) as grader:
        torch.set_num_threads(config.runtime.threads)
        ranks = Ranks.join()
        kernel, initial = ranks.from_first(base_policy(config, run, attempt) if ranks.first else None)
        return _TrlRun(fit_memory(config, run), run, initial.resolve(), kernel, grader, attempt, ranks).finish(stop)


class _TrlRun:
    def __init__(
        self, config: RunConfig, run: RunDir, initial: Path, kernel: str, grader: Grader, attempt: int, ranks: Ranks
    ) -> None:
        self.config, self.run, self.initial, self.kernel = config, run, initial, kernel
        self.grader, self.attempt, self.ranks = grader, attempt, ranks
        self.parts, self.scratch = TaskParts(config, run, initial, grader, ranks), run.path / "trl"

    def finish(self, stop: Callable[[], bool]) -> bool:
        """Train from the newest checkpoint to the end; return whether the run is complete."""
        step, folder = self.ranks.from_first(self._rewind_run() if self.ranks.first else None)
        if folder is not None and (folder / POLICY).is_dir():
            return True
        if not step:
            self.parts.say(self.attempt, "evaluating the base policy")
            warn_of_nothing(self._evaluate(self.initial, 0))
        if not self.config.training.steps:
            return True
        self.parts.say(self.attempt, layout.TRAINING)
        return self._train(folder, stop)

    def _rewind_run(self) -> tuple[int, Path | None]:
        """Go back to the newest checkpoint: its step and folder, 0 and None where there is none.

        Raises:
            ConfigError: another number of processes wrote it.
        """
        folder = newest_checkpoint(self.run)
        if folder is None:
            warn_of_lost_steps(self.run, self.config)
        elif (folder / TRAINER).is_dir():
            world = len(list((folder / TRAINER).glob("rng_state*.pth")))
            if world != self.ranks.world:
                raise ConfigError(
                    f"run {self.run.run_id} began with runtime.ranks={world}, and each process draws random numbers of its own: set it "
                    "(on GPUs runtime.gpus_per_run) to that number to resume"
                )
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
        recorder = Recorder(self.parts, rollouts, self.attempt, self._evaluate_model, self._publish, stop)
        trainer = build(self.parts, rollouts, self.initial, self.scratch, recorder)
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
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        exact = getattr(self.config.model, "precision", "float32") == "float32"
        save_model(merged_weights(plain), self.initial, folder, dtype=torch.float32 if exact else None)

    def _evaluate_model(self, model: Any, step: int, last: bool) -> None:
        self.parts.say(self.attempt, f"evaluating step {step}")
        folder = self.scratch / POLICY
        devices = [torch.cuda.current_device()] if self.config.runtime.device == "cuda" else []
        with torch.random.fork_rng(devices):
            if self.ranks.first:
                self._save_policy(model, folder)
            self.ranks.from_first(None)  # it is there
            self._evaluate(folder, step, last)
            self.ranks.gather(None)  # every rank has read it
        if self.ranks.first:
            shutil.rmtree(folder)
        self.parts.say(self.attempt, layout.TRAINING)

    def _evaluate(self, folder: Path, step: int, last: bool = True) -> dict[str, float]:
        """Evaluate a checkpoint folder exactly as the built-in trainer evaluates its policy."""
        config, parts = self.config, self.parts
        if hasattr(config.model, "lora"):  # adapters are merged
            plain = dataclasses.replace(config.model, lora=dataclasses.replace(config.model.lora, rank=0))
            config = dataclasses.replace(config, model=plain)
        # On CPUs every process has a copy; on GPUs they hold shards of one.
        policy = open_policy(config, folder, self.kernel, ALONE)
        cache = base_evaluations(self.config, self.run, self.initial, self.kernel, self.grader, ALONE)
        with closing(build_engine(config, policy, parts.tokenizer)) as engine:
            stops = parts.params.stop_token_ids
            evaluator = Evaluator(config, self.run, engine, parts.tokenizer, self.grader, stops, cache, self.ranks)
            return evaluator.evaluate(step, last=last)
