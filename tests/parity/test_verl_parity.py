"""Our objective against verl's own estimators and losses, for every system that verl can express and for random members together, through
the exported settings and verl's own defaults for everything that they leave out.

Optional: needs `python tests/parity/build_peer.py verl` (an environment of its own, no GPU) and is skipped without it.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import pytest
from batches import ONE_BATCH, SEEDS, assert_agrees, tensors
from build_peer import ready
from combinations_of_members import TAKEN, accepted

from harness.backends.verl import extension
from harness.configuration.compose import compose_run, options
from harness.configuration.schema import RunConfig

pytestmark = [
    pytest.mark.optional,
    pytest.mark.skipif(not ready("verl"), reason="no verl environment: python tests/parity/build_peer.py verl"),
]
# All tokens of the band, since the draw is random there; enough tokens to matter.
MORE = {
    "clip_cov": ["algorithm.surrogate.fraction=1.0", "algorithm.surrogate.low=0.1"],
    "kl_cov": ["algorithm.surrogate.fraction=0.2"],
}
# Differences that do not touch the loss of one given batch.
OUTSIDE = ("dead_groups", "curriculum", "source=", "overlong.shape")


@functools.cache
def expressible() -> dict[str, RunConfig]:
    """Systems whose loss verl can say; GDPO is left out, whose whitening per token is a documented difference."""
    found = {}
    for name in options("algorithm"):
        config = compose_run(["backend=verl", f"algorithm={name}", *ONE_BATCH, *MORE.get(name, [])])
        exported = extension.export(config)
        inside = [line for line in exported.inexpressible if not any(word in line for word in OUTSIDE)]
        if (
            not inside
            and config.algorithm.advantage.kind != "decoupled"
            and "algorithm.adv_estimator" in exported.settings
        ):
            found[name] = config
    return found


def case(config: RunConfig, batch: dict[str, Any]) -> dict[str, Any]:
    masked = batch["truncated"].reshape(-1) & config.algorithm.overlong.masks
    arrays = {
        "mask": batch["mask"].astype(float),
        "loss_mask": (batch["mask"] & ~masked[:, None]).astype(float),
        "rewards": batch["components"].sum(1),
        **{key: batch[key] for key in ("log_probs", "old", "reference", "values", "sampler", "entropy")},
    }
    return {"settings": extension.export(config).settings, "tensors": {k: v.tolist() for k, v in arrays.items()}}


def test_every_expressible_system_agrees_with_verl(record_property: Any) -> None:
    batches = [tensors(seed) for seed in range(SEEDS)]
    drawn = {name: [(config, one) for one in batches] for name, config in expressible().items()}
    named = "grpo grpo_kl dr_grpo ppo gspo cispo rloo reinforce_pp icepop sapo gmpo dppo dppo_kl clip_cov kl_cov dro opo gpg"
    by_plugin = "dapo lite_ppo max_rl reinforce reinforce_pp_baseline"
    assert {*named.split(), *by_plugin.split()} <= drawn.keys()
    largest = assert_agrees("verl", case, drawn)
    record_property("largest_relative_difference", largest)
    assert largest < 1e-6


def documented(config: RunConfig, batch: dict[str, Any]) -> bool:
    """Whether verl differs as docs/objective says: gdpo whitens over tokens, low_var_kl is held within 10."""
    kl = config.algorithm.kl
    far = max(float(np.abs(batch["reference"] - batch[name]).max()) for name in ("old", "log_probs"))
    bounded = kl.coefficient > 0 and kl.kind.startswith("k3") and far > 2.3
    return bounded or config.algorithm.advantage.kind == "decoupled"


def test_members_put_together_at_random_agree_with_verl_where_the_export_takes_them() -> None:
    drawn = {name: one for name, one in accepted(extension, "backend=verl").items() if not documented(*one)}
    assert len(drawn) > 50
    assert {config.algorithm.engine_correction.kind for config, _ in drawn.values()} == TAKEN
    ours = [config for config, _ in drawn.values() if extension.needs_plugin(config)]
    assert {config.algorithm.advantage.kind for config in ours} == {"group", "best_worst", "return_to_go"}
    assert assert_agrees("verl", case, {name: [one] for name, one in drawn.items()}) < 1e-6


@pytest.mark.parametrize("statistics", ["keep", "exclude"])
def test_systems_agree_with_verl_when_truncated_responses_carry_no_loss(statistics: str) -> None:
    batches, drawn = [tensors(seed) for seed in range(SEEDS)], {}
    assert all(batch["truncated"].any() for batch in batches)
    for name, given in expressible().items():
        config = copy.deepcopy(given)
        config.algorithm.overlong.policy, config.algorithm.overlong.statistics = "mask", statistics
        if not extension.export(config).inexpressible:
            drawn[name] = [(config, one) for one in batches]
    assert {"grpo", "dr_grpo", "gspo", "cispo", "gmpo", "sapo", "dapo", "lite_ppo", "icepop", "kl_cov"} <= drawn.keys()
    assert assert_agrees("verl", case, drawn) < 1e-6
