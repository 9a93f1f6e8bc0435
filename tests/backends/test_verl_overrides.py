"""The command line that verl gets: golden for naive GRPO, and the differences of every other arm.

Names and units of the algorithm's settings: `tests/exchange/test_dialect_tables.py`.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

import harness
from harness.backends.verl.overrides import WRITTEN_PROMPT, Place, overrides, settings
from harness.configuration.compose import compose_run
from harness.configuration.schema import RunConfig
from harness.exchange.dialect import hydra_value

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
PLACE = Place(
    Path("/store/runs/0123456789abcdef"), Path("/store/cache/verl/data"), Path("/models/base"), 200, (2, 7), 3
)
GOLDEN = Path(__file__).with_name("golden") / "naive_grpo.txt"
ROOT = str(Path(harness.__file__).resolve().parents[1])


def config(*given: str) -> RunConfig:
    return compose_run(["backend=verl", "model=qwen25_0_5b", *given])


def values(*given: str) -> dict[str, Any]:
    return settings(config(*given), PLACE)


def test_naive_grpo_is_exactly_this_command_line() -> None:
    lines = [
        line.replace(sys.executable, "/project/.venv/bin/python").replace(ROOT, "/project")
        for line in overrides(config("rung=dapo_0_naive_grpo"), PLACE)
    ]
    assert sorted(lines) == sorted(GOLDEN.read_text().splitlines())


OVERLONG, SAMPLER = "reward.reward_kwargs.overlong_buffer_cfg", "trainer.v1.sampler"
OURS = f"{SAMPLER}.sampler_kwargs"
RUNGS: dict[str, dict[str, Any]] = yaml.safe_load(GOLDEN.with_name("rungs.yaml").read_text().replace("ROOT", ROOT))[
    "rungs"
]


def test_a_rung_changes_exactly_its_keys() -> None:
    for parent, arm in itertools.pairwise(RUNGS):
        before, after = values(f"rung={parent}"), values(f"rung={arm}")
        assert {key: value for key, value in after.items() if before.get(key) != value} == RUNGS[arm]
        assert before.keys() <= after.keys()


def test_verls_own_refilling_only_where_it_is_accepted() -> None:
    accepted, refill = "backend.accept=[unbounded_refill]", "algorithm.filter_groups"
    own = values("algorithm=dapo_replaces_filter", accepted)
    assert (own[f"{refill}.enable"], own[f"{refill}.metric"], own["algorithm.adv_estimator"]) == (True, "acc", "grpo")
    assert f"{SAMPLER}.custom_sampler.path" not in own
    for ours, rounds in (
        (values("algorithm=dapo", accepted), sys.maxsize),
        (values("algorithm=dapo_replaces_filter"), 4),
    ):
        assert (ours[f"{refill}.enable"], ours[f"{OURS}.drops_dead"], ours[f"{OURS}.max_rounds"]) == (
            False,
            True,
            rounds,
        )


def test_nodes_gpus_and_the_cap_of_the_reward_workers() -> None:
    out = values(
        "sampling.max_response_tokens=48", "evaluation.caps=[48]", "runtime.nodes=16", "runtime.gpus_per_run=8"
    )
    assert (out["trainer.nnodes"], out["trainer.n_gpus_per_node"]) == (16, 8)
    assert out["reward.reward_kwargs.max_resp_len"] == 48


def test_a_micro_batch_holds_at_least_one_whole_response() -> None:
    key = f"{ACTOR}.ppo_max_token_len_per_gpu"
    long = ["sampling.max_response_tokens=4096", "evaluation.caps=[4096]"]
    assert values("runtime.micro_batch_tokens=16384")[key] == 16384
    assert values(*long)[key] == 200 + 4096  # prompt and response
    assert values(*long, "runtime.verl.sequence_parallel=4")[key] == 2048  # 1074 of it on each GPU
    assert values(*long, "runtime.verl.sequence_parallel=2")[key] == 2148


@pytest.mark.parametrize(("old", "computes"), [("sampler", True), ("recomputed", False)])
def test_the_entropy_is_computed_where_no_other_forward_yields_it(old: str, computes: bool) -> None:
    found = values("algorithm=grpo", f"algorithm.engine_correction.old_log_probs={old}")
    assert found[f"{ACTOR}.calculate_entropy"] is computes


def test_the_users_own_overrides_come_last() -> None:
    own = "backend.overrides=['actor_rollout_ref.actor.use_torch_compile=false','+data.extra=1']"
    assert overrides(config("algorithm=grpo", own), PLACE)[-2:] == [
        "actor_rollout_ref.actor.use_torch_compile=false",
        "+data.extra=1",
    ]


@pytest.mark.parametrize(
    "value",
    [
        True, None, 3, 1e-6, 2.5e-05, 1e9, "plain", "/a path/with spaces=and,commas", "it's", "back\\slash", "ends with \\", "quoted \\'x'",
        "", "null", "[1,2]", "{a: 1}", WRITTEN_PROMPT, [1, 2], ["console", "it's"], [0.9, 0.99],
    ],
)  # fmt: skip
def test_values_survive_hydras_command_line(value: Any) -> None:
    (parsed,) = OverridesParser.create().parse_overrides([f"key={hydra_value(value)}"])
    assert parsed.value() == value
    assert type(parsed.value()) is type(value)
