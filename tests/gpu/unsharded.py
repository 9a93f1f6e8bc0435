"""What a pretend device cannot run, for `TransformersPolicy`: FSDP2 without its collectives, and the variable-length flash kernel."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.nn.utils.stateless import _reparametrize_module

from harness.model import loading, packed_attention


def cast_as_it_runs(module: Any, mesh: Any, mp_policy: MixedPrecisionPolicy) -> None:
    """Stands for `fully_shard`: a module's own parameters, and those of parts that have not been given to it before."""
    plain, module.cast = module.forward, True

    def forward(*args: Any, **kwargs: Any) -> Any:
        cast = {
            name: parameter.to(mp_policy.param_dtype)
            for name, parameter in module.named_parameters()
            if not any(getattr(part, "cast", False) and part is not module for part in _path(module, name))
        }
        with _reparametrize_module(module, cast, tie_weights=True):
            return plain(*args, **kwargs)

    module.forward = forward
    module.reshard = lambda: None
    module._get_fsdp_state = mock.Mock


def _path(module: torch.nn.Module, name: str) -> Iterator[torch.nn.Module]:
    for part in name.split(".")[:-1]:
        module = getattr(module, part)
        yield module


@functools.wraps(packed_attention._VARLEN)
def varlen(*args: Any, **kwargs: Any) -> torch.Tensor:
    """The kernel's own signature and demands, over the padded product."""
    call = inspect.signature(varlen).bind(*args, **kwargs).arguments
    q, k, v, boundaries = (call[name] for name in ("query", "key", "value", "cu_seq_q"))
    assert boundaries.dtype == torch.int32
    assert all(x.is_contiguous() and x.dtype == torch.bfloat16 for x in (q, k, v))
    assert call.get("enable_gqa") or q.shape[1] == k.shape[1]
    window = call["window_size"][0]
    assert call["window_size"][1] == 0  # causal
    past = None if window < 0 else window + 1
    return packed_attention._padded(q, k, v, boundaries, call["max_q"], call.get("scale"), past)


@contextmanager
def unsharded() -> Iterator[None]:
    """`TransformersPolicy` inside is one whole model."""
    with (
        mock.patch.multiple(loading, fully_shard=cast_as_it_runs, init_device_mesh=lambda *_: None),
        mock.patch.object(packed_attention, "_VARLEN", varlen),
    ):
        yield
