"""Durations on two cores, against what the published runs took."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from verbs import Said

from harness.configuration.compose import compose_run
from harness.experiment.estimate import cpu
from harness.experiment.estimate.cpu import SMOLLM2, TESTBED, CpuEstimate, Rates, cpu_estimate, memory_lines
from harness.experiment.estimate.memory import computer_memory
from harness.experiment.planning import plan_experiment
from harness.model.shapes import shape_of

PUBLISHED = Path(__file__).parents[2] / "results" / "published"


def costs(experiment: str) -> dict[str, dict[str, float]]:
    """The published means of a run of each arm: seconds by part, generated tokens."""
    with (PUBLISHED / experiment / "tables/cost.csv").open() as file:
        rows = {row["arm"]: row for row in csv.DictReader(file)}
    return {
        arm: {key: float(row[key]) for key in ("rollout", "train", "evaluate", "total", "tokens")}
        for arm, row in rows.items()
        if row["total"]
    }


def estimated(*overrides: str) -> CpuEstimate:
    found = cpu_estimate(compose_run(overrides))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("experiment", "rates", "evaluated"),
    [("dapo_ladder", TESTBED, 256 * (2 * 32 + 2 * 8)), ("language_ladder", SMOLLM2, 256 * 2 * 4)],
)
def test_the_rates_are_those_of_the_published_ladder(experiment: str, rates: Rates, evaluated: int) -> None:
    """Of its first five arms, which train on all that they generate; three forward-sized passes a token."""
    arms = list(costs(experiment).values())[:5]
    tokens, sampling, training, evaluating = (
        sum(arm[key] for arm in arms) for key in ("tokens", "rollout", "train", "evaluate")
    )
    assert rates.sampled == pytest.approx(tokens / sampling, rel=0.02)
    assert rates.passed == pytest.approx(3 * tokens / training, rel=0.02)
    assert rates.evaluated == pytest.approx(5 * evaluated * rates.response / evaluating, rel=0.02)


@pytest.mark.parametrize("experiment", ["dapo_ladder", "all_systems"])
def test_shipped_arms_take_what_they_took(experiment: str) -> None:
    """Within a factor of 2.2: a critic of its own (PPO, VAPO) takes most beyond the estimate."""
    took, arms = costs(experiment), plan_experiment([f"experiment={experiment}"]).arms
    for planned in arms:
        found, real = cpu_estimate(planned.config), took[planned.label or planned.name]
        assert found is not None
        assert real["total"] / 2.2 < found.seconds < 2.2 * real["total"], planned.name
        assert found.generated_tokens == pytest.approx(real["tokens"], rel=0.12), planned.name


def test_what_a_run_takes_follows_its_sizes() -> None:
    whole = estimated()
    assert estimated("algorithm.responses_per_prompt=16").generated_tokens == 2 * whole.generated_tokens
    assert estimated("training.generated_tokens=1000").generated_tokens == pytest.approx(1000)
    assert estimated("training.seconds=1").seconds < TESTBED.start + 6
    half = estimated("training.steps=30", "training.evaluate_every=10", "evaluation.samples_between=null")
    assert half.generated_tokens == whole.generated_tokens / 2
    large, larger = (
        estimated("model=random_init", f"model.shape={shape}") for shape in ("qwen2.5-0.5b", "qwen2.5-1.5b")
    )
    assert larger.seconds > 2.5 * large.seconds
    assert large.source == "SmolLM2's published ladder, two cores, by size"


@pytest.mark.parametrize(
    "overrides", [["engine=openai", "engine.base_url=http://x"], ["model=pretrained", "model.path=a/b"]]
)
def test_nothing_is_said_of_what_is_not_known(overrides: list[str]) -> None:
    assert cpu_estimate(compose_run(overrides)) is None


def test_the_rates_of_the_small_policy_are_not_taken_for_a_larger_one() -> None:
    """Ten times the parameters took 36 to 85 s a run for 17 to 32, and six to nine minutes before (experiments/two_sizes)."""
    assert cpu_estimate(compose_run(["preset=ten_times"])) is None
    own = estimated("model.bases.set=null")
    assert own.seconds == estimated().seconds
    assert own.source.endswith("two cores, less the warm-up of a base policy")


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["preset=ten_times"], "times are known of the testbed's own architecture only"),
        (["runtime.device=cuda"], "timed on CPUs only"),
        (["model=pretrained"], "model.path= names no model"),
        (["model=pretrained", "model.path=a/b"], "the sizes of a/b are not known here; of a downloaded copy"),
        (["model=pretrained", "model.path=FOLDER"], "are not counted (Llama, Mistral,"),
        (["model=random_init", "engine=vllm"], "nothing is known of backend=builtin with engine=vllm"),
    ],
)
def test_plan_says_why_there_is_no_estimate(
    overrides: list[str], reason: str, tmp_path: Path, said: Said
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt_neox"}')
    given = [item.replace("FOLDER", str(tmp_path)) for item in overrides]
    fitting = ["evaluation.samples_between=null"] * ("model" in overrides[0])
    text = " ".join(said("plan", *given, *fitting, f"runtime.results={tmp_path / 'results'}").split())
    assert "nothing tells what 1 of them cost: no run like them is in the store, and " in text
    assert reason in text


def test_memory_of_a_language_models_run_is_near_what_one_held() -> None:
    """3.9 GB (two steps of `preset=language`, naive GRPO, at the worker's peak)."""
    config = compose_run(["preset=language"])
    parts = computer_memory(config, shape_of(config.model))
    assert parts["weights"] == parts["moments"] / 2 == 4 * 134_515_008
    assert (
        parts["keys and values"] == 128 * (256 + 24) * 30 * 2 * 192 * 4
    )  # rows, tokens, layers, keys and values, width, float32
    assert sum(parts.values()) == pytest.approx(3.9e9, rel=0.12)
    few = compose_run(["preset=language", "runtime.rollout_rows=8"])
    assert "activations" in computer_memory(few, shape_of(few.model))


def test_runs_that_together_take_more_than_this_computer_has_are_told_how_many_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu, "host_memory_gib", lambda: 10.0)
    configs = [compose_run(overrides) for overrides in ([], ["preset=language"])]
    (two,), (three,) = (list(memory_lines(configs, count)) for count in (2, 3))
    assert two.startswith("memory: a run takes up to about 4.0 GiB (keys and values 1.5, ")
    assert two.endswith("this computer has 10.0")
    assert three.endswith("this computer has 10.0; 3 at once take more than there is: set runtime.workers=2")
    assert list(memory_lines(configs[:1], 3)) == []  # the testbed
