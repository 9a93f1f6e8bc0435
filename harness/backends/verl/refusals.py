"""Choices of a configuration that verl cannot express: a line each, with the key to change."""

from __future__ import annotations

from collections.abc import Iterator

from harness.backends.verl.overrides import owns
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import verl as dialect


def refusals(config: RunConfig) -> list[str]:
    """Return all reasons why verl does not train this configuration; empty where it does."""
    translation = dialect.export(config)
    unaccepted = (
        f"{text}; list {name} in backend.accept to train it all the same"
        for name, text in translation.deviations.items()
        if name not in config.backend.accept
    )
    return [*translation.inexpressible, *unaccepted, *_model(config), *_rest(config), *_overrides(config)]


def _model(config: RunConfig) -> Iterator[str]:
    model = config.model
    precision = getattr(model, "precision", "float32")
    if precision != "bfloat16":
        yield f"model={model.kind}, {precision}: verl's actor computes with flash-attention, in bfloat16 (model.precision)"
    lora = getattr(model, "lora", None)
    if lora is not None and lora.rank:
        yield f"model.lora.rank={lora.rank}: verl exports the adapters apart from the model; train all weights"


def _rest(config: RunConfig) -> Iterator[str]:
    kind = config.algorithm.advantage.kind
    if kind == "gae":
        yield "algorithm.advantage.kind=gae: verl's critic begins with a random head, ours with zeros"
    if kind == "decoupled":
        yield "algorithm.advantage.kind=decoupled: verl's gdpo whitens over tokens, ours divides over sequences"
    between, samples = config.evaluation.samples_between, config.evaluation.samples_per_problem
    if between is not None and between < samples:
        yield f"evaluation.samples_between={between}: verl validates with {samples} samples every time; set it to null"
    if config.evaluation.stop_strings:
        yield "evaluation.stop_strings: verl's rollouts end at the tokenizer's end tokens only; leave it empty"


def _overrides(config: RunConfig) -> Iterator[str]:
    for item in config.backend.overrides:
        key, equals, _ = item.lstrip("+~").partition("=")
        if not equals and not item.startswith("~"):
            yield f"backend.overrides: {item!r} is no key=value"
        elif key.split(".")[0] == "hydra":
            yield f"backend.overrides: {key} is the harness's own"
        elif owns(config, key):
            yield f"backend.overrides: {key} follows from the configuration; set the harness's key instead"
