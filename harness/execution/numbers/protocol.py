"""Which runs are compared: two arms that share no surrogate, aggregation, overlong policy or treatment of dead groups.

Training noise is a function of (seed, step, problem, sample, position), so a run elsewhere differs from the reference's run of the same
seed by rounding only. Updates amplify rounding: the first step still agrees closely, the last one in distribution.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import ModuleType

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.identity import difference
from harness.configuration.registry import implementation
from harness.configuration.schema import RunConfig
from harness.experiment.planning import RunSpec
from harness.experiment.refusals import refusals

VERSION = 1
NAME = "doctor"
STEPS = 8
ARMS: Mapping[str, tuple[str, ...]] = {
    "grpo": ("algorithm=grpo",),
    "cispo_refill": (
        "algorithm=cispo",
        "algorithm.overlong.policy=mask_and_soft",
        "algorithm.dead_groups.policy=refill",
    ),
}
COMMON = (
    "model.bases.count=8",
    "algorithm.prompts_per_step=16",
    "algorithm.updates_per_step=4",
    "optimizer.learning_rate=5e-4",
    f"training.steps={STEPS}",
    f"training.evaluate_every={STEPS}",
    "evaluation.benchmarks.arithmetic_heldout.problems=64",
    "evaluation.samples_per_problem=8",
    "evaluation.caps=[32]",
)
BENCHMARK = "arithmetic_heldout"
CHECK_SEEDS = (0, 1, 2, 3)  # each starts from a base policy of its own
REFERENCE_SEEDS = tuple(range(24))  # three a base policy

# What a user may choose freely: who samples and trains, and where. Everything else is what is compared.
_FREE = ("engine", "backend")


def check_configs(overrides: Sequence[str] = ()) -> dict[str, RunConfig]:
    """Arm → its configuration (seed 0) with a user's overrides.

    Raises:
        ConfigError: an override changes what is compared, or no run with it can be launched here.
    """
    _refuse_experiments(overrides)
    configs = {arm: compose_run([*choices, *COMMON, *overrides]) for arm, choices in ARMS.items()}
    for arm, config in configs.items():
        plain = compose_run([*ARMS[arm], *COMMON])
        changed = [key for key in difference(plain, config) if key.split(".")[0] not in _FREE]
        if changed:
            raise ConfigError(
                f"{', '.join(changed[:3])}: numbers=true compares fixed runs, so only engine=, backend= and runtime.* can be "
                "chosen; leave the override out"
            )
        kind = config.runtime.launcher.kind
        if kind != "local":
            raise ConfigError(
                f"launcher={kind}: numbers=true waits for its runs on this machine; start it inside a job, with launcher=local"
            )
        reasons = refusals(config)
        if not getattr(engine_of(config), "READS_WEIGHTS", True):
            reasons = [f"engine={config.engine.kind} does not sample from the policy"]
        if reasons:
            raise ConfigError(f"the check cannot run as asked for: {'; '.join(reasons)}")
    return configs


def specs(configs: Mapping[str, RunConfig], seeds: Sequence[int]) -> dict[tuple[str, int], RunSpec]:
    """(arm, seed) → its run, seed by seed."""
    return {
        (arm, seed): RunSpec.of(
            dataclasses.replace(config, seed=seed), {"experiment": NAME, "arm": arm, "name": arm}
        )
        for seed in seeds
        for arm, config in configs.items()
    }


def own_noise(config: RunConfig) -> bool:
    """Whether the engine draws with noise of its own: its responses are others than the reference's (see `harness.rollout.engine`)."""
    return bool(getattr(engine_of(config), "OWN_NOISE", False))


def engine_of(config: RunConfig) -> ModuleType:
    """The module of the run's rollout engine."""
    return implementation("harness.rollout.engine", config.engine)


def _refuse_experiments(overrides: Sequence[str]) -> None:
    for item in overrides:
        if item.lstrip("+~").startswith(("experiment", "seed=")):
            raise ConfigError(f"{item}: numbers=true trains runs and seeds of its own; leave it out")
