"""Runs of a few seconds: their configuration, their directories, and trainers over the base policy of the tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import yaml
from stored_runs import created

from harness.configuration.identity import arm_id, run_id
from harness.configuration.schema import RunConfig, dump
from harness.problems.benchmarks import arithmetic
from harness.reward.shaping import Grader
from harness.store import ResultStore, RunDir
from harness.testbed import recipe as testbed
from harness.training.loop import train, train_run
from harness.training.run_parts import RunParts

# Runs of seconds on the command line, from the base policies that are shipped, and from one that is warmed up at once.
FEW = [
    "task.problems=64",
    "evaluation.benchmarks.arithmetic_heldout.problems=6",
    "evaluation.samples_per_problem=4",
]
FEW += ["algorithm.prompts_per_step=8", "algorithm.responses_per_prompt=4", "algorithm.updates_per_step=4"]
FEW += ["runtime.device=cpu", "runtime.workers=2"]
# A policy of a second's warm-up guesses right among ten answers, and only where it may answer at once.
SMALL = [*FEW, "model.bases.set=null", "model.warmup.steps=40", "sampling.max_response_tokens=12"]
SMALL += ["task.modulus=10", "model.demonstrator.direct=0.3", "model.demonstrator.terse=0.35"]
SMALL += ["runtime.checkpoint_every=1", "runtime.linear_kernel=torch"]
# vLLM attends on a CPU with heads of 32 and more: the testbed with half as many, twice as wide ones.
TWO_HEADS = {"model__architecture__heads": 2, "model__architecture__kv_heads": 2}


def small_config(**changes: object) -> RunConfig:
    """A barely warmed-up policy, small groups, few problems. Keyword `algorithm__dead_groups__policy="refill"` sets that field."""
    config = RunConfig()
    config.model.bases = testbed.Bases(set=None)
    config.model.warmup.steps = 60
    config.model.demonstrator = testbed.Demonstrator(direct=0.3, terse=0.35)
    config.task.problems, config.task.modulus = 64, 10
    config.evaluation.benchmarks = {"arithmetic_heldout": arithmetic.Config(split="heldout", problems=6, modulus=10)}
    config.evaluation.samples_per_problem = 4
    config.evaluation.caps = [12, 24]
    config.sampling.max_response_tokens = 12
    config.algorithm.prompts_per_step = 8
    config.algorithm.responses_per_prompt = 4
    config.algorithm.updates_per_step = 4
    config.training.steps = 4
    config.training.evaluate_every = 2
    config.verifier.answer_must_end = True
    config.runtime.checkpoint_every = 2
    config.runtime.linear_kernel = "torch"
    config.runtime.device = "cpu"
    for path, value in changes.items():
        target, *parts = config, *path.split("__")
        for part in parts[:-1]:
            target = getattr(target, part)
        setattr(target, parts[-1], value)
    return config


def claimed(config: RunConfig, root: Path, status: str = "running") -> RunDir:
    """The directory of a configuration's run, as a supervisor leaves it to a worker."""
    run = ResultStore(root).run(run_id(config))
    about = {"arm_id": arm_id(config), "seed": config.seed, "status": status, "labels": {}, "attempts": []}
    created(run, yaml.safe_dump(dump(config)), about)
    return run


def finished(config: RunConfig, root: Path) -> RunDir:
    """The run of a configuration, trained here to its end as a worker does it."""
    run = claimed(config, root, "finished")
    assert train_run(config, run, lambda: False, attempt=1)
    return run


@dataclass
class Bench:
    """Trainers over one base policy, their runs in one store: a second trainer of a run goes on where the first one stopped."""

    base: Path
    store: ResultStore
    graders: list[Grader] = field(default_factory=list)

    def run(self, name: str = "a") -> RunDir:
        return self.store.run(name * 16)

    def trainer(self, config: RunConfig, name: str = "a", base: Path | None = None) -> RunParts:
        """One that has not begun, from another base policy where `base` is given."""
        self.graders.append(Grader(config.verifier, config.runtime))
        return RunParts(config, self.run(name), base or self.base, "torch", self.graders[-1])

    def trained(
        self, config: RunConfig, name: str = "a", stop_after: int | None = None, base: Path | None = None
    ) -> RunParts:
        """One that has trained until its end, or until the step after which a stop signal comes."""
        trainer = self.trainer(config, name, base)
        complete = train(trainer, lambda: trainer.progress.step == stop_after, attempt=0)
        trainer.close()
        assert complete == (stop_after is None)
        return trainer

    def close(self) -> None:
        for grader in self.graders:
            grader.close()
