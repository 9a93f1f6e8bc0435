"""A server with an OpenAI-compatible `/v1/completions` that returns token ids (vLLM does): evaluates anything served anywhere."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.configuration.error import ConfigError
from harness.configuration.limits import Checked, choice, ranged

if TYPE_CHECKING:
    from harness.rollout.engine.openai.endpoint import Endpoint

READS_WEIGHTS = False
EXACT_ENTROPY = False


@dataclass
class Config(Checked, key="engine"):
    """Address of the server, and how it is asked. The tokenizer comes from the folder or Hub id that `model=` names.

    Attributes:
        base_url: with `/v1`.
        model: the name it serves the model under; empty: the only one it serves.
        api_key_env: the environment variable that holds the key; empty: none is sent.
        concurrency: requests under way at once.
        timeout_s: for one response, in seconds.
        retries: further tries after an error that may pass (429, 5xx, no connection, a time-out).
        retry_pause_s: before the first of them, in seconds; doubled each time.
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
    retry_pause_s: float = ranged(1.0, low=0)
    logprobs: str = choice("raw", of=("raw", "processed"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.base_url.startswith(("http://", "https://")):
            raise ConfigError(f"engine.base_url={self.base_url!r} must begin with http:// or https://")


def build(config: Config, policy: Any, runtime: Any) -> Any:
    """Always raises ConfigError: a served model cannot be trained."""
    from harness.rollout.engine.openai.client import CANNOT_TRAIN

    raise ConfigError(CANNOT_TRAIN)


def open_folder(
    config: Config, folder: Any, runtime: Any, device: str, dtype: Any, linear_kernel: str
) -> Any:
    """See the family's contract. Of the folder only the tokenizer is used, by the caller."""
    from harness.rollout.engine.openai.client import OpenAIEngine

    return OpenAIEngine(_endpoint(config), config.model, config.concurrency, config.logprobs == "processed")


def named(config: Config) -> Config:
    """The configuration with the model that the server serves now, so that its samples are never another's.

    Raises:
        ConfigError: it serves several, and `model` names none.
        EngineDied: it does not answer.
    """
    from harness.rollout.engine.openai.client import only_model

    return config if config.model else dataclasses.replace(config, model=only_model(_endpoint(config)))


def _endpoint(config: Config) -> Endpoint:
    from harness.rollout.engine.openai.endpoint import Endpoint

    key = ""
    if config.api_key_env:
        key = os.environ.get(config.api_key_env, "")
        if not key:
            raise ConfigError(f"engine.api_key_env={config.api_key_env}: that variable is not set")
    return Endpoint(config.base_url.rstrip("/"), key, config.timeout_s, config.retries, config.retry_pause_s)


def identity(config: Config) -> dict[str, Any]:
    """See the family's contract: the server and the model; what weights it serves is its owner's word."""
    return {"base_url": config.base_url.rstrip("/"), "model": config.model, "logprobs": config.logprobs}
