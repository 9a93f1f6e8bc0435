"""Training by verl 0.9.1 in an environment of its own (`runtime.verl`), for what one node cannot hold; see docs/verl.md."""

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.backends.verl.overrides import differences as differences
from harness.backends.verl.overrides import refusals as check
from harness.backends.verl.process import absent_programs as absent
from harness.configuration.error import Checked, choice, require
from harness.configuration.schema import RunConfig
from harness.exchange.verl import DEVIATIONS
from harness.store import RunDir

__all__ = ["Config", "absent", "check", "differences", "train"]


@dataclass
class Config(Checked, key="backend"):
    """Settings of verl that can change a run's numbers; place and memory stand in `runtime.verl`.

    Attributes:
        rollout_engine: verl's sampler, vllm or sglang.
        accept: differences of verl that are wanted, and so not told: warmup_from_zero, selection_per_micro_batch; unbounded_refill takes
            verl's own refilling where it serves, and refills until the batch is full.
        overrides: further Hydra overrides of verl's own keys, `key=value`; what the harness sets cannot be set here.
    """

    kind: str = "verl"
    rollout_engine: str = choice("vllm", of=("vllm", "sglang"))
    accept: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.accept:
            require("backend.accept", name, DEVIATIONS)


def train(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    from harness.backends.verl.run import train_run

    return train_run(config, run, stop, attempt)
