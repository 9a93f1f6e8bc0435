"""torch's AdamW without torch's compiler."""

from __future__ import annotations

import inspect
from typing import Any

import torch


class AdamW(torch.optim.AdamW):
    """`torch.optim.AdamW` (arXiv:1711.05101), the same bits, in a process that has not loaded torch's compiler.

    torch forbids its compiler to compile an optimiser's methods, and loads the compiler to say so: as long as `import torch` again, before
    the first update of every process. Nothing here is compiled, so these are torch's own methods below that mark.
    """

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
    zero_grad = inspect.unwrap(torch.optim.AdamW.zero_grad)
    add_param_group: Any = inspect.unwrap(torch.optim.AdamW.add_param_group)
    state_dict: Any = inspect.unwrap(torch.optim.AdamW.state_dict)
    load_state_dict: Any = inspect.unwrap(torch.optim.AdamW.load_state_dict)
