"""Random-init policies of the testbed's vocabulary, in the sizes whose speed is measured."""

from __future__ import annotations

from pathlib import Path

from harness.model.checkpoint import save_decoder
from harness.testbed import recipe as testbed
from harness.testbed.warm_up import initialise

SIZES = {
    "m": {"hidden": 256, "intermediate": 768, "layers": 4, "heads": 4, "kv_heads": 2},  # 3.2M
    "t": {"hidden": 64, "intermediate": 176, "layers": 3, "heads": 4, "kv_heads": 4},  # the testbed's
}


def random_policy(model: testbed.Config, size: str, folder: Path, kernel: str) -> Path:
    """Write a policy of this size; `model` becomes its configuration."""
    for name, value in SIZES[size].items():
        setattr(model.architecture, name, value)
    folder.mkdir(parents=True)
    save_decoder(initialise(model, folder, kernel), folder, folder)
    return folder
