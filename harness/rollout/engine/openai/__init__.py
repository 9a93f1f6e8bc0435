"""A server with an OpenAI-compatible `/v1/completions` that returns token ids (vLLM does). For evaluation only."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from harness.configuration.error import Checked, ConfigError, choice, ranged

READS_WEIGHTS = False
EXACT_ENTROPY = False


@dataclass
class Config(Checked, key="engine"):
    """Address of the server, and how it is asked. The tokenizer comes from the folder or Hub id that `model=` names.

    Attributes:
        base_url: with `/v1`.
        model: the name it serves the model under; empty: the only one it serves.
        api_key_env: the environment variable that holds the key; empty: the word "none" is sent.
        concurrency: requests under way at once.
        timeout_s: for one response, in seconds.
        retries: further tries after an error that may pass (429, 5xx, no connection, a time-out).
        logprobs: raw (the model's own, vLLM's default) or processed (of the tempered and filtered distribution, vLLM's
            `--logprobs-mode processed_logprobs`). Raw ones are recorded as NaN where the two differ.
    """

    kind: str = "openai"
    base_url: str = "http://localhost:8000/v1"
    model: str = ""
    api_key_env: str = ""
    concurrency: int = ranged(32, low=1)
    timeout_s: float = ranged(600.0, low=1e-3)
    retries: int = ranged(4, low=0)
    logprobs: str = choice("raw", of=("raw", "processed"))


def build(config: Config, policy: Any, runtime: Any) -> Any:
    """Always raises ConfigError: a served model cannot be trained."""
    raise ConfigError(
        "engine=openai evaluates and does not train: a server's weights cannot be updated; use engine=vllm, native or transformers"
    )


def open_folder(config: Config, *_: Any) -> Any:
    from harness.rollout.engine.openai.client import ServerEngine

    return ServerEngine(config)


def resolve(config: Config) -> Config:
    """The configuration with the model that the server serves now, so that its samples are never another's."""
    from harness.rollout.engine.openai.client import served_model

    return dataclasses.replace(config, model=served_model(config))


def identity(config: Config) -> dict[str, Any]:
    """See the family's contract: the server and the model; what its weights are is its owner's word."""
    return {"base_url": config.base_url.rstrip("/"), "model": config.model, "logprobs": config.logprobs}
