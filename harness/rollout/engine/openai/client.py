"""Sampling from a server with an OpenAI-compatible `/v1/completions`: whatever it serves, wherever it runs.

Token ids go in and token ids come out, one request a response, each with its own seed. The server must return the ids that it sampled
(vLLM does, with `return_token_ids`): text would have to be tokenised again, and need not give the tokens back. What a seed means is the
server's business: vLLM gives the same response again, up to the rounding of the batch that it happens to be in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.rollout.engine.openai.endpoint import Endpoint, ask_all
from harness.rollout.response import Response, lay_out
from harness.rollout.types import Completions, RolloutEngine, SamplingParams, check_request

_TOKEN_PREFIX = "token_id:"  # how vLLM writes a token's id where it was asked for tokens as ids


# Said, since a server takes what is absent from the model's generation_config.json; as vLLM and SGLang write "none".
NEUTRAL = {"min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}


class OpenAIEngine(RolloutEngine):
    """Asks `endpoint` for completions of `model` (empty: the only one it serves).

    With `processed`, the server's log-probabilities are those of the distribution that was sampled from (vLLM:
    `--logprobs-mode processed_logprobs`). Otherwise they are the model's own, which is the same only at temperature 0 or 1 without
    filters; at other settings they are not known here, and NaN.
    """

    def __init__(
        self, endpoint: Endpoint, model: str = "", concurrency: int = 32, processed: bool = False
    ) -> None:
        self.endpoint, self.concurrency, self.processed = endpoint, concurrency, processed
        self.model = model or only_model(endpoint)

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams
    ) -> Completions:
        """See `RolloutEngine`.

        Raises:
            ConfigError: the server refuses the request, or does not return what the contract needs; it says which.
            EngineDied: the server does not answer.
            ValueError: the request is malformed.
        """
        check_request(prompts, seeds_PG, params)
        asked = [
            (prompt, int(seed)) for prompt, seeds in zip(prompts, seeds_PG, strict=True) for seed in seeds
        ]
        responses = ask_all(lambda item: self._response(*item, params), asked, self.concurrency)
        return lay_out(responses, params)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> NoReturn:
        """Refused: the server's weights are somebody else's."""
        raise ConfigError(CANNOT_TRAIN)

    def _response(self, prompt: Sequence[int], seed: int, params: SamplingParams) -> Response:
        body = {
            "model": self.model,
            "prompt": list(prompt),
            "max_tokens": params.max_response_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            **NEUTRAL,
            "top_k": params.top_k or -1,
            "seed": seed >> 1,  # servers take signed 64-bit integers
            "logprobs": 1,
            # Beyond the standard, and what makes it exact: only our own tokens end a response, and ids are returned.
            "ignore_eos": True,
            "stop_token_ids": list(params.stop_token_ids),
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }
        if params.stop_strings:
            body |= {"stop": list(params.stop_strings), "skip_special_tokens": False}
        answer = self.endpoint.ask("/completions", body)
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices:
            raise ConfigError(f"{self.endpoint.base_url} answers without choices: {str(answer)[:200]}")
        return self._read(choices[0], prompt, params)

    def _read(self, choice: dict[str, Any], prompt: Sequence[int], params: SamplingParams) -> Response:
        server = f"{self.endpoint.base_url} (model {self.model})"
        log_probs = choice.get("logprobs") or {}
        tokens = _token_ids(choice, log_probs)
        if tokens is None:
            raise ConfigError(
                f"{server} returns no token ids (vLLM does, for return_token_ids); text is not tokenised again, since that need not "
                "give the sampled tokens. Serve the model with vLLM, or evaluate recorded text with harness evaluate samples="
            )
        seen = choice.get("prompt_token_ids")
        if seen is not None and list(seen) != list(prompt):
            raise ConfigError(
                f"{server} changed the prompt: {len(prompt)} token ids were sent, it used {len(seen)}"
            )
        values = log_probs.get("token_logprobs")
        if not isinstance(values, list) or len(values) != len(tokens) or None in values:
            raise ConfigError(
                f"{server} returns no log-probability for every token (logprobs of the completions API)"
            )
        reason = choice.get("finish_reason")
        cut = reason == "length" and len(tokens) < params.max_response_tokens
        if reason not in ("stop", "length") or cut or not tokens:
            raise ConfigError(
                f"{server} ended a response with finish_reason {reason!r} after {len(tokens)} of {params.max_response_tokens} tokens; "
                "is its --max-model-len too small?"
            )
        if not self.processed and not _plain(params):
            values = [float("nan")] * len(tokens)
        return Response(tokens, values, finished=reason == "stop")


CANNOT_TRAIN = (
    "engine=openai samples from a server whose weights cannot be updated, so it evaluates and does not train; use engine=vllm, native or "
    "transformers"
)


def only_model(endpoint: Endpoint) -> str:
    """The name of the one model that a server lists. Raises `ConfigError` where it lists none or several."""
    listed = endpoint.ask("/models").get("data")
    names = [str(item.get("id")) for item in listed] if isinstance(listed, list) else []
    if len(names) != 1:
        raise ConfigError(
            f"{endpoint.base_url} serves {names or 'no model'}; set engine.model to one of them"
        )
    return names[0]


def _token_ids(choice: dict[str, Any], log_probs: dict[str, Any]) -> list[int] | None:
    """The sampled ids: as such, or written as tokens `token_id:17` (vLLM before `return_token_ids`)."""
    if isinstance(choice.get("token_ids"), list):
        return [int(token) for token in choice["token_ids"]]
    tokens = log_probs.get("tokens")
    if isinstance(tokens, list) and all(str(token).startswith(_TOKEN_PREFIX) for token in tokens):
        return [int(str(token).removeprefix(_TOKEN_PREFIX)) for token in tokens]
    return None


def _plain(params: SamplingParams) -> bool:
    """Return whether the distribution that is sampled from is the model's own (at temperature 0 the contract's, too)."""
    return params.temperature in (0.0, 1.0) and params.top_p == 1 and not params.top_k
