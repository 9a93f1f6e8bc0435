"""The openai engine against a server that fails in the ways servers do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from engine_support import needs_openai, seeds_for
from fake_server import FakeServer, server_of_base_policy  # noqa: F401 (a fixture)

from harness.backends import builtin
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.rollout.engine import openai
from harness.rollout.engine.openai.client import ServerEngine
from harness.rollout.types import EngineDied, SamplingParams

PROMPTS = [[5, 6, 7], [8, 9]]
PARAMS = SamplingParams(6, stop_token_ids=(1,))
Change = Callable[[dict[str, Any]], Any]


def opened(server: FakeServer, **settings: Any) -> ServerEngine:
    config = openai.Config(base_url=server.base_url, **settings)
    engine: ServerEngine = openai.open_folder(config, None, None, "cpu", torch.float32, "torch")
    return engine


def changed(**values: Any) -> Change:
    """An answer whose choice has other values; None removes one."""

    def change(answer: dict[str, Any]) -> dict[str, Any]:
        choice = {**answer["choices"][0], **values}
        return {**answer, "choices": [{key: value for key, value in choice.items() if value is not None}]}

    return change


@needs_openai
def test_a_request_names_ids_seed_and_ends_and_nothing_that_would_change_them(server: FakeServer) -> None:
    seeds = seeds_for(PROMPTS, 2)
    opened(server, concurrency=1).generate(PROMPTS, seeds, SamplingParams(6, 0.5, 0.9, 4, (1, 3)))
    assert [body["prompt"] for body in server.requests] == [PROMPTS[0]] * 2 + [PROMPTS[1]] * 2
    assert [body["seed"] for body in server.requests] == [int(seed) >> 1 for seed in seeds.reshape(-1)]
    assert len({body["seed"] for body in server.requests}) == 4
    body = server.requests[0]
    wanted = {"max_tokens": 6, "temperature": 0.5, "top_p": 0.9, "top_k": 4, "stop_token_ids": [1, 3]}
    assert wanted.items() <= body.items()
    assert body["model"] == "tiny"
    assert body["ignore_eos"] is body["return_token_ids"] is True
    opened(server).generate(PROMPTS, seeds, PARAMS)
    assert server.requests[-1]["top_k"] == -1
    # Left out, these would come from the model's generation_config.json.
    none = {"min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    assert none.items() <= server.requests[-1].items()


@needs_openai
def test_the_key_comes_from_the_environment(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"engine.api_key_env=TINY_KEY: that variable is not set"):
        opened(server, api_key_env="TINY_KEY")
    monkeypatch.setenv("TINY_KEY", "secret")
    opened(server, api_key_env="TINY_KEY").generate(PROMPTS, seeds_for(PROMPTS, 1), PARAMS)
    assert server.headers["authorization"] == "Bearer secret"


@needs_openai
def test_an_error_that_passes_costs_a_retry(server: FakeServer) -> None:
    engine = opened(server, retries=3, concurrency=1)
    right = engine.generate(PROMPTS[:1], seeds_for(PROMPTS[:1], 1), PARAMS)
    server.faults = [500, 429]
    again = engine.generate(PROMPTS[:1], seeds_for(PROMPTS[:1], 1), PARAMS)
    assert not server.faults
    assert again.token_lists() == right.token_lists()


@needs_openai
def test_a_server_that_stays_away_ends_the_evaluation(server: FakeServer) -> None:
    engine = opened(server, retries=0, concurrency=1)
    server.faults = [500]
    with pytest.raises(EngineDied, match=r"no usable answer in 1 tries .*told to answer 500"):
        engine.generate(PROMPTS, seeds_for(PROMPTS, 1), PARAMS)
    nobody = openai.Config(base_url="http://127.0.0.1:9/v1", retries=0)
    with pytest.raises(EngineDied, match=r"http://127.0.0.1:9/v1 .*engine.base_url"):
        openai.open_folder(nobody)


@needs_openai
def test_a_refused_request_is_not_repeated(server: FakeServer) -> None:
    engine = opened(server, concurrency=1)
    for status, hint in ((400, "told to answer 400"), (401, "engine.api_key_env"), (404, "ends in /v1")):
        server.faults = [status]
        with pytest.raises(ConfigError, match=rf"refuses the request.*{hint}"):
            engine.generate(PROMPTS[:1], seeds_for(PROMPTS[:1], 1), PARAMS)
        assert not server.faults
    assert not server.requests


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (changed(token_ids=None), "returns no token ids"),
        (changed(token_ids=[4, 5], logprobs=None), "no log-probability for every token"),
        (changed(token_ids=[4, 5], logprobs={"token_logprobs": [-1.0]}), "no log-probability for every token"),
        (changed(prompt_token_ids=[1, 2, 3, 4]), "changed the prompt's token ids"),
        (changed(token_ids=[4, 5], logprobs={"token_logprobs": [-1.0, -1.0]}, finish_reason="length"), "--max-model-len"),
        (changed(finish_reason="abort"), "cut a response .'abort'"),
        (lambda answer: {**answer, "choices": []}, "returns no token ids"),
    ],
)  # fmt: skip
@needs_openai
def test_what_the_server_lacks_is_named(server: FakeServer, fault: Change, said: str) -> None:
    engine = opened(server, concurrency=1)
    server.faults = [fault]
    with pytest.raises(ConfigError, match=said):
        engine.generate(PROMPTS, seeds_for(PROMPTS, 1), PARAMS)


@needs_openai
def test_log_probs_of_another_distribution_are_not_passed_off(server: FakeServer) -> None:
    raw, seeds = opened(server), seeds_for(PROMPTS, 2)
    for params, known in (
        (SamplingParams(4), True),
        (SamplingParams(4, temperature=0.0), True),
        (SamplingParams(4, temperature=0.6), False),
        (SamplingParams(4, top_p=0.7), False),
        (SamplingParams(4, top_k=2), False),
    ):
        made = raw.generate(PROMPTS, seeds, params)
        assert bool(made.log_probs_N.isnan().any()) is not known
        processed = opened(server, logprobs="processed").generate(PROMPTS, seeds, params)
        assert not bool(processed.log_probs_N.isnan().any())
    # At temperature 1 the entropy is estimated by the surprise of what was drawn; nothing is drawn at temperature 0.
    made = raw.generate(PROMPTS, seeds, SamplingParams(4))
    assert torch.equal(made.entropy_N, -made.log_probs_N)
    assert bool(raw.generate(PROMPTS, seeds, SamplingParams(4, temperature=0.0)).entropy_N.isnan().all())


@needs_openai
def test_requests_run_together_up_to_the_limit(server: FakeServer) -> None:
    server.pause_s = 0.05
    opened(server, concurrency=3).generate(PROMPTS, seeds_for(PROMPTS, 6), PARAMS)
    assert server.at_once == 3


@needs_openai
def test_the_model_is_the_only_one_or_has_to_be_named(server: FakeServer) -> None:
    server.models = ["a", "b"]
    with pytest.raises(ConfigError, match=r"serves \['a', 'b'\]; set engine.model"):
        opened(server)
    opened(server, model="b").generate(PROMPTS, seeds_for(PROMPTS, 1), PARAMS)
    assert server.requests[-1]["model"] == "b"


def test_it_cannot_be_trained() -> None:
    with pytest.raises(ConfigError, match=r"does not train: .* use engine=vllm"):
        openai.build(openai.Config(), None, None)
    assert "a server's weights cannot be updated" in builtin.check(RunConfig(engine=openai.Config()))[0]
    assert builtin.check(RunConfig()) == []


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"pip install 'rlvr-harness\[openai\]'"):
        openai.open_folder(openai.Config(model="tiny"))
