"""Rollout engines as configuration. A member defines `Config` and the functions

* `build(config, policy, runtime) -> RolloutEngine`: samples from a policy in training;
* `open_folder(config, folder, runtime, device, dtype, linear_kernel) -> RolloutEngine`: samples from a checkpoint, for evaluation;

Optional:

`EXACT_ENTROPY = False` marks one that reports no entropy: minus the log-probability of the sampled token stands for it, good for means.
`PACKAGE = (name, where it comes from)` names a package that only this member needs.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from harness.configuration.sections import RuntimeConfig
    from harness.model.policy import Policy
    from harness.rollout.types import RolloutEngine


class Member(Protocol):
    @abstractmethod
    def build(self, config: Any, policy: Policy, runtime: RuntimeConfig) -> RolloutEngine: ...

    @abstractmethod
    def open_folder(
        self, config: Any, folder: Path, runtime: RuntimeConfig, device: str, dtype: torch.dtype, linear_kernel: str
    ) -> RolloutEngine: ...
