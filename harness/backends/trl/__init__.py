"""Training by TRL 1.16's GRPOTrainer, in our environment (extra `trl`), with our prompts, rewards and evaluation; see docs/trl.md."""

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.backends.trl.settings import absent_packages as absent
from harness.backends.trl.settings import differences as differences
from harness.backends.trl.settings import refusals as check
from harness.configuration.error import Checked, choice
from harness.configuration.schema import RunConfig
from harness.store import RunDir
from harness.training.torchrun import train_by

__all__ = ["Config", "absent", "check", "differences", "train"]
TRAINER = "harness.backends.trl.run"  # where `train_run` is


@dataclass
class Config(Checked, key="backend"):
    """Settings of TRL that can change a run's numbers.

    Attributes:
        sampler: what samples training responses: transformers' `generate`, or vLLM in the trainer's process.
        overrides: further fields of `GRPOConfig`, `key=value`; what the harness sets cannot be set here.
    """

    kind: str = "trl"
    sampler: str = choice("transformers", of=("transformers", "vllm_colocate"))
    overrides: list[str] = field(default_factory=list)


def train(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    return train_by(TRAINER, config, run, stop, attempt)
