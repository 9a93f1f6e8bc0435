"""What goes wrong in an update is said with the fix, and nothing that was computed is lost."""

from __future__ import annotations

import math
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from small_runs import Bench, small_config

from harness.backends import trl
from harness.base_policy.pretrained import Config as Pretrained
from harness.configuration.error import ConfigError
from harness.configuration.registry import member
from harness.objective.objective import ObjectiveStats
from harness.rollout.engine import transformers
from harness.rollout.wrappers import EngineMismatch, WeightSync
from harness.training import loop
from harness.training.attempt import fit_memory, out_of_memory
from harness.training.loop import train
from harness.training.run_parts import RunParts
from harness.training.step_data import NumericalFault, StepData
from harness.training.update import Updater


@pytest.fixture
def trainer(bench: Bench) -> RunParts:
    """A run of two steps, not yet started."""
    config = small_config(training__steps=2, training__evaluate_every=2, algorithm__dead_groups__policy="refill")
    config.algorithm.dead_groups.max_rounds = 10
    return bench.trainer(config)


def never() -> bool:
    return False


def test_an_engine_is_closed_where_a_later_part_of_the_run_cannot_be_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Mock()
    monkeypatch.setattr("harness.training.run_parts.build_engine", lambda *_: engine)
    monkeypatch.setattr("harness.sampling.source.policy.build", Mock(side_effect=ValueError("no demonstrations")))
    with pytest.raises(ValueError, match="no demonstrations"):
        bench.trainer(small_config())
    engine.close.assert_called_once_with()


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_its_batch(trainer: RunParts) -> None:
    plain = trainer.updater.policy.token_log_probs

    def poisoned(*arguments: object) -> tuple[torch.Tensor, torch.Tensor | None]:
        log_probs, entropy = plain(*arguments)  # type: ignore[arg-type]
        return log_probs * (math.nan if trainer.progress.step == 1 else 1.0), entropy

    trainer.updater.policy.token_log_probs = poisoned  # type: ignore[method-assign, assignment]
    with pytest.raises(NumericalFault, match=r"step 2, update 1: loss nan.*optimizer\.learning_rate.*step-000002\.pt"):
        train(trainer, never, attempt=0)
    batch = torch.load(trainer.run.path / "faults" / "step-000002.pt")
    assert len(batch["rows"]) in (4, 8)  # the live ones of two groups of four
    assert math.isnan(batch["loss"])
    assert batch["data"]["tokens_N"].shape == batch["data"]["advantages_N"].shape
    assert trainer.run.steps()["step"].tolist() == [1]


def test_an_update_that_does_not_fit_is_made_with_half_of_the_micro_batch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Memory runs out once, at step 2; the next attempt trains what a run with enough memory trains."""
    config = small_config(training__steps=3, training__evaluate_every=3, algorithm__dead_groups__policy="refill")
    config.runtime.micro_batch_tokens, config.runtime.checkpoint_every = 96, 1
    config.algorithm.dead_groups.max_rounds = 10
    run, plain = bench.run(), Updater._forward
    trainer = bench.trainer(config)
    (run.path / "attempts" / "000").mkdir(parents=True)

    def forward(updater: Updater, batch: StepData) -> tuple[torch.Tensor, ObjectiveStats]:
        if trainer.progress.step == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(updater, batch)

    monkeypatch.setattr(Updater, "_forward", forward)
    named = r"runtime\.micro_batch_tokens=96; the next attempt takes half.*gradient_checkpointing.*gpus_per_run"
    with pytest.raises(MemoryError, match=named):
        train(trainer, never, attempt=0)
    monkeypatch.undo()
    halved = fit_memory(config, run)
    assert halved.runtime.micro_batch_tokens == 48
    assert capsys.readouterr().err.count("runtime.micro_batch_tokens=48 instead of 96") == 1
    again = bench.trained(halved)
    assert run.steps()["step"].tolist() == [1, 2, 3]
    straight = bench.trained(config, "b")
    torch.testing.assert_close(again.policy.state(), straight.policy.state(), rtol=0, atol=1e-6)


def test_more_processes_are_no_advice_where_each_holds_a_copy(bench: Bench) -> None:
    config = small_config(backend=trl.Config())
    assert str(out_of_memory(config, bench.run())).endswith("or model.lora.rank")


def test_an_engine_with_old_weights_is_caught_at_the_next_load(trainer: RunParts, base_policy: Path) -> None:
    from harness.model.checkpoint import load_decoder
    from harness.rollout.engine.native.sampler import NativeEngine

    engine = NativeEngine(load_decoder(base_policy), shares_weights=False)
    stale = Mock(wraps=engine, shares_weights=False, load_weights=Mock())  # says that it took new weights, and did not
    sync = WeightSync(stale, trainer.policy, trainer.prompts, trainer.params)
    assert sync.load() < 1e-5
    with torch.no_grad():
        for parameter in trainer.policy.parameters():
            parameter.mul_(1.1)
    with pytest.raises(EngineMismatch, match=r"differ by .* nats.*engine=native"):
        sync.load()
    honest = WeightSync(engine, trainer.policy, trainer.prompts, trainer.params)
    assert honest.load() < 1e-5


def test_a_budget_that_measuring_pass_rates_spends_is_refused(bench: Bench) -> None:
    curriculum = member("harness.sampling.curriculum", "offline_filter").Config(samples=1)
    config = small_config(algorithm__curriculum=curriculum, training__generated_tokens=1)
    with pytest.raises(ConfigError, match=r"took \d+ of training.generated_tokens=1: raise it"):
        bench.trained(config)


def test_a_critic_that_diverges_stops_the_run(bench: Bench) -> None:
    advantage = member("harness.objective.advantage", "gae").Config()
    advantage.critic.learning_rate = 1e20
    with pytest.raises(NumericalFault, match=r"critic|advantages"):
        bench.trained(small_config(algorithm__advantage=advantage))


def test_an_engine_that_computes_nan_on_one_rank_is_no_match(trainer: RunParts) -> None:
    sync = trainer.sync
    sync.engine = Mock(shares_weights=False)
    sync.gap = lambda: 0.001  # type: ignore[method-assign]
    sync.ranks = Mock(gather=lambda gap: [gap, math.nan])
    with pytest.raises(EngineMismatch, match="nan"):
        sync.load()


def test_weights_are_checked_at_the_start_and_then_every_so_many_steps(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks, loads = [], []
    gap, load = WeightSync.gap, WeightSync.load
    monkeypatch.setattr(WeightSync, "gap", lambda self: checks.append(1) or gap(self))
    monkeypatch.setattr(WeightSync, "load", lambda self, **given: loads.append(1) or load(self, **given))
    bench.trained(small_config(engine=transformers.Config(), training__steps=4, runtime__check_weights_every=2))
    assert (len(loads), len(checks)) == (5, 3)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_no_gradient_lives_while_responses_are_sampled(
    bench: Bench, checkpointing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    living: list[int] = []

    def collected(parts: RunParts, *given: object) -> object:
        living.append(sum(p.grad.nbytes for p in parts.policy.parameters() if p.grad is not None))
        return collect(parts, *given)  # type: ignore[arg-type]

    collect = loop.collect
    monkeypatch.setattr(loop, "collect", collected)
    model = Pretrained(path=str(bench.base), precision="float32")
    config = small_config(training__steps=3, model=model, runtime__gradient_checkpointing=checkpointing)
    bench.trained(config)
    assert living == [0, 0, 0]
