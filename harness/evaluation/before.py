"""A few answers of the policy before training: is there anything to learn?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from harness.configuration.identity import content_hash
from harness.configuration.schema import RunConfig, dump
from harness.evaluation.metrics.summary import nothing_to_learn
from harness.evaluation.named_models import base_model
from harness.evaluation.side_by_side import Progress, evaluate_models
from harness.store import ResultStore

PROBLEMS, SAMPLES = 16, 4


def as_trained(config: RunConfig) -> RunConfig:
    """The same run, evaluated on its training problems as it samples them."""
    sampling = config.sampling
    protocol = replace(
        config.evaluation,
        benchmarks={"training": config.task},
        samples_per_problem=SAMPLES,
        caps=[sampling.max_response_tokens],
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        stop_strings=sampling.stop_strings,
    )
    return replace(config, evaluation=protocol)


def asks(config: RunConfig) -> str:
    """Name what decides the answers before training: equal names, equal answers."""
    trained = as_trained(config)
    return content_hash(
        dump(trained.model), dump(trained.evaluation), dump(trained.verifier), dump(trained.engine)
    )


def before_training(
    config: RunConfig, store: ResultStore, linear_kernel: str, progress: Callable[[str], Progress]
) -> Iterator[str]:
    """Ask `PROBLEMS` training problems `SAMPLES` times each; tell what share is right, and warn where it is 0 or 1.

    Raises:
        ConfigError: the policy or the problems cannot be had.
    """
    trained = as_trained(config)
    model = base_model("before training", config, store, linear_kernel)
    cell = evaluate_models([model], trained, store, linear_kernel, [SAMPLES], progress, PROBLEMS)["cells"][0]
    once, cut = cell["pass_at"][str(SAMPLES)], cell["truncated_fraction"]
    yield (
        f"{100 * cell['avg']:.0f} % of {cell['n_samples']} answers are right, {100 * once:.0f} % of {cell['n_problems']} training problems "
        f"at least once; {100 * cut:.0f} % are cut off at {cell['cap']} tokens"
    )
    if said := nothing_to_learn(cell["avg"], f"to {cell['n_problems']} training problems"):
        yield f"warning: {said}"
