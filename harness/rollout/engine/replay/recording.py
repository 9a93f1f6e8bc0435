"""Recorded responses: written from any engine, served again as if sampled.

A file has one JSON object a line: `{"prompt": [ids], "sampling": {...}, "responses": [{"tokens": [ids], "log_probs": [nats],
"entropy": [nats], "finish_reason": "stop" | "length", "seed": 123}]}`. Of these `sampling`, `log_probs`, `entropy` and `seed` may be
missing: then they are not compared, NaN, or the responses can only be served in their order.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.rollout.passing import PassingEngine
from harness.rollout.response import Response, lay_out
from harness.rollout.types import Completions, RolloutEngine, SamplingParams, check_request

_DISTRIBUTION = ("temperature", "top_p", "top_k")  # what changes the probabilities of a response


class RecordingEngine(PassingEngine):
    """Passes every request on to `engine` and appends its responses to `path`."""

    def __init__(self, engine: RolloutEngine, path: Path) -> None:
        super().__init__(engine)
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_torn_line(path)
        self._file = path.open("a", encoding="utf-8")

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams
    ) -> Completions:
        """See `RolloutEngine`. The lines are on their way to the disk before the responses are used."""
        completions = self.engine.generate(prompts, seeds_PG, params)
        lines = _lines(prompts, seeds_PG, params, completions)
        self._file.writelines(json.dumps(line) + "\n" for line in lines)
        self._file.flush()
        return completions

    @property
    def recorded_bytes(self) -> int:
        """Return the length of the file, which holds what was recorded so far."""
        return self._file.tell()

    def rewind(self, recorded_bytes: int) -> None:
        """Forget what was recorded beyond a checkpoint: it is of a policy that is gone, and would be served in its stead."""
        self._file.truncate(recorded_bytes)
        self._file.seek(0, 2)

    def close(self) -> None:
        self._file.close()
        super().close()


def _drop_torn_line(path: Path) -> None:
    """End a file at its last whole line: what a killed process was writing must not run into what is appended."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        whole = 0
        for line in file:
            whole += len(line) if line.endswith(b"\n") else 0
        file.truncate(whole)


def _lines(
    prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams, completions: Completions
) -> Iterator[dict[str, Any]]:
    sampling = dataclasses.asdict(params)
    ends, samples = completions.offsets.tolist(), seeds_PG.shape[1]
    tokens, finished = completions.tokens_N.tolist(), completions.finished_R.tolist()
    log_probs, entropy = _digits(completions.log_probs_N), _digits(completions.entropy_N)
    for p, prompt in enumerate(prompts):
        responses = []
        for r in range(p * samples, (p + 1) * samples):
            part = slice(ends[r], ends[r + 1])
            responses.append(
                {
                    "tokens": tokens[part],
                    "log_probs": log_probs[part],
                    "entropy": entropy[part],
                    "finish_reason": "stop" if finished[r] else "length",
                    "seed": int(seeds_PG[p, r - p * samples]),
                }
            )
        yield {"prompt": list(prompt), "sampling": sampling, "responses": responses}


def _digits(values_N: torch.Tensor) -> list[float | None]:
    """Nine significant digits give a float32 back exactly; JSON has no NaN and no infinity, they become null."""
    return [float(f"{value:.9g}") if math.isfinite(value) else None for value in values_N.tolist()]


# ---- serving ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Recorded:
    """One response of a file, and what it was sampled with."""

    response: Response
    seed: int | None
    sampling: dict[str, Any]


class ReplayEngine(RolloutEngine):
    """Serves the responses of a file; weights do not matter to it, so there is nothing to load after an update.

    With `match` seed, a response is found by prompt and seed: the protocol that recorded it gets the same responses back, in any batch.
    A pair that was recorded several times (an evaluation between updates) is served in the order of recording, the last one for ever; so a
    run that replays another has to go from its beginning to its end. With order, sample j of a prompt is the j-th response recorded for it,
    whatever its seed. A smaller cap than the recorded one only cuts.
    """

    shares_weights = True  # nothing that it serves depends on weights

    def __init__(self, path: Path, match: str = "seed") -> None:
        self.path, self.match = path, match
        self._counts: dict[tuple[int, ...], int] = defaultdict(int)  # of each prompt's responses
        self._recorded: dict[tuple[tuple[int, ...], int], list[_Recorded]] = defaultdict(list)
        for prompt, item in _read(path):
            number = item.seed if match == "seed" else self._counts[prompt]
            if number is None:
                raise ConfigError(f"{path}: a response has no seed; set engine.match=order")
            self._recorded[prompt, number].append(item)
            self._counts[prompt] += 1
        self._served: dict[tuple[tuple[int, ...], int], int] = defaultdict(int)

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams
    ) -> Completions:
        """See `RolloutEngine`.

        Raises:
            ConfigError: the file lacks a prompt, a response to it, or has it under another cap, temperature or filter.
            ValueError: the request is malformed.
        """
        check_request(prompts, seeds_PG, params)
        found = [
            self._find(tuple(prompt), int(seed) if self.match == "seed" else sample)
            for prompt, seeds in zip(prompts, seeds_PG, strict=True)
            for sample, seed in enumerate(seeds)
        ]
        completions = lay_out([self._fitting(item, params) for item in found], params)
        return completions.prefix(params.max_response_tokens)

    def _find(self, prompt: tuple[int, ...], number: int) -> _Recorded:
        """The next response to a prompt with this seed, or the one at this place."""
        if (prompt, number) not in self._recorded:
            there = self._counts.get(prompt, 0) or "no"
            said = f"engine.path={self.path} has {there} responses to the prompt {_shown(prompt)}"
            if self.match == "order":
                raise ConfigError(f"{said}, asked for sample {number + 1}")
            raise ConfigError(
                f"{said}, none with the seed {number}; replay under the seeds it was recorded with, or set engine.match=order"
            )
        recorded, turn = self._recorded[prompt, number], self._served[prompt, number]
        self._served[prompt, number] += 1
        return recorded[min(turn, len(recorded) - 1)]

    def _fitting(self, item: _Recorded, params: SamplingParams) -> Response:
        """The response, if it is one that this request could have."""
        asked = dataclasses.asdict(params)
        for name in _DISTRIBUTION:
            if name in item.sampling and item.sampling[name] != asked[name]:
                raise ConfigError(
                    f"engine.path={self.path} was recorded with {name}={item.sampling[name]}, asked for {name}={asked[name]}"
                )
        response = item.response
        if not response.finished and len(response.tokens) < params.max_response_tokens:
            raise ConfigError(
                f"engine.path={self.path}: a response was cut at {len(response.tokens)} tokens, asked for up to "
                f"{params.max_response_tokens}; lower sampling.max_response_tokens or evaluation.caps"
            )
        return response


def _shown(prompt: Sequence[int]) -> str:
    """A prompt's token ids, shortened."""
    return f"{list(prompt[:12])}{' …' if len(prompt) > 12 else ''} ({len(prompt)} tokens)"


def _read(path: Path) -> Iterator[tuple[tuple[int, ...], _Recorded]]:
    """The responses of a file. A last line without its end was being written when its writer died, and is dropped."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                return
            try:
                entry = json.loads(line)
                prompt = tuple(map(int, entry["prompt"]))
                yield from (
                    (prompt, _recorded(item, entry.get("sampling", {}))) for item in entry["responses"]
                )
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConfigError(
                    f"{path}:{number} is no recorded prompt ({type(error).__name__}: {error}); see docs/engines.md"
                ) from error


def _recorded(item: dict[str, Any], sampling: dict[str, Any]) -> _Recorded:
    tokens = list(map(int, item["tokens"]))
    unknown = [float("nan")] * len(tokens)
    log_probs, entropy = (
        [float("nan") if value is None else float(value) for value in item.get(name) or unknown]
        for name in ("log_probs", "entropy")
    )
    if not tokens or not len(tokens) == len(log_probs) == len(entropy):
        raise ValueError(f"{len(tokens)} tokens, {len(log_probs)} log_probs, {len(entropy)} entropies")
    if item["finish_reason"] not in ("stop", "length"):
        raise ValueError(f"finish_reason {item['finish_reason']!r} is neither stop nor length")
    seed = item.get("seed")
    response = Response(tokens, log_probs, item["finish_reason"] == "stop", entropy)
    return _Recorded(response, None if seed is None else int(seed), sampling)
