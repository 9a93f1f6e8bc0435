"""Completions of a server through the `openai` package: token ids in and out, one request and seed a response.

`config` is that of `harness.rollout.engine.openai`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from harness.configuration.error import ConfigError
from harness.rollout.types import Completions, EngineDied, Response, RolloutEngine, SamplingParams, check_request

# vLLM's additions to the standard: the first two would come from the model's generation_config.json; with the others only our own
# tokens end a response, and the sampled ids come back (text need not give them back).
_EXTRA = {"min_p": 0.0, "repetition_penalty": 1.0, "ignore_eos": True, "return_token_ids": True}


class ServerEngine(RolloutEngine):
    """Asks the server for completions. A seed repeats its response up to the rounding of the server's batches."""

    def __init__(self, config: Any) -> None:
        self.config, self.client, self.model = config, _client(config), served_model(config)

    def generate(self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        """See `RolloutEngine`. Raises ConfigError where the server lacks what the contract needs, EngineDied where it does not answer."""
        check_request(prompts, seeds_PG, params)
        rows = [(prompt, int(seed)) for prompt, seeds in zip(prompts, seeds_PG, strict=True) for seed in seeds]
        pool = ThreadPoolExecutor(self.config.concurrency)
        try:
            responses = list(pool.map(lambda row: self._response(row[0], row[1], params), rows))
        finally:
            pool.shutdown(cancel_futures=True)
        return Completions.from_responses(responses, params)

    def _response(self, prompt: Sequence[int], seed: int, params: SamplingParams) -> Response:
        extra = {"top_k": params.top_k or -1, "stop_token_ids": list(params.stop_token_ids), **_EXTRA}
        request = {
            "model": self.model,
            "prompt": list(prompt),
            "max_tokens": params.max_response_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "seed": seed >> 1,  # servers take signed 64-bit integers
            "logprobs": 1,
            "stop": list(params.stop_strings) or None,
            "extra_body": {**extra, "skip_special_tokens": False},
        }
        answer = _answer(self.config, lambda: self.client.completions.create(**request)).model_dump()
        choice = (answer.get("choices") or [{}])[0]
        tokens, prompt_ids, reason = (choice.get(name) for name in ("token_ids", "prompt_token_ids", "finish_reason"))
        log_probs = (choice.get("logprobs") or {}).get("token_logprobs") or []
        whole = reason == "stop" or (reason == "length" and len(tokens or ()) == params.max_response_tokens)
        checks = {
            "returns no token ids (serve the model with vLLM, or evaluate recorded text with samples=)": not tokens,
            "changed the prompt's token ids": prompt_ids is not None and list(prompt_ids) != list(prompt),
            "returns no log-probability for every token": len(log_probs) != len(tokens or ()),
            f"cut a response ({reason!r}; is its --max-model-len too small?)": not whole,
        }
        if faults := [text for text, wrong in checks.items() if wrong]:
            raise ConfigError(f"{self.config.base_url} (model {self.model}) {faults[0]}")
        # A server's raw log-probabilities are those of the sampled distribution only without temperature and filters.
        raw = params.temperature in (0.0, 1.0) and params.top_p == 1 and not params.top_k
        processed = raw or self.config.logprobs == "processed"
        return Response(tokens, log_probs if processed else [float("nan")] * len(tokens), reason == "stop")


def served_model(config: Any) -> str:
    """The configured model, or the only one that the server lists. Raises `ConfigError` where it lists none or several."""
    if config.model:
        return config.model
    names = [model.id for model in _answer(config, _client(config).models.list).data]
    if len(names) != 1:
        raise ConfigError(f"{config.base_url} serves {names or 'no model'}; set engine.model to one of them")
    return str(names[0])


def _client(config: Any) -> Any:
    try:
        from openai import OpenAI
    except ImportError as error:
        raise ConfigError(f"engine=openai needs pip install 'rlvr-harness[openai]' ({error})") from error
    key = os.environ.get(config.api_key_env, "") if config.api_key_env else "none"
    if not key:
        raise ConfigError(f"engine.api_key_env={config.api_key_env}: that variable is not set")
    return OpenAI(base_url=config.base_url, api_key=key, timeout=config.timeout_s, max_retries=config.retries)


def _answer(config: Any, call: Callable[[], Any]) -> Any:
    from openai import APIStatusError, OpenAIError

    try:
        return call()
    except (OpenAIError, ValueError) as error:
        refused = isinstance(error, APIStatusError) and error.status_code in (400, 401, 403, 404, 422)
        if refused:
            hint = "see engine.base_url (it ends in /v1 on most servers), engine.model and engine.api_key_env"
            raise ConfigError(f"{config.base_url} refuses the request: {error}; {hint}") from error
        raise EngineDied(
            f"{config.base_url} gave no usable answer in {config.retries + 1} tries ({type(error).__name__}: {error}); is it up "
            "(engine.base_url), and are engine.timeout_s and engine.concurrency right for it?"
        ) from error
