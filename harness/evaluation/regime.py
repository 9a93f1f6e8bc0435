"""Whether a comparison can be decided where training begins: what the policy answers before it, and how far scores will vary.

Rewards teach where responses of one prompt differ, and a difference is seen where scores have room to move (docs/regime.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash
from harness.configuration.schema import RunConfig, dump
from harness.evaluation.checkpoints import Progress, evaluate_models
from harness.evaluation.metrics.names import nothing_to_learn
from harness.evaluation.named_models import base_model
from harness.store import ResultStore
from harness.store.samples import read_parts

PROBLEMS = 32
RIGHT_RANGE, MOST_CUT_OFF, LEAST_MIXED = (0.2, 0.4), 0.05, 0.5  # a regime that decides, docs/regime.md


@dataclass(frozen=True)
class Regime:
    """What a policy answers to `problems` training problems, `group` times each.

    `right`, `cut_off`: shares of the answers. `mixed`, `all_right`, `all_wrong`: shares of the problems. `sample_sd`: standard deviation of
    one answer's score about its problem's.
    """

    problems: int
    group: int
    cap: int
    right: float
    cut_off: float
    mixed: float
    all_right: float
    sample_sd: float

    @property
    def all_wrong(self) -> float:
        return 1 - self.mixed - self.all_right

    def lines(self) -> Iterator[str]:
        """What was found, and what to change where rewards teach little."""
        yield (
            f"{_percent(self.right)} of {self.problems * self.group} answers are right, {_percent(self.cut_off)} are cut off at {self.cap} "
            f"tokens; of {self.problems} groups of {self.group} {_percent(self.mixed)} are mixed, {_percent(self.all_right)} all right, "
            f"{_percent(self.all_wrong)} all wrong"
        )
        if warning := nothing_to_learn(self.right, f"to {self.problems} training problems"):
            yield f"warning: {warning}"
            return
        low, high = RIGHT_RANGE
        if self.right < low:
            yield f"advice: below {_percent(low)} right many groups teach nothing; easier problems, or a cold start"
        elif self.right > high:
            yield f"advice: above {_percent(high)} right there is little room to tell arms apart; harder problems"
        if self.cut_off > MOST_CUT_OFF:
            yield f"advice: above {_percent(MOST_CUT_OFF)} cut off, arms differ by how soon they stop; a longer cap, or a cold start"
        if self.mixed < LEAST_MIXED:
            yield f"advice: less than {_percent(LEAST_MIXED)} of the groups are mixed; larger groups, or problems of one difficulty"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def on_training_problems(config: RunConfig) -> RunConfig:
    """The same run, evaluated on its training problems as it samples them, a group each. Raises `ConfigError`: `sampling.top_k`."""
    sampling = config.sampling
    if sampling.top_k:
        raise ConfigError(f"plan --sample filters by top_p alone; ask with sampling.top_k=0, not {sampling.top_k}")
    protocol = replace(
        config.evaluation,
        benchmarks={"training": config.task},
        samples_per_problem=max(2, config.algorithm.responses_per_prompt),
        caps=[sampling.max_response_tokens],
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        stop_strings=sampling.stop_strings,
    )
    return replace(config, evaluation=protocol)


def regime_key(config: RunConfig) -> str:
    """Name what decides the answers before training: equal names, equal answers."""
    training = on_training_problems(config)
    return content_hash(dump(training.model), dump(training.evaluation), dump(training.verifier), dump(training.engine))


def regime_of(config: RunConfig, store: ResultStore, linear_kernel: str, progress: Callable[[str], Progress]) -> Regime:
    """Ask the policy of a run `PROBLEMS` training problems before training."""
    training = on_training_problems(config)
    models = [base_model("before training", config, store, linear_kernel)]
    samples = training.evaluation.samples_per_problem
    (cell,) = evaluate_models(models, training, store, linear_kernel, [samples], progress, PROBLEMS)["cells"]
    rows = read_parts(store.root / cell["samples"], ["problem_id", "sample_index", "correct"]).to_pandas()
    shares_P = rows[rows["sample_index"] < samples].groupby("problem_id")["correct"].mean()
    spread = float((shares_P * (1 - shares_P)).mean()) * samples / (samples - 1)
    mixed, all_right = float(shares_P.between(0, 1, inclusive="neither").mean()), float((shares_P == 1).mean())
    avg, cut_off = float(cell["avg"]), float(cell["truncated_fraction"])
    return Regime(len(shares_P), samples, cell["cap"], avg, cut_off, mixed, all_right, math.sqrt(spread))
