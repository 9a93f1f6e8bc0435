"""Our objective against TRL's own code, for every system that TRL can express and for random members together, through the exported
settings and TRL's own defaults for everything that they leave out.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import pytest
from batches import ONE_BATCH, SEEDS, assert_agrees, tensors
from combinations_of_members import TAKEN, accepted

from harness.configuration.compose import compose_run, options
from harness.configuration.schema import RunConfig
from harness.exchange import trl

pytest.importorskip("trl", reason="TRL is not installed")
pytestmark = pytest.mark.thorough
# Differences that do not touch the loss of one given batch.
OUTSIDE = ("dead_groups", "curriculum", "micro_batch_tokens", "responses_per_prompt", "overlong=")


@functools.cache
def expressible() -> dict[str, RunConfig]:
    """Systems whose loss TRL can say, with TRL's epsilon."""
    found = {}
    for name in options("algorithm"):
        config = compose_run([f"algorithm={name}", *ONE_BATCH])
        algorithm = config.algorithm
        if hasattr(algorithm.advantage, "epsilon"):
            algorithm.advantage.epsilon = 1e-4
        if algorithm.aggregation.kind == "microbatch_token_mean":
            algorithm.aggregation.micro_batch_tokens = 10_000  # one micro-batch, as one device batch is
        if all(any(word in line for word in OUTSIDE) for line in trl.export(config).inexpressible):
            found[name] = config
    return found


def case(config: RunConfig, data: dict[str, Any]) -> dict[str, Any]:
    separate = config.algorithm.advantage.kind == "decoupled"
    rewards = data["components"] if separate else data["components"].sum(1, keepdims=True)
    masks = config.algorithm.overlong.masks
    mask = data["mask"] & ~(data["truncated"].reshape(-1, 1) & masks)
    plain = {name: data[name] for name in ("log_probs", "old", "reference", "sampler", "entropy")}
    arrays = {**plain, "mask": mask.astype(float), "rewards": rewards}
    quiet = {"output_dir": os.devnull, "report_to": "none", "use_cpu": True, "bf16": False}
    return {
        "settings": trl.export(config).settings,
        "tensors": {k: v.tolist() for k, v in arrays.items()},
        "quiet": quiet,
    }


def test_every_expressible_system_agrees_with_trl(record_property: Any) -> None:
    batches = [tensors(seed) for seed in range(SEEDS)]
    drawn = {name: [(config, one) for one in batches] for name, config in expressible().items()}
    named = "grpo grpo_kl grpo_kl_ratio dapo dapo_noclip dr_grpo cispo gspo gdpo lite_ppo icepop"
    assert set(named.split()) <= drawn.keys()
    record_property("largest_relative_difference", assert_agrees("trl", case, drawn))


def test_members_put_together_at_random_agree_with_trl_where_the_export_takes_them() -> None:
    drawn = accepted(trl)
    assert {config.algorithm.engine_correction.kind for config, _ in drawn.values()} == TAKEN
    assert_agrees("trl", case, {name: [one] for name, one in drawn.items()})
