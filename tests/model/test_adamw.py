"""Our AdamW is torch's, in a process that has not loaded torch's compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from harness.model.adamw import AdamW

TRAINING = """
import sys
import torch
import harness.execution.worker
from harness.model.adamw import AdamW

weight = torch.nn.Parameter(torch.ones(3))
optimizer = AdamW([weight], lr=0.1, fused=True)
weight.square().sum().backward()
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
optimizer.zero_grad()
sys.exit("torch._dynamo" in sys.modules)
"""


def trained(kind: type[torch.optim.AdamW], **settings: bool) -> tuple[list[torch.Tensor], dict[str, object]]:
    """The weights of two groups after six steps, three of them by an optimiser that read the state of the first."""
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(5, 3)) for _ in range(3)]
    rest = {"params": weights[1:], "weight_decay": 0.0}
    optimizer = kind(
        [{"params": weights[:1]}, rest], lr=1e-2, weight_decay=0.1, betas=(0.9, 0.98), **settings
    )
    for step in range(6):
        if step == 3:
            state = optimizer.state_dict()
            optimizer = kind([{"params": weights[:1]}, rest], lr=1.0, **settings)
            optimizer.load_state_dict(state)
        optimizer.zero_grad(set_to_none=True)
        torch.stack([(weight**2).sum() * (step + 1) for weight in weights]).sum().backward()
        optimizer.step()
    return [weight.detach() for weight in weights], optimizer.state_dict()


@pytest.mark.parametrize("settings", [{"fused": True}, {"foreach": True}, {}])
def test_it_steps_saves_and_resumes_as_torchs_own_to_the_bit(settings: dict[str, bool]) -> None:
    (ours, our_state), (theirs, their_state) = (
        trained(AdamW, **settings),
        trained(torch.optim.AdamW, **settings),
    )
    assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))
    torch.testing.assert_close(our_state, their_state, rtol=0, atol=0)


def test_a_worker_updates_without_torchs_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (
        done.stderr or "torch._dynamo was imported: a second as long as `import torch`"
    )
