"""A pretend CUDA device for machines that have none: tensors that say `cuda`, compute on the CPU, and refuse what a GPU would refuse.

Inside `pretend_cuda()` every tensor that is made on or moved to `cuda` is a `Pretend`. An operator that is given a pretend tensor together
with a plain one raises `DeviceMix`.
What cannot be seen here: numbers of GPU kernels, their memory, streams, and FSDP's and NCCL's own work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.autograd.graph import _engine_run_backward
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_iter, tree_map

from harness.training import stored_state

CUDA = torch.device("cuda", 0)
aten = torch.ops.aten
_TAKES_CPU_INDICES = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
}
# Operators that torch has in no deterministic form on a GPU, for floats (documentation of `torch.use_deterministic_algorithms`).
_CHANGES_BITS = {
    aten.cumsum.default,
    aten.histc.default,
    aten.kthvalue.default,
    aten.median.dim,
    aten.put_.default,
    aten.scatter_reduce.two,
    aten.scatter_reduce_.two,
}
_READS = (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__)


class DeviceMix(RuntimeError):
    """An operator was given tensors of the GPU and of the CPU."""


class Pretend(torch.Tensor):
    """A CPU tensor that says it is on the GPU."""

    device = property(lambda self: CUDA)  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]
    is_cpu = property(lambda self: False)  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: Any) -> Any:  # a checkpoint holds a tensor
        return _raw(self.detach()).__reduce_ex__(protocol)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _READS:
            if func is not torch.Tensor.tolist:
                raise TypeError("can't convert cuda:0 device type tensor to numpy")
            return _other(args[0]).tolist()
        if func in (torch.Tensor.to, torch.Tensor.cpu, torch.Tensor.cuda):
            return _moved(func, args, kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs) if kwargs.get("device") is None else _made(func, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_iter((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        plain = [tensor for tensor in tensors if not isinstance(tensor, Pretend) and tensor.dim() > 0]
        copies = func in (aten.copy_.default, aten._to_copy.default)
        if plain and not copies and not (func in _TAKES_CPU_INDICES and isinstance(args[0], Pretend)):
            raise DeviceMix(
                f"{func} was given tensors of cuda:0 and of the cpu: {[list(x.shape) for x in plain]}"
            )
        if (
            torch.are_deterministic_algorithms_enabled()
            and func in _CHANGES_BITS
            and tensors[0].is_floating_point()
        ):
            raise RuntimeError(f"{func} does not have a deterministic implementation")
        with no_dispatch():
            result = func(*_raw(args), **_raw(kwargs))
        return _wrapped(func, args, result)


def _wrapped(func: Any, args: Any, result: Any) -> Any:
    """Results as pretend tensors; what was changed in place is itself."""
    if func._schema.is_mutable and isinstance(result, torch.Tensor):
        return next(
            x for x in tree_iter(args) if isinstance(x, torch.Tensor) and x.data_ptr() == result.data_ptr()
        )
    return tree_map(lambda x: as_pretend(x) if isinstance(x, torch.Tensor) else x, result)


def _raw(values: Any) -> Any:
    """Pretend tensors in a structure as plain ones of the same memory."""
    with no_dispatch():
        return tree_map(lambda x: x.as_subclass(torch.Tensor) if isinstance(x, Pretend) else x, values)


def as_pretend(tensor: torch.Tensor) -> Pretend:
    """The same memory as a tensor of the GPU."""
    return torch.Tensor._make_subclass(Pretend, tensor, tensor.requires_grad)


class _Move(torch.autograd.Function):
    """A copy on the other device; the gradient goes the other way."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return _other(tensor)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return _other(grads[0])


def _other(tensor: torch.Tensor) -> torch.Tensor:
    copy = _raw(tensor.detach()).clone()
    return copy if isinstance(tensor, Pretend) else as_pretend(copy)


def _moved(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """`to`, `cpu` and `cuda`."""
    tensor, *rest = args
    kwargs = {name: value for name, value in kwargs.items() if name != "copy"}
    other = next((x for x in [*rest, kwargs.get("other")] if isinstance(x, torch.Tensor)), None)
    if other is not None:
        device, dtype, layout = other.device, other.dtype, None
    elif func is torch.Tensor.to:
        device, dtype, _, layout = torch._C._nn._parse_to(*rest, **kwargs)
    else:
        device, dtype, layout = (CUDA if func is torch.Tensor.cuda else torch.device("cpu")), None, None
    if device is not None and device.type != tensor.device.type and tensor.device.type != "meta":
        if device.type == "meta":
            return torch.empty_like(tensor, device="meta")
        tensor = _Move.apply(tensor)  # type: ignore[no-untyped-call]
    changes = {"dtype": dtype, "memory_format": layout}
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.to(
            tensor, **{name: value for name, value in changes.items() if value is not None}
        )


def _made(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """A new tensor on the device that is asked for."""
    device = torch.device(kwargs["device"])
    if device.type != "cuda":
        return func(*(args if device.type == "meta" else _raw(args)), **kwargs)
    return as_pretend(func(*_raw(args), **kwargs | {"device": torch.device("cpu")}))


class _Factories(TorchFunctionMode):
    """Makes tensors on `cuda`, and moves plain ones there."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.Tensor.to, torch.Tensor.cuda):
            return _moved(func, args, kwargs)
        if func is torch.Tensor.backward:  # layers that are computed again make tensors, too
            with self:
                return _engine_run_backward(
                    (args[0],),
                    (torch.ones_like(args[0]),),
                    False,
                    False,
                    (),
                    allow_unreachable=True,
                    accumulate_grad=True,
                )
        return func(*args, **kwargs) if kwargs.get("device") is None else _made(func, args, kwargs)


def _apply(
    module: torch.nn.Module, change: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True
) -> Any:
    """`nn.Module._apply` with new parameter objects (old ones cannot change their class); tied ones stay tied."""
    new: dict[int, torch.nn.Parameter] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None and id(parameter) not in new:
                with torch.no_grad():
                    new[id(parameter)] = torch.nn.Parameter(change(parameter), parameter.requires_grad)
            if parameter is not None:
                part._parameters[name] = new[id(parameter)]
        for name, buffer in part._buffers.items():
            part._buffers[name] = buffer if buffer is None else change(buffer)
    return module


@contextmanager
def pretend_cuda() -> Iterator[None]:
    """See the module."""
    with (
        mock.patch.multiple(
            torch.cuda,
            synchronize=lambda *_: None,
            empty_cache=lambda: None,
            get_device_capability=lambda *_: (9, 0),
            get_device_name=lambda *_: "pretend",
        ),
        mock.patch.object(torch.nn.Module, "_apply", _apply),
        mock.patch.object(stored_state, "_VALUES", (*stored_state._VALUES, Pretend)),
        _Factories(),
    ):
        yield
