"""Training by TRL's GRPOTrainer on the testbed: rows, samples and policy; stop, kill and resume; dynamic sampling."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from small_runs import claimed, small_config

from harness.backends import trl
from harness.base_policy import pretrained
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.model.checkpoint import load_decoder, read_state
from harness.model.policy import NativePolicy
from harness.model.transformers_policy import save_model
from harness.objective.aggregation import batch_token_mean
from harness.problems.benchmarks import arithmetic
from harness.store import RunDir
from harness.testbed import recipe as testbed
from harness.training.loop import train_run

pytest.importorskip("trl", reason="TRL is not installed")


def trl_config(**changes: Any) -> RunConfig:
    """Four steps from a shipped base policy."""
    base = {"backend": trl.Config()}
    if "model" not in changes:
        held_out = {"arithmetic_heldout": arithmetic.Config(split="heldout", problems=6)}
        base |= {"model": testbed.Config(), "task__modulus": 100, "evaluation__benchmarks": held_out}
    return small_config(**(base | changes))


def never() -> bool:
    return False


def trained(root: Path, **changes: Any) -> RunDir:
    """A run that TRL has trained to its end."""
    config = trl_config(**changes)
    run = claimed(config, root)
    assert trl.train(config, run, never, 0)
    return run


def numbers(run: RunDir) -> pd.DataFrame:
    """The rows without what belongs to the attempt and its clock."""
    steps = run.steps()
    return steps[[name for name in steps if not name.startswith("seconds_") and name != "attempt"]]


def test_a_run_has_rows_samples_and_a_policy_as_the_built_in_trainer_writes_them(tmp_path: Path) -> None:
    run = trained(tmp_path, optimizer__warmup_steps=2)
    steps = run.steps()
    assert list(steps["step"]) == [1, 2, 3, 4]
    assert list(steps["updates"]) == [4, 8, 12, 16]
    assert list(steps["learning_rate"]) == pytest.approx([1e-4, 2e-4, 2e-4, 2e-4])
    assert list(steps["generated_tokens_total"]) == list(steps["generated_tokens"].cumsum())
    known = steps[["reward_mean", "entropy_nats", "gradient_norm", "clip_fraction_high", "loss", "seconds_total"]]
    assert known.notna().all(axis=None)
    # Rewards are 1 and -1, whatever TRL is given.
    assert list(steps["reward_mean"]) == pytest.approx(list(2 * steps["accuracy_mean"] - 1), abs=1e-6)
    assert run.sample_steps("arithmetic_heldout") == [0, 2, 4]
    step, folder = run.checkpoints()[-1]
    assert (step, sorted(path.name for path in folder.iterdir())) == (4, ["files.seal", "policy"])
    assert load_decoder(folder / "policy").shape == load_decoder(next(tmp_path.glob("cache/base-*"))).shape

    built_in = trl_config(optimizer__warmup_steps=2)
    built_in.backend = type(RunConfig().backend)()
    other = claimed(built_in, tmp_path)
    assert train_run(built_in, other, never, attempt=0)
    known_to_both = [set(each.steps().dropna(axis="columns", how="all")) for each in (run, other)]
    assert known_to_both[1] - known_to_both[0] == UNKNOWN
    before = [each.samples("arithmetic_heldout", 0) for each in (run, other)]
    pd.testing.assert_frame_equal(*before)


# Columns of the built-in trainer's that TRL does not tell.
UNKNOWN = {
    "clip_released_fraction", "entropy_share", "kl_share", "nll_share", "off_policy_masked_fraction", "ratio_max", "sampler_kl_nats",
    "sampler_log_prob_gap_max", "sampler_log_prob_gap_mean",
}  # fmt: skip


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path += sys.argv[2:]
from test_trl_run import RunDir, trl
from harness.configuration.schema import load

run = RunDir(Path(sys.argv[1]))
trl.train(load(run.settings()), run, lambda: len(run.steps()) == 2 and os.kill(os.getpid(), signal.SIGKILL), 0)
"""


def test_a_killed_run_resumes_to_the_numbers_of_an_undisturbed_one(tmp_path: Path) -> None:
    config = trl_config()
    run, other = claimed(config, tmp_path / "killed"), trained(tmp_path / "whole")
    here = Path(__file__).parent
    command = [sys.executable, "-c", KILLED, str(run.path), str(here), str(here.parent)]
    done = subprocess.run(command, cwd=here.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    assert [step for step, _ in run.checkpoints()] == [2]  # it was killed in the third step
    assert trl.train(config, run, never, 1)
    assert list(run.steps()["attempt"]) == [0, 0, 1, 1]
    pd.testing.assert_frame_equal(numbers(run), numbers(other))
    weights = [read_state(each.checkpoints()[-1][1] / "policy") for each in (run, other)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])


def test_a_stopped_run_leaves_a_checkpoint_and_a_finished_one_is_left_alone(tmp_path: Path) -> None:
    config = trl_config(training__steps=2, training__evaluate_every=5)
    run = claimed(config, tmp_path)
    assert not trl.train(config, run, lambda: len(run.steps()) == 0 and bool(run.sample_steps("arithmetic_heldout")), 0)
    assert [step for step, _ in run.checkpoints()] == [1]
    assert trl.train(config, run, never, 1)
    assert trl.train(config, run, never, 2)
    assert list(run.steps()["attempt"]) == [0, 1]


def test_dynamic_sampling_fills_the_batch_and_counts_what_it_threw_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.backends.trl import trainer

    sizes, decode = [], trainer._decode
    monkeypatch.setattr(trainer, "_decode", lambda it, prompts: sizes.append(len(prompts)) or decode(it, prompts))
    steps = trained(
        tmp_path,
        runtime__rollout_rows=20,
        algorithm__dead_groups__policy="refill",
        algorithm__dead_groups__max_rounds=2,
        algorithm__aggregation=batch_token_mean.Config(),
        training__steps=2,
    ).steps()
    assert sizes == [20, 12] * 4  # of 32 responses a round
    assert (steps["refill_rounds"] == 2).all()
    assert (steps["generated_groups"] == 16).all()
    assert (steps["kept_groups"] + steps["discarded_groups"] == 16).all()
    assert (steps["kept_groups"] <= 8).all()
    assert (steps["generated_tokens"] > steps["trained_tokens"]).all()


def test_one_engine_evaluates_and_no_second_trainable_copy_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.backends.trl import run

    opened, policies = [], []
    open_folder, load = run.open_folder, NativePolicy.load
    monkeypatch.setattr(run, "open_folder", lambda *given: opened.append(open_folder(*given)) or opened[-1])
    monkeypatch.setattr(
        NativePolicy, "load", lambda *given, **more: policies.append(load(*given, **more)) or policies[-1]
    )
    assert trained(tmp_path, training__evaluate_every=1).sample_steps("arithmetic_heldout") == [0, 1, 2, 3, 4]
    assert (len(opened), len(policies)) == (1, 0)


def test_a_token_budget_ends_the_run(tmp_path: Path) -> None:
    run = trained(tmp_path, training__generated_tokens=1)
    assert list(run.steps()["step"]) == [1]
    assert [step for step, _ in run.checkpoints()] == [1]


def test_settings_that_trl_does_not_know_are_refused_in_words(tmp_path: Path) -> None:
    config = trl_config(backend=trl.Config(overrides=["nonsense=1"]))
    with pytest.raises(ConfigError, match=r"GRPOConfig refuses.*nonsense"):
        trl.train(config, claimed(config, tmp_path), never, 0)


def test_a_reward_function_that_always_fails_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def reward(response):\n    raise KeyError(response)\n")
    config = trl_config(algorithm__reward__function=f"{tmp_path}/mine.py:reward")
    with pytest.raises(ConfigError, match="failed on each of the first 32 responses"):
        trl.train(config, claimed(config, tmp_path), never, 0)


def test_adapters_alone_are_trained_and_evaluated_merged(tmp_path: Path) -> None:
    """Of a bfloat16 checkpoint, unrounded: the products are float32. All processes draw the same adapters."""
    pytest.importorskip("peft", reason="peft is not installed")
    from harness.backends.trl import trainer

    policy = trained(tmp_path / "base", training__steps=1).checkpoints()[-1][1] / "policy"
    save_model(read_state(policy).items(), policy, tmp_path / "bfloat16", dtype=torch.bfloat16)
    policy = tmp_path / "bfloat16"
    model = pretrained.Config(path=str(policy), precision="float32", lora=pretrained.Lora(rank=2))
    config = trl_config(model=model, training__steps=2, training__evaluate_every=1)
    first, second = (dict(trainer._model(config, policy).named_parameters()) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    run = claimed(config, tmp_path)
    assert not trl.train(config, run, lambda: len(run.steps()) == 0 and bool(run.sample_steps("arithmetic_heldout")), 0)
    assert trl.train(config, run, never, 1)
    assert run.sample_steps("arithmetic_heldout") == [0, 1, 2]
    before, after = read_state(policy), read_state(run.checkpoints()[-1][1] / "policy")
    changed = {name for name in after if not torch.equal(before[name].float(), after[name])}
    assert changed
    assert all(name.endswith("_proj.weight") for name in changed)
    assert any(not torch.equal(after[name], after[name].bfloat16().float()) for name in changed)
