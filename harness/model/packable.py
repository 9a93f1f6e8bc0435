"""The architectures that can be trained on sequences laid end to end: each token may meet the others of its sequence in attention alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from harness.configuration.error import ConfigError
from harness.model.packed_attention import counted

_REACHES = {"full_attention", "sliding_attention"}  # what `packed_causal` computes
_CHOOSE = "choose another model, or evaluate this one with engine=transformers or engine=vllm"
# What code raises that was not written for this way of calling it. Other errors, lacking memory among them, are no matter of architecture.
_UNFIT = (KeyError, TypeError, AttributeError, AssertionError, ValueError, IndexError, NotImplementedError)


def recurrent(model: Any) -> bool:
    """Say if a token meets those before it in a running state or a convolution, too: Mamba, linear attention and their hybrids."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    if any(isinstance(module, torch.nn.Conv1d) for module in (decoder or model).modules()):
        return True
    # Families of hybrids say it of all their models, those with nothing but attention among them.
    kinds = _layer_kinds(model)
    return bool(getattr(model, "_is_stateful", False)) and not (kinds and kinds <= _REACHES)


def check_packable(model: Any) -> None:
    """Refuse a model in which packed sequences would run into one another; no weight is looked at.

    Raises:
        ConfigError: it is recurrent, or has a kind of attention that is not computed over packed sequences.
    """
    kind = model.config.model_type
    if recurrent(model):
        raise ConfigError(
            f"{kind} is recurrent (a running state or a convolution beside attention), and sequences that are packed for training would "
            "run into one another; choose another model, or evaluate this one with engine=vllm"
        )
    others = sorted(_layer_kinds(model) - _REACHES)
    if others:
        raise ConfigError(
            f"{kind} has layers of {', '.join(others)}, which packed training does not compute; {_CHOOSE}"
        )


def _layer_kinds(model: Any) -> set[str]:
    return set(getattr(model.config.get_text_config(), "layer_types", None) or ())


@contextmanager
def naming(kind: str) -> Iterator[None]:
    """Around code of an architecture that may not be made for packed sequences; its failure becomes a `ConfigError` that names it."""
    try:
        yield
    except ConfigError:
        raise
    except _UNFIT as error:
        raise ConfigError(
            f"{kind} cannot be trained here: its code in transformers does not take packed sequences "
            f"({type(error).__name__}: {error}); {_CHOOSE}"
        ) from error


def rehearse(kind: str, layers: int, score: Callable[[], Any]) -> None:
    """Score a small pack before training does.

    Args:
        kind: the architecture.
        layers: its decoder layers; each must attend over the pack.
        score: one forward of the policy.

    Raises:
        ConfigError: the architecture's code fails, or attends in a way of its own that does not know where sequences end.
    """
    with naming(kind), counted() as calls:
        score()
    if len(calls) < layers:
        raise ConfigError(
            f"{kind} cannot be trained here: {layers - len(calls)} of its {layers} layers do not attend through the transformers "
            f"attention interface, so that packed sequences would run into one another; {_CHOOSE}"
        )
