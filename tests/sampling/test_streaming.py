"""Streaming collection trains on the groups that rounds would, and generates no more than it keeps and drops."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.configuration.algorithm import DeadGroupsConfig
from harness.configuration.combinations import check_combinations
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.model.checkpoint import load_decoder
from harness.reward.grading import Grader, Grades
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.engine.native.slots import SlotSession
from harness.rollout.errors import EngineDied
from harness.rollout.noise import key, sample_seeds
from harness.rollout.restart import RestartingEngine
from harness.rollout.types import Completions, SamplingParams
from harness.sampling.collector import collect
from harness.sampling.groups import Groups
from harness.sampling.streaming import collect_streaming
from harness.store import ResultStore
from harness.training.loop import Trainer

PARAMS = SamplingParams(12, 1.0, stop_token_ids=(1,))
PROMPTS = [[3, 4, 5, 6, 7], [7, 8, 9], [3, 3, 3, 3, 3, 5, 6], [4], [5, 5]] * 3


def group(draw: int, right: int) -> Groups:
    """A group of four one-token responses, `right` of them correct; its problem is its place in the order of draws."""
    correct = (torch.arange(4) < right)[None]
    ones = torch.ones(4)
    completions = Completions(ones.long(), -ones, ones, ones.long(), ones.bool())
    return Groups(torch.tensor([draw]), completions, correct, ones.bool()[None], correct.float())


class Shuffled:
    """A stream that finishes its groups in a random order, a few at a time."""

    def __init__(self, outcomes: list[int], seed: int) -> None:
        self.outcomes, self.random = outcomes, random.Random(seed)
        self.asked, self.out = 0, list[int]()

    def request(self, count: int) -> None:
        self.out += range(self.asked, self.asked + count)
        self.asked += count

    def finished(self) -> list[tuple[int, Groups]]:
        self.random.shuffle(self.out)
        count = self.random.randint(0, 3)
        done, self.out = self.out[:count], self.out[count:]
        return [(draw, group(draw, self.outcomes[draw])) for draw in done]


@pytest.mark.parametrize("policy", ["keep", "drop", "refill"])
@pytest.mark.parametrize("seed", range(12))
def test_the_same_groups_are_kept_as_round_by_round(policy: str, seed: int) -> None:
    outcomes = np.random.default_rng(seed).choice([0, 4, 2], size=40, p=[0.35, 0.3, 0.35]).tolist()
    config = DeadGroupsConfig(policy=policy, max_rounds=4)

    def round_(number: int, count: int) -> Groups:
        return Groups.concatenate([group(i, outcomes[i]) for i in range(number * 8, number * 8 + count)])

    rounds, stream = collect(round_, config, 8, None), Shuffled(outcomes, seed)
    streamed = collect_streaming(stream, config, 8)
    assert streamed.kept.problems_P.tolist() == rounds.kept.problems_P.tolist()
    assert streamed.first.problems_P.tolist() == rounds.first.problems_P.tolist()
    assert streamed.generated_groups == stream.asked == len(streamed.kept) + streamed.dead
    assert streamed.generated_groups <= rounds.generated_groups
    assert streamed.rounds == rounds.rounds


def test_slots_answer_like_the_batched_engine(base_policy: Path) -> None:
    decoder = load_decoder(base_policy)
    seeds = sample_seeds(key("slots"), np.arange(len(PROMPTS), dtype=np.uint64), 4)
    for params in (PARAMS, SamplingParams(30, 0.0, stop_token_ids=(1,)), SamplingParams(12, 0.8, 0.9)):
        expected = NativeEngine(decoder).generate(PROMPTS, seeds, params)
        session = SlotSession(decoder, params, 7, rows=9)  # two groups at a time
        tickets = {
            session.submit(prompt, row): i for i, (prompt, row) in enumerate(zip(PROMPTS, seeds, strict=True))
        }
        parts: dict[int, Completions] = {}
        while len(parts) < len(PROMPTS):
            parts.update({tickets[ticket]: part for ticket, part in session.poll()})
        assert session.idle
        got = Completions.concatenate([parts[i] for i in range(len(PROMPTS))])
        assert torch.equal(got.tokens_N, expected.tokens_N)
        assert torch.equal(got.finished_R, expected.finished_R)
        torch.testing.assert_close(got.log_probs_N, expected.log_probs_N, atol=1e-4, rtol=0)
        torch.testing.assert_close(got.entropy_N, expected.entropy_N, atol=1e-4, rtol=0)


def test_slots_that_are_done_are_not_computed(base_policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last responses move to the front; more requests fill the rest again, and every response is the same."""
    prompts = [[3 + i % 5, 4, 5, 6][: 1 + i % 4] for i in range(24)]
    seeds = sample_seeds(key("stragglers"), np.arange(len(prompts), dtype=np.uint64), 4)
    params = SamplingParams(60, 1.0, stop_token_ids=(1,))
    expected = NativeEngine(load_decoder(base_policy)).generate(prompts, seeds, params)
    computed: list[int] = []
    step = SlotSession._step

    def watched(session: SlotSession, rows: int, attended: int) -> None:
        live = session.live.nonzero()[:, 0].tolist()
        assert max(live, default=0) < rows
        computed.append(rows)
        step(session, rows, attended)

    monkeypatch.setattr(SlotSession, "_step", watched)
    session = SlotSession(load_decoder(base_policy), params, 7, rows=64)
    tickets, parts = {}, {}
    waiting = list(enumerate(prompts))
    while len(parts) < len(prompts):
        if waiting and (not tickets or len(parts) >= 12):  # a second half when the first is through
            half, waiting = waiting[:12], waiting[12:]
            tickets |= {session.submit(prompt, seeds[i]): i for i, prompt in half}
        parts |= {tickets[ticket]: part for ticket, part in session.poll()}
    got = Completions.concatenate([parts[i] for i in range(len(prompts))])
    assert torch.equal(got.tokens_N, expected.tokens_N)
    torch.testing.assert_close(got.log_probs_N, expected.log_probs_N, atol=1e-4, rtol=0)
    assert {8, 64} <= set(computed) <= {8, 16, 32, 64}


def test_a_session_refuses_what_does_not_fit(base_policy: Path) -> None:
    session = SlotSession(load_decoder(base_policy), PARAMS, 5, rows=4)
    with pytest.raises(ValueError, match="rollout_rows"):
        session.submit([3], np.arange(5, dtype=np.uint64))
    with pytest.raises(ValueError, match="no tokens"):
        session.submit([], np.arange(2, dtype=np.uint64))
    with pytest.raises(ValueError, match="positions"):
        session.submit([3] * 6, np.arange(2, dtype=np.uint64))


def trained(config: RunConfig, folder: Path, root: Path) -> Trainer:
    grader = Grader(config.verifier, config.runtime)
    trainer = Trainer(config, ResultStore(root).run("a" * 16), folder, "torch", grader)
    assert trainer.train(lambda: False, attempt=0)
    grader.close()
    return trainer


@pytest.mark.parametrize("policy", ["drop", "refill"])
def test_streaming_trains_the_same_policy_for_fewer_tokens(
    make_config: Callable[..., RunConfig], base_policy: Path, tmp_path: Path, policy: str
) -> None:
    changes = {
        "algorithm__dead_groups__policy": policy,
        "algorithm__dead_groups__max_rounds": 32,
        "algorithm__prompts_per_step": 2,
        "algorithm__updates_per_step": 2,
        "training__steps": 3,
        "training__evaluate_every": 3,
    }
    rounds = trained(make_config(**changes), base_policy, tmp_path / "rounds")
    streamed = trained(make_config(sampling__streaming=True, **changes), base_policy, tmp_path / "streamed")
    a, b = rounds.run.steps(), streamed.run.steps()
    assert a["trained_tokens"].tolist() == b["trained_tokens"].tolist()
    np.testing.assert_allclose(a["loss"], b["loss"], atol=1e-6)  # NaN where no group was live
    assert (b["generated_tokens"] <= a["generated_tokens"]).all()
    if policy == "refill":
        assert b["generated_tokens"].sum() < a["generated_tokens"].sum()
    first, second = dict(rounds.policy.named_weights()), dict(streamed.policy.named_weights())
    assert max(float((first[name] - second[name]).abs().max()) for name in first) < 1e-5


def test_a_slow_verifier_changes_no_group_and_no_token(
    make_config: Callable[..., RunConfig], base_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verdicts arrive at other moments, so replacements are asked for at other moments and share their prefill with others.

    The same problems, responses and verdicts then; floats within rounding, since a product of another shape sums in another order.
    """
    config = make_config(
        sampling__streaming=True,
        algorithm__dead_groups__policy="refill",
        algorithm__dead_groups__max_rounds=32,
        algorithm__prompts_per_step=8,
        algorithm__updates_per_step=2,
        runtime__rollout_rows=8,  # two groups at a time, so that verdicts come while others are sampled
        training__steps=2,
        training__evaluate_every=2,
    )
    quick = trained(config, base_policy, tmp_path / "quick")
    waited = hold_verdicts_back(monkeypatch)
    late = trained(config, base_policy, tmp_path / "late")
    assert {0, 1, 2} <= set(waited), "verdicts were not late"
    first, second = dict(quick.policy.named_weights()), dict(late.policy.named_weights())
    assert max(float((first[name] - second[name]).abs().max()) for name in first) < 1e-5
    steps = [trainer.run.steps() for trainer in (quick, late)]
    for column in ("trained_tokens", "generated_tokens", "kept_groups", "refill_rounds", "accuracy_mean"):
        assert steps[0][column].tolist() == steps[1][column].tolist(), column
    np.testing.assert_allclose(steps[0]["loss"], steps[1]["loss"], atol=1e-6)
    samples = [trainer.run.samples("arithmetic_heldout", 2)["response"].tolist() for trainer in (quick, late)]
    assert samples[0] == samples[1]


def hold_verdicts_back(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every verdict waits until the sampler was asked a few times more, or has nothing left to do; how often it was, by verdict."""
    chance, asked, waited = random.Random(0), threading.Condition(), list[int]()
    polls, sessions = 0, list[SlotSession]()
    grade, poll = Grader.grade, SlotSession.poll

    def watched(session: SlotSession) -> list[tuple[int, Completions]]:
        nonlocal polls
        found = poll(session)
        with asked:
            polls, sessions[:] = polls + 1, [session]
            asked.notify_all()
        return found

    def slow(*arguments: object) -> Grades:
        with asked:
            begun, wanted = polls, polls + chance.randint(0, 3)
            asked.wait_for(lambda: polls >= wanted or not sessions or sessions[0].idle)
            waited.append(polls - begun)
        return grade(*arguments)

    monkeypatch.setattr(SlotSession, "poll", watched)
    monkeypatch.setattr(Grader, "grade", slow)
    return waited


def test_impossible_combinations_name_the_keys(make_config: Callable[..., RunConfig]) -> None:
    config = make_config(sampling__streaming=True, algorithm__dead_groups__surplus="carry")
    with pytest.raises(ConfigError, match="surplus=discard"):
        check_combinations(config)


class Dying(NativeEngine):
    """Dies once, at the third call of what `at` names."""

    at = ""
    calls = 0

    def session(self, params: SamplingParams, longest_prompt: int) -> SlotSession:
        self._call("session", 3)
        session = super().session(params, longest_prompt)
        poll, submit = session.poll, session.submit
        session.poll = lambda: self._call("poll") or poll()  # type: ignore[method-assign]
        session.submit = lambda *request: self._call("submit") or submit(*request)  # type: ignore[method-assign]
        return session

    def _call(self, what: str, count: int = 1) -> None:
        Dying.calls += count * (what == Dying.at)
        if Dying.calls == 3:
            Dying.at, Dying.calls = "", 0
            raise EngineDied("out of luck")


@pytest.mark.parametrize("at", ["session", "submit", "poll"])
def test_groups_that_were_out_when_the_engine_died_are_asked_for_again(base_policy: Path, at: str) -> None:
    Dying.at, Dying.calls = at, 0
    decoder = load_decoder(base_policy)
    engine = RestartingEngine(lambda: Dying(decoder, rows=9), policy=None)  # type: ignore[arg-type]
    session = engine.session(PARAMS, 7)
    seeds = sample_seeds(key("slots"), np.arange(len(PROMPTS), dtype=np.uint64), 4)
    tickets = [session.submit(prompt, row) for prompt, row in zip(PROMPTS, seeds, strict=True)]
    done: dict[int, Completions] = {}
    while len(done) < len(tickets):
        done.update(session.poll())
    assert engine.restarts == 1
    expected = NativeEngine(decoder).generate(PROMPTS, seeds, PARAMS)
    assert torch.equal(Completions.concatenate([done[t] for t in tickets]).tokens_N, expected.tokens_N)
