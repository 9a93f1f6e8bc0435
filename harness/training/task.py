"""What a run asks its policy, how responses are graded, and where evaluations are shared: the parts of a run that no trainer decides."""

import sys
from pathlib import Path

import numpy as np
import torch

from harness.configuration.identity import content_hash
from harness.configuration.registry import CURRICULUM, implementation
from harness.configuration.schema import RunConfig, dump
from harness.configuration.sections import AlgorithmConfig
from harness.evaluation.evaluate import Evaluator
from harness.model.checkpoint import load_tokenizer
from harness.model.ranks import ALONE, Ranks
from harness.model.system import content_fingerprint
from harness.problems.problem import load_benchmark
from harness.reward.function import RewardFunction
from harness.reward.shaping import Grader
from harness.rollout.noise import key
from harness.rollout.types import RolloutEngine, SamplingParams, Watch, prompt_tokens, stop_tokens
from harness.sampling.curriculum import Curriculum
from harness.sampling.never_give_up import NeverGiveUp
from harness.store import RunDir, layout


class TaskParts:
    """What a run asks its policy and how responses are graded, whoever trains; the folder `initial` gives the tokenizer."""

    def __init__(
        self, config: RunConfig, run: RunDir, initial: Path, linear_kernel: str, grader: Grader, ranks: Ranks
    ) -> None:
        self.config, self.run, self.grader, self.ranks = config, run, grader, ranks
        self.initial, self.linear_kernel = initial, linear_kernel
        self.tokenizer = load_tokenizer(initial)
        task = load_benchmark(config.task)
        self.problems, self.prompts = task.problems, prompt_tokens(self.tokenizer, task)
        self.prompt_keys = np.array([key("problem", problem.id) for problem in task.problems])
        self.params = _sampling_params(config, stop_tokens(self.tokenizer, initial))
        curriculum, reward = config.algorithm.curriculum, config.algorithm.reward
        self.curriculum: Curriculum = implementation(CURRICULUM, curriculum).build(
            curriculum, len(task.problems), config.seed
        )
        if config.algorithm.dead_groups.policy == "never_give_up":
            self.curriculum = NeverGiveUp(
                self.curriculum, config.algorithm.dead_groups, len(task.problems), config.seed
            )
        self.reward_function = (
            RewardFunction(reward, warn, _nonnegative_for(config.algorithm)) if reward.function else None
        )

    def say(self, attempt: int, phase: str) -> None:
        if self.ranks.first:
            self.run.say_phase(attempt, phase)

    def evaluator_of(self, engine: RolloutEngine, watch: Watch | None = None, sharded: Ranks = ALONE) -> Evaluator:
        """What evaluates the engine's policy; `sharded`: the ranks that this one is sharded over."""
        cache = base_evaluations(self.config, self.run, self.initial, self.linear_kernel, self.grader, sharded)
        stops = self.params.stop_token_ids
        return Evaluator(self.config, self.run, engine, self.tokenizer, self.grader, stops, cache, self.ranks, watch)


def _nonnegative_for(algorithm: AlgorithmConfig) -> str:
    """Name the setting under which a negative reward would turn the advantages round; empty where there is none."""
    if algorithm.overlong.punishes and algorithm.overlong.shape == "multiplicative":
        return "algorithm.overlong.shape=multiplicative"
    divides = getattr(algorithm.advantage, "scale", "") == "group_mean"
    return "algorithm.advantage.scale=group_mean" if divides else ""


def _sampling_params(config: RunConfig, stop_token_ids: tuple[int, ...]) -> SamplingParams:
    sampling = config.sampling
    return SamplingParams(
        max_response_tokens=sampling.max_response_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        stop_token_ids=stop_token_ids,
        stop_strings=tuple(sampling.stop_strings),
        head=config.algorithm.surrogate.likeliest,
    )


def warn(text: str) -> None:
    print(f"{layout.WARNING}{text}", file=sys.stderr, flush=True)


def base_evaluations(
    config: RunConfig, run: RunDir, initial: Path, linear_kernel: str, grader: Grader, ranks: Ranks
) -> Path:
    """Return the store's folder for samples of this initial policy under this protocol (see `Evaluator`).

    `ranks`: those that the policy is sharded over.
    """
    benchmarks = {name: load_benchmark(item) for name, item in config.evaluation.benchmarks.items()}
    # A file may be mended at its place: its content counts, not its path.
    versions = {name: [item.version, item.content] for name, item in benchmarks.items()}
    protocol = [dump(config.evaluation), dump(config.verifier), dump(config.engine)]
    # A cached policy's folder is named by its content; another may be overwritten in place, and its precision matters.
    testbed = config.model.kind == "testbed"
    model = [] if testbed else [content_fingerprint(initial), config.model.precision]
    # Another device rounds otherwise, and some responses go on otherwise.
    device = [torch.cuda.get_device_name()] if config.runtime.device == "cuda" else []
    sharding = ["sharded"] if ranks.world > 1 else []  # a policy on several ranks rounds otherwise, too
    verifier = grader.verifier.fingerprint()
    dependencies = [initial.name, *model, linear_kernel, versions, protocol, verifier, *device, *sharding]
    return run.path.parent.parent / "cache" / "evaluations" / content_hash(*dependencies)
