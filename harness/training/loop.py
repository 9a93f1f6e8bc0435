"""The reinforcement-learning loop: collect, update, record, evaluate, checkpoint; stops cleanly and resumes exactly."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.benchmark import load_benchmark
from harness.config import RunConfig, dump
from harness.evaluation.evaluate import Evaluator
from harness.grading import Grader
from harness.identity import content_hash
from harness.model.checkpoint import load_tokenizer
from harness.model.policy import NativePolicy
from harness.objective.objective import Objective
from harness.registry import implementation
from harness.reward.shaping import shaped_rewards
from harness.rollout.noise import key, sample_seeds
from harness.rollout.prompts import prompt_tokens
from harness.rollout.types import SamplingParams
from harness.sampling.collector import collect
from harness.sampling.groups import Groups
from harness.sampling.source import SourceContext
from harness.store import RunDir
from harness.training.step_metrics import rollout_row, update_row
from harness.training.update import Updater

STATE = "state.pt"
POLICY = "policy"


def base_evaluations(
    config: RunConfig, run: RunDir, initial: Path, linear_kernel: str, grader: Grader
) -> Path:
    """The store's folder for samples of this initial policy under this protocol (see `Evaluator`)."""
    versions = {name: load_benchmark(item).version for name, item in config.evaluation.benchmarks.items()}
    protocol = [dump(config.evaluation), dump(config.verifier), dump(config.engine)]
    depends = [initial.name, linear_kernel, versions, protocol, grader.verifier.fingerprint()]
    return run.path.parent.parent / "cache" / "evaluations" / content_hash(*depends)


class Trainer:
    """One run from its initial policy (or newest checkpoint) to its last step."""

    def __init__(
        self, config: RunConfig, run: RunDir, initial: Path, linear_kernel: str, grader: Grader
    ) -> None:
        self.config, self.run, self.grader = config, run, grader
        self.tokenizer = load_tokenizer(initial)
        self.policy = NativePolicy.load(
            initial, linear_kernel, "cuda" if config.runtime.device == "cuda" else "cpu"
        )
        self.objective = Objective(config.algorithm)
        self.updater = Updater(config, self.policy, self.objective)
        self.engine = implementation("harness.rollout.engine", config.engine).build(
            config.engine, self.policy, config.runtime
        )
        task = load_benchmark(config.task)
        self.problems = task.problems
        self.prompts = prompt_tokens(self.tokenizer, task)
        self.prompt_keys = np.array([key("problem", problem.id) for problem in self.problems])
        curriculum = config.algorithm.curriculum
        self.curriculum = implementation("harness.sampling.curriculum", curriculum).build(
            curriculum, len(self.problems), config.seed
        )
        source = config.algorithm.source
        self.source = implementation("harness.sampling.source", source).build(
            source,
            SourceContext(config, self.policy, self.engine, self.tokenizer, self.problems, self.prompts),
        )
        self.evaluator = Evaluator(
            config,
            run,
            self.engine,
            self.tokenizer,
            grader,
            base_evaluations(config, run, initial, linear_kernel, grader),
        )
        self.params = SamplingParams(
            max_response_tokens=config.sampling.max_response_tokens,
            temperature=config.sampling.temperature,
            top_p=config.sampling.top_p,
            top_k=config.sampling.top_k,
            stop_token_ids=(int(self.tokenizer.eos_token_id),),
        )
        self.step, self.updates, self.generated_tokens, self.seconds = 0, 0, 0, 0.0
        self.carried: Groups | None = None
        self._seconds: dict[str, float] = {}
        self._verifier_faults = 0  # of this step: timeouts, killed workers, errors, refused answers

    # ---- the loop -------------------------------------------------------------------------------------------------------

    def train(self, stop: Callable[[], bool], attempt: int) -> bool:
        """Run to the end, or until `stop()` says so after a step. Returns whether the run is complete."""
        self._resume()
        if self.step == 0:
            self._calibrate_curriculum()
            self.evaluator.evaluate(0)
        while not self._budget_spent():
            self._one_step(attempt)
            last = self._budget_spent()
            if last or self.step % self.config.runtime.checkpoint_every == 0 or stop():
                self._checkpoint(final=last)
            if not last and stop():
                return False
        return True

    def _calibrate_curriculum(self) -> None:
        """Give a curriculum that asks for them the initial policy's pass rates; their tokens count as generated."""
        samples = getattr(self.curriculum, "calibration_samples", 0)
        if not samples:
            return
        rates = np.zeros(len(self.problems))
        stream = key("calibrate", self.config.seed)
        for part in np.array_split(np.arange(len(self.problems)), max(1, len(self.problems) // 256)):
            completions = self.engine.generate(
                [self.prompts[i] for i in part],
                sample_seeds(stream, self.prompt_keys[part], samples),
                self.params,
            )
            golds = [self.problems[i].gold for i in part for _ in range(samples)]
            grades = self.grader.grade(self._texts(completions.token_lists()), golds)
            rates[part] = grades.correct_R.view(len(part), samples).double().mean(1).numpy()
            self.generated_tokens += int(completions.lengths_R.sum())
        self.curriculum.calibrate(rates)

    def _budget_spent(self) -> bool:
        training = self.config.training
        return (
            self.step >= training.steps
            or (training.generated_tokens is not None and self.generated_tokens >= training.generated_tokens)
            or (training.seconds is not None and self.seconds >= training.seconds)
        )

    def _one_step(self, attempt: int) -> None:
        begin = time.perf_counter()
        self._seconds = {"rollout": 0.0, "verify": 0.0}
        self._verifier_faults = 0
        step = self.step + 1
        algorithm = self.config.algorithm
        collected = collect(
            lambda round_, count: self._roll_out(step, round_, count),
            algorithm.dead_groups,
            algorithm.prompts_per_step,
            self.carried,
        )
        trained = time.perf_counter()
        stats = self.updater.train(
            step, collected.kept, [self.prompts[i] for i in collected.kept.problems_P.tolist()]
        )
        seconds_train = time.perf_counter() - trained
        self.step, self.carried = step, collected.surplus
        self.updates += stats.updates
        self.generated_tokens += collected.generated_tokens
        self.seconds += time.perf_counter() - begin
        seconds_evaluate = 0.0
        if step % self.config.training.evaluate_every == 0 or self._budget_spent():
            evaluated = time.perf_counter()
            self.evaluator.evaluate(step)
            seconds_evaluate = time.perf_counter() - evaluated
        self.run.append_step(
            {
                "step": step,
                "updates": self.updates,
                "attempt": attempt,
                **rollout_row(collected),
                "generated_tokens_total": self.generated_tokens,
                "verifier_faults": self._verifier_faults,
                **update_row(stats, self.config),
                **self.curriculum.record(),
                "learning_rate": self.updater.learning_rate(step),
                "seconds_rollout": self._seconds["rollout"],
                "seconds_verify": self._seconds["verify"],
                "seconds_train": seconds_train,
                "seconds_evaluate": seconds_evaluate,
                "seconds_total": time.perf_counter() - begin,
            }
        )

    def _roll_out(self, step: int, round_: int, count: int) -> Groups:
        """Generate and grade one round; noise belongs to (run seed, step, round, problem, sample, position)."""
        begin = time.perf_counter()
        algorithm = self.config.algorithm
        size = algorithm.responses_per_prompt
        chosen = self.curriculum.draw(count)
        stream = key("train", self.config.seed, step, round_)
        completions = self.source.generate(
            chosen, sample_seeds(stream, self.prompt_keys[chosen], size), self.params
        )
        generated = time.perf_counter()
        golds = [self.problems[i].gold for i in chosen for _ in range(size)]
        grades = self.grader.grade(self._texts(completions.token_lists()), golds)
        self._verifier_faults += grades.faults
        shape = (count, size)
        correct, answered = grades.correct_R.view(shape), grades.answered_R.view(shape)
        lengths = completions.lengths_R.view(shape)
        cap = self.params.max_response_tokens
        rewards = shaped_rewards(correct, answered, lengths, cap, algorithm.reward, algorithm.overlong)
        groups = Groups(torch.from_numpy(chosen.astype(np.int64)), completions, correct, answered, rewards)
        self.curriculum.observe(chosen, groups.accuracy_P.numpy())
        self._seconds["rollout"] += generated - begin
        self._seconds["verify"] += time.perf_counter() - generated
        return groups

    def _texts(self, token_lists: Sequence[Sequence[int]]) -> list[str]:
        return list(self.tokenizer.batch_decode(token_lists, skip_special_tokens=True))

    # ---- state -----------------------------------------------------------------------------------------------------------

    def _checkpoint(self, final: bool) -> None:
        """Publish everything a resume needs; the final one also holds the policy as an ordinary checkpoint."""

        def write(folder: Path) -> None:
            torch.save(self.state(), folder / STATE)
            if final:
                self.policy.save(folder / POLICY)

        self.run.publish_checkpoint(self.step, write, keep=self.config.runtime.keep_checkpoints)

    def state(self) -> dict[str, Any]:
        """Weights, optimiser, counters, curriculum and refill buffer. Random numbers need no state: they are counter-based."""
        return {
            "policy": self.policy.decoder.state_dict(),
            "optimizer": self.updater.optimizer.state_dict(),
            "critic": self.updater.critic.state() if self.updater.critic else None,
            "curriculum": self.curriculum.state(),
            "carried": self.carried,
            "step": self.step,
            "updates": self.updates,
            "generated_tokens": self.generated_tokens,
            "seconds": self.seconds,
        }

    def _resume(self) -> None:
        checkpoints = self.run.checkpoints()
        if checkpoints:
            # Our own file in our own store; weights_only would refuse the refill buffer's dataclass.
            self.restore(torch.load(checkpoints[-1][1] / STATE, map_location="cpu", weights_only=False))

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.policy.decoder.load_state_dict(state["policy"])
        self.updater.optimizer.load_state_dict(state["optimizer"])
        if self.updater.critic:
            self.updater.critic.restore(state["critic"])
        self.curriculum.restore(state["curriculum"])
        self.carried = state["carried"]
        self.step, self.updates = state["step"], state["updates"]
        self.generated_tokens, self.seconds = state["generated_tokens"], state["seconds"]
