"""The check of `harness doctor numbers=true`: train a few short runs and compare each number with an interval that ships in `numbers.json`.

Training noise is a function of (seed, step, problem, sample, position), so a run elsewhere differs from the same run here by rounding only:
the first step agrees closely. Later steps amplify rounding, and an engine with noise of its own draws other responses: these numbers agree
in distribution. `tests/benchmarks/doctor_intervals.py` makes the intervals anew, from 24 seeds.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.identity import arm_id, content_hash, difference
from harness.configuration.registry import implementation
from harness.configuration.schema import RunConfig
from harness.execution.contents import content_hashes
from harness.execution.dispatch import dispatch_runs
from harness.execution.progress import Progress
from harness.execution.supervise import Summary
from harness.experiment.planning import RunSpec
from harness.experiment.refusals import refusals
from harness.store import ResultStore, RunDir
from harness.store.errors import write_errors

FILE = Path(__file__).with_suffix(".json")
SEEDS = (0, 1, 2, 3)  # each starts from a base policy of its own
ARMS: Mapping[
    str, tuple[str, ...]
] = {  # they share no surrogate, aggregation, overlong policy or treatment of dead groups
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
    "training.steps=8",
    "training.evaluate_every=8",
    "evaluation.benchmarks.arithmetic_heldout.problems=64",
    "evaluation.samples_per_problem=8",
    "evaluation.caps=[32]",
)
# Numbers of the first step by column of the metrics, then of the second half of training; what is usually wrong when one is out.
FIRST = {
    "accuracy_mean": "other responses (temperature, top-p, noise, end tokens) or, where response tokens agree, the verifier",
    "response_tokens_mean": "other responses: temperature, top-p, noise, end tokens, the cap",
    "entropy_nats": "temperature, top-p, or the engine's attention over its cache",
    "loss": "where the responses agree: advantages, response mask, weights of the aggregation",
    "gradient_norm": "where the responses agree: advantages, response mask, the device's backward pass",
    "sampler_log_prob_gap_mean": "the engine computes other log-probabilities than the trainer: temperature, precision, stale weights",
}
LATE = {
    "accuracy_mean": "later steps: ratios, clipping, the optimiser's state, weights that do not reach the engine",
    "entropy_nats": "advantages, the learning rate or the sampler's temperature",
    "response_tokens_mean": "the response mask, what is done with truncated responses, the weights of the aggregation",
}
MEANINGS = {
    **{f"first step: {name}": text for name, text in FIRST.items()},
    **{f"second half: {name}": text for name, text in LATE.items()},
    "score after training": "more or less is learnt than should be, or evaluation samples and grades otherwise",
}


@dataclass(frozen=True)
class Compared:
    """A number, as a mean over the check's seeds, beside the interval it belongs into; `meaning` says what is usually wrong outside."""

    name: str
    value: float
    low: float
    high: float
    meaning: str

    @property
    def inside(self) -> bool:
        """True where it is right; NaN is not."""
        return self.low <= self.value <= self.high


def check_configs(overrides: Sequence[str] = ()) -> dict[str, RunConfig]:
    """Compose the configuration of each arm with a user's overrides.

    Raises:
        ConfigError: an override changes what is compared, or no run with it can be launched here.
    """
    if own := [item for item in overrides if item.lstrip("+~").startswith(("experiment", "seed="))]:
        raise ConfigError(f"{own[0]}: numbers=true trains runs and seeds of its own; leave it out")
    configs = {arm: compose_run([*choices, *COMMON, *overrides]) for arm, choices in ARMS.items()}
    for arm, config in configs.items():
        changed = difference(compose_run([*ARMS[arm], *COMMON]), config)
        if fixed := [key for key in changed if key.split(".")[0] not in ("engine", "backend")]:
            raise ConfigError(
                f"{', '.join(fixed[:3])}: numbers=true compares fixed runs, so only engine=, backend= and runtime.* can be "
                "chosen; leave the override out"
            )
        if (kind := config.runtime.launcher.kind) != "local":
            raise ConfigError(
                f"launcher={kind}: numbers=true waits for its runs on this machine; start it inside a job, with launcher=local"
            )
        if not _engine_has(config, "READS_WEIGHTS", True):
            raise ConfigError(f"engine={config.engine.kind} does not sample from the policy")
        if reasons := refusals(config):
            raise ConfigError(f"the check cannot run as asked for: {'; '.join(reasons)}")
    return configs


def _engine_has(config: RunConfig, trait: str, default: bool) -> bool:
    return bool(getattr(implementation("harness.rollout.engine", config.engine), trait, default))


def train(configs: Mapping[str, RunConfig], seeds: Iterable[int], root: Path, progress: Progress) -> Summary:
    """Bring the runs of all arms and seeds to their end, in a results root of their own."""
    runs = list(specs(configs, seeds, root).values())
    runtime = runs[0].config.runtime
    command = "harness doctor numbers=true"
    return dispatch_runs(runs, ResultStore(root), runtime, progress, command=command, experiment="doctor")


def specs(
    configs: Mapping[str, RunConfig], seeds: Iterable[int], root: Path
) -> dict[tuple[str, int], RunSpec]:
    """Make the run of every arm and seed, without trackers."""
    found = {}
    for seed in seeds:
        for arm, config in configs.items():
            runtime = dataclasses.replace(config.runtime, results=str(root), trackers={})
            labels = {"experiment": "doctor", "arm": arm, "name": arm}
            found[arm, seed] = RunSpec.of(dataclasses.replace(config, seed=seed, runtime=runtime), labels)
    return found


def measured(run: RunDir) -> dict[str, float]:
    """Read all numbers off a finished run, by name."""
    rows = run.steps().sort_values("step")
    late = rows.iloc[len(rows) // 2 :]
    samples = run.samples("arithmetic_heldout", int(rows["step"].iloc[-1]), ["correct"])
    return {
        **{f"first step: {name}": float(rows[name].iloc[0]) for name in FIRST},
        **{f"second half: {name}": float(late[name].mean()) for name in LATE},
        "score after training": float(samples["correct"].mean()),
    }


def compare(
    found: Mapping[str, Sequence[Mapping[str, float]]], table: Mapping[str, Any], own_noise: bool = False
) -> list[Compared]:
    """Compare each number with its interval.

    Args:
        found: of each arm, the numbers of the runs with `SEEDS`.
        table: of `read_table`.
        own_noise: the engine draws otherwise than the reference's, so that first steps agree in distribution only.
    """
    kind = "own_noise" if own_noise else "same_noise"
    compared = []
    for arm, runs in found.items():
        for name, intervals in table["intervals"][arm].items():
            low, high = intervals[kind]
            mean = sum(run[name] for run in runs) / len(runs)
            compared.append(Compared(f"{arm}, {name}", mean, low, high, MEANINGS[name]))
    return compared


def belongs_to(configs: Mapping[str, RunConfig]) -> str:
    """Hash what the plain runs are made of: configurations, problems, base policies."""
    bases = next(iter(configs.values())).model.bases.identity()
    arms = {arm: arm_id(config) for arm, config in configs.items()}
    return content_hash({"arms": arms, "problems": content_hashes(configs.values()), "bases": bases})


def read_table() -> dict[str, Any]:
    """Read the intervals. Raises `ConfigError` where they were made of other runs than this package's."""
    table: dict[str, Any] = json.loads(FILE.read_text())
    if table["belongs_to"] != belongs_to(check_configs()):
        raise ConfigError(
            f"the intervals in {FILE.name} were made of other runs than this package has: they tell nothing about it; "
            "tests/benchmarks/doctor_intervals.py makes them anew"
        )
    return table


def check_numbers(overrides: Sequence[str], progress: Progress) -> tuple[list[Compared], Summary, Path]:
    """Train two arms with four seeds in a new folder of the results root, and compare.

    Returns:
        The comparisons (none where runs are missing), what became of the runs, and where they lie.

    Raises:
        ConfigError: see `check_configs` and `read_table`.
        StoreError: nothing can be written.
    """
    configs, table = check_configs(overrides), read_table()
    first = next(iter(configs.values()))
    results = Path(first.runtime.results)
    with write_errors(results):  # a new folder: finished runs are never run again, and these must be
        results.mkdir(parents=True, exist_ok=True)
        root = Path(tempfile.mkdtemp(prefix="doctor-", dir=results))
    summary = train(configs, SEEDS, root, progress)
    if not summary.complete:
        return [], summary, root
    found: dict[str, list[dict[str, float]]] = {arm: [] for arm in configs}
    for (arm, _), spec in specs(configs, SEEDS, root).items():
        found[arm].append(measured(ResultStore(root).run(spec.run_id)))
    return compare(found, table, _engine_has(first, "OWN_NOISE", False)), summary, root
