"""What stands around an engine: it ends responses at strings, records them, or keeps the engine at the policy's weights."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.model.policy import Policy
from harness.model.ranks import Ranks
from harness.rollout.choice import key, sample_seeds
from harness.rollout.types import Completions, RolloutEngine, SamplingParams, position_in_response

Decode = Callable[[Sequence[Sequence[int]]], Sequence[str]]


class EngineWrapper(RolloutEngine):
    """Passes weights, sleep and close on to `engine`; a subclass defines `generate`."""

    def __init__(self, engine: RolloutEngine) -> None:
        self.engine, self.shares_weights = engine, engine.shares_weights

    @property
    def positions(self) -> int | None:
        return self.engine.positions

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.engine.load_weights(weights)

    def sleep(self) -> None:
        self.engine.sleep()

    def wake(self) -> None:
        self.engine.wake()

    def close(self) -> None:
        self.engine.close()


class StopStringEngine(EngineWrapper):
    """Ends responses at `params.stop_strings`: the first token with which the decoded response contains one is its last.

    Sampling is causal, so cutting afterwards gives what stopping there would have given. vLLM and servers stop early by themselves; for
    the others the tokens beyond the end are sampled, thrown away and not counted. `tokenizer` decodes, special tokens included.
    """

    def __init__(self, engine: RolloutEngine, tokenizer: Any) -> None:
        super().__init__(engine)
        self.tokenizer = tokenizer

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams
    ) -> Completions:
        completions = self.engine.generate(prompts, seeds_PG, params)
        if not params.stop_strings:
            return completions
        decode = functools.partial(self.tokenizer.batch_decode, skip_special_tokens=False)
        return cut(completions, params.stop_strings, decode)


def cut(completions: Completions, strings: Sequence[str], decode: Decode) -> Completions:
    """End every response at the first token with which its text contains one of `strings`; such a response is finished."""
    rows = completions.token_lists()
    lengths, finished = completions.lengths_R.tolist(), completions.finished_R.tolist()
    for row, (tokens, text) in enumerate(zip(rows, decode(rows), strict=True)):
        if any(string in text for string in strings):
            lengths[row], finished[row] = _end(tokens, strings, decode), True
    lengths_R = torch.tensor(lengths, dtype=torch.int64)
    inside_N = position_in_response(completions.lengths_R) < lengths_R.repeat_interleave(
        completions.lengths_R
    )
    return completions.subset(inside_N, lengths_R, torch.tensor(finished, dtype=torch.bool))


def _end(tokens: Sequence[int], strings: Sequence[str], decode: Decode) -> int:
    """The fewest tokens whose text contains one of `strings`, by bisection; the text of all of them does."""
    low, high = 1, len(tokens)
    while low < high:
        middle = (low + high) // 2
        (text,) = decode([tokens[:middle]])
        if any(string in text for string in strings):
            high = middle
        else:
            low = middle + 1
    return high


class RecordingEngine(EngineWrapper):
    """Appends the responses to every request to `path`, one JSON object a prompt and line.

    A line is `{"prompt": [ids], "sampling": {...}, "responses": [{"tokens": [ids], "log_probs": [nats], "entropy": [nats],
    "finish_reason": "stop" | "length", "seed": 123}]}`.
    """

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
        return self._file.tell()

    def rewind(self, recorded_bytes: int) -> None:
        """Forget what was recorded after a checkpoint: the policy that made it is gone."""
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


CHECK_PROMPTS, CHECK_SAMPLES, CHECK_TOKENS = 2, 2, 16
# Mean absolute difference in nats. Rounding gives 2e-6 in float32 and about 0.02 in bfloat16. In float32 the weights of a step earlier are
# caught at once; in bfloat16 one small step is within the rounding, and an engine that stays behind is caught when steps have added up.
TOLERANCE = {torch.float32: 2e-3, torch.bfloat16: 0.1, torch.float16: 0.05}


class EngineMismatch(RuntimeError):
    """The engine does not sample from the weights that it was given."""


class WeightSync:
    """Loads a policy's weights into an engine and checks that they arrived.

    Args:
        engine: the engine.
        policy: whose weights it follows.
        prompts: token ids of some problems; the first few are the fixed requests.
        params: the run's sampling; the check samples at the same temperature without filters.
        ranks: each has an engine of its own.
    """

    def __init__(
        self,
        engine: RolloutEngine,
        policy: Policy,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams,
        ranks: Ranks | None = None,
    ) -> None:
        self.engine, self.policy, self.ranks = engine, policy, ranks or Ranks()
        self.prompts = list(prompts[:CHECK_PROMPTS])
        keys = np.arange(len(self.prompts), dtype=np.uint64)
        self.seeds = sample_seeds(key("weight check", 0), keys, CHECK_SAMPLES)
        tokens = min(CHECK_TOKENS, params.max_response_tokens)
        # Without stops, so that the mean is always over as many tokens.
        self.params = SamplingParams(tokens, params.temperature)

    def load(self) -> float:
        """Bring the engine to the policy's weights; the mean gap in nats (0 where they are shared).

        Raises:
            EngineMismatch: the gap is beyond rounding, also after loading once more.
        """
        if self.engine.shares_weights:
            return 0.0
        # Logits are divided by the temperature, and so is their rounding multiplied.
        tolerance = TOLERANCE[self.policy.compute_dtype] / min(1.0, self.params.temperature)
        for _ in range(2):
            self.engine.load_weights(self.policy.named_weights())
            # Taking weights is collective: all ranks load again, or none. The largest, and NaN if one is.
            gap = float(np.max(self.ranks.gather(self.gap())))
            if gap <= tolerance:
                return gap
        raise EngineMismatch(
            f"after a weight update the engine's log-probabilities differ from the trainer's by {gap:.3g} nats a token on "
            f"average (at most {tolerance:g} is rounding): it samples from other weights, or "
            "computes another model. Try engine=native or engine=transformers"
        )

    @torch.no_grad()
    def gap(self) -> float:
        """Mean |log π_engine − log π_trainer| in nats over the fixed requests."""
        completions: Completions = self.engine.generate(self.prompts, self.seeds, self.params)
        rows = [prompt for prompt in self.prompts for _ in range(CHECK_SAMPLES)]
        trainer_N, _ = self.policy.token_log_probs(
            rows, completions.tokens_N, completions.lengths_R, self.params.temperature
        )
        return float((trainer_N - completions.log_probs_N).abs().mean())
