"""No choice is dropped on the way to verl: changing any key of a run changes verl's command line, or refuses the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from every_key import lost_changes

from harness.backends.verl.overrides import Place, data_folder, differences, overrides, refusals
from harness.configuration.compose import compose_run, options
from harness.configuration.identity import content_hash
from harness.configuration.schema import RunConfig, dump

COMMON = ["backend=verl", "model=qwen25_0_5b"]
ACCEPT = "backend.accept=[unbounded_refill,warmup_from_zero]"
# Configurations that verl trains; between them every part of the algorithm is switched on somewhere.
BASES = {
    **{
        name: [f"algorithm={name}"]
        for name in ("grpo", "dr_grpo", "cispo", "gspo", "grpo_kl", "rloo", "reinforce_pp")
    },
    "soft punishment and refill": ["algorithm=dapo_replaces_filter", ACCEPT, "optimizer.warmup_steps=5"],
    "our plugin": ["algorithm=dapo"],
    "engine correction": [
        "algorithm=grpo", "algorithm.engine_correction.kind=token", "algorithm.engine_correction.old_log_probs=recomputed",
        "algorithm.surrogate.dual_clip=3.0",
    ],
    "no clip": ["algorithm=grpo", "algorithm/surrogate=policy_gradient", "algorithm.reward.format_credit=0.1"],
}  # fmt: skip
# Keys whose change reaches verl neither way, and why that loses nothing.
NOT_VERLS = {
    "engine.": "samples our evaluations, before and after RL",
    "evaluation.": "of our evaluations",
    "training.evaluate_every": "said: verl is evaluated before and after",
    "backend.accept": "decides what is refused",
    "model.lora.alpha": "a rank above 0 is refused",
    "model.lora.targets": "a rank above 0 is refused",
}


def place(config: RunConfig) -> Place:
    """Where an attempt's files lie, by what they depend on."""
    model = Path("/models") / content_hash(dump(config.model))
    return Place(Path("/run"), data_folder(config, Path("/cache"), model), model, 100, (2,), 0)


def passed_over(key: str) -> bool:
    """Whether a change of the key need not reach verl."""
    return key == "backend" or key.startswith(("runtime", *(known.rstrip(".") for known in NOT_VERLS)))


@pytest.mark.parametrize("name", BASES)
def test_every_change_reaches_verl_or_is_refused(name: str) -> None:
    config = compose_run([*COMMON, *BASES[name]])
    assert refusals(config) == []
    lost, tried = lost_changes(config, lambda changed: overrides(changed, place(changed)), refusals, passed_over)
    assert lost == []
    assert {
        "seed",
        "algorithm.aggregation",
        "optimizer.beta2",
        "verifier.extraction",
        "training.generated_tokens",
    } <= tried
    assert len(tried) > 60


def test_what_is_done_otherwise_is_said_unless_it_is_known() -> None:
    given = [*COMMON, "algorithm=grpo", "optimizer.warmup_steps=10", "algorithm/surrogate=kl_cov"]
    config = compose_run(given)
    assert refusals(config) == []
    said = differences(config)
    assert any("s/10 here" in line for line in said)
    assert any("in every micro-batch" in line for line in said)
    known = differences(compose_run([*given, "backend.accept=[warmup_from_zero,selection_per_micro_batch]"]))
    assert known == [line for line in said if "s/10" not in line and "micro-batch" not in line]


def test_verl_takes_every_rung_and_refuses_what_it_averages_by_micro_batch() -> None:
    assert any("micro-batch" in reason for reason in refusals(compose_run([*COMMON, "algorithm=gmpo"])))
    assert [line for name in options("rung") for line in refusals(compose_run([*COMMON, f"rung={name}"]))] == []
