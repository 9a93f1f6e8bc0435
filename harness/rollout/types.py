"""The contract of every rollout engine, and prompts as token ids.

Letters: P prompts, G samples a prompt, R = P·G responses, N response tokens.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import signal
import time
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.problems.problem import Benchmark

Watch = Callable[[str, int, int], None]  # of what, how much is done, of how much


class EngineDied(RuntimeError):
    """The engine cannot answer any more. The attempt ends, and the next one builds it anew."""


@dataclass(frozen=True)
class SamplingParams:
    """Settings of one sampling request: `top_p = 1` and `top_k = 0` switch those filters off; `temperature = 0` is greedy.

    `head` asks for the log-probabilities of so many of the likeliest tokens (`Completions.head_NK`).
    `stop_strings` also end a response of an engine that has a tokenizer (`RolloutEngine.with_stops`).
    `watch` is told, by engines that are ours, how far the request is; what it raises ends the request.
    """

    max_response_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop_token_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    head: int = 0
    watch: Watch | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.max_response_tokens < 1:
            raise ValueError(f"max_response_tokens must be at least 1, not {self.max_response_tokens}")
        if self.temperature < 0:
            raise ValueError(f"temperature must not be negative, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p}")


@dataclass
class Completions:
    """R responses, prompt-major (all samples of prompt 0 first), their tokens laid end to end.

    `finished_R` is False where the token cap ended the response (finish reason *length*). `log_probs_N` and `entropy_N` (nats)
    are of the distribution that was sampled from: temperature, top-k and top-p applied. An engine that sees only the sampled token's
    probability gives an estimate of the entropy. `head_log_probs_NK`, where they were asked for, are
    those of the likeliest tokens in each place, `head_NK` (int32). `held_R`: of how many tokens of each response this rank has what takes
    most bytes (`HELD`): all, or none where that stayed with the rank that sampled it.
    """

    tokens_N: torch.Tensor
    log_probs_N: torch.Tensor
    entropy_N: torch.Tensor
    lengths_R: torch.Tensor
    finished_R: torch.Tensor
    head_log_probs_NK: torch.Tensor | None = None
    head_NK: torch.Tensor | None = None
    held_R: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))

    def __post_init__(self) -> None:
        if not len(self.held_R):
            self.held_R = self.lengths_R

    @property
    def offsets(self) -> torch.Tensor:
        """Start of each response in the flat arrays, [R + 1]."""
        return torch.cat([torch.zeros(1, dtype=torch.long), self.lengths_R.cumsum(0)])

    def token_lists(self) -> list[list[int]]:
        flat, ends = self.tokens_N.tolist(), self.offsets.tolist()
        return [flat[a:b] for a, b in itertools.pairwise(ends)]

    def prefix(self, cap: int) -> Completions:
        """The responses the same request gives under a smaller cap.

        Exact, since sampling is causal and the noise belongs to (prompt, sample, position): a smaller cap only cuts.
        """
        keep_N = position_in_response(self.lengths_R) < cap
        return self.subset(keep_N, self.lengths_R.clamp(max=cap), self.finished_R & (self.lengths_R <= cap))

    def select(self, rows: torch.Tensor) -> Completions:
        return Completions(**select_rows(self, rows))

    def ledger(self) -> Completions:
        """The same for the other ranks, without what takes most bytes."""
        held = {name: value for name in HELD if (value := getattr(self, name, None)) is not None}
        empty = {name: value.new_empty(0, *value.shape[1:]) for name, value in held.items()}
        return replace(self, **empty, held_R=torch.zeros_like(self.lengths_R))

    def subset(self, index: torch.Tensor, lengths_R: torch.Tensor, finished_R: torch.Tensor) -> Completions:
        """The responses that some of the tokens make; `index` is a mask [N] or positions."""
        flat = (self.tokens_N[index], self.log_probs_N[index], self.entropy_N[index])
        scores_NK, tokens_NK = (
            None if values is None else values[index] for values in (self.head_log_probs_NK, self.head_NK)
        )
        return Completions(*flat, lengths_R, finished_R, scores_NK, tokens_NK)

    @staticmethod
    def concatenate(parts: Sequence[Completions]) -> Completions:
        columns = {item.name: [getattr(part, item.name) for part in parts] for item in fields(Completions)}
        tensors = {name: [value for value in values if value is not None] for name, values in columns.items()}
        return Completions(**{name: torch.cat(values) for name, values in tensors.items() if values})


Decode = Callable[[Sequence[Sequence[int]]], Sequence[str]]


class RolloutEngine:
    """The contract of every engine (native, transformers, vllm), which defines `sample`; the defaults are of one with nothing to free.

    `seeds_PG` holds one 64-bit seed a response. The same seed, prompt, weights and parameters give the same response whatever else is in
    the batch (an engine that cannot promise it says so in its module docstring).

    Attributes:
        shares_weights: samples from the policy's own tensors: nothing to load after an update.
        on_group: where set, may be told each prompt's number in the request and its responses, as soon as all of these have ended.
    """

    shares_weights: bool = False
    on_group: Callable[[int, Completions], None] | None = None
    _decode: Decode | None = None
    _ends: tuple[str, ...] = ()

    @property
    def positions(self) -> int | None:
        """Longest prompt and response together, in tokens; None where the engine has no bound of its own."""
        return None

    def with_stops(self, tokenizer: Any) -> Self:
        """The same, whose responses also end at `params.stop_strings`: the first token with which a decoded one contains one is its last.

        Sampling is causal, so cutting afterwards gives what stopping there would have given. vLLM stops early by itself; for the others the
        tokens beyond the end are sampled, thrown away and not counted.
        """
        self._decode = partial(tokenizer.batch_decode, skip_special_tokens=False)
        return self

    def generate(self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        """Sample `seeds_PG.shape[1]` responses to each prompt (token ids in, token ids out).

        Raises ValueError for an empty prompt or a request longer than the model's positions.
        """
        if seeds_PG.shape[0] != len(prompts):
            raise ValueError(f"{len(prompts)} prompts but seeds for {seeds_PG.shape[0]}")
        if not all(map(len, prompts)):
            raise ValueError("a prompt has no tokens; every request needs at least one")
        longest, positions = max(map(len, prompts), default=0), self.positions
        if positions is not None and longest + params.max_response_tokens > positions:
            total = f"prompt ({longest} tokens) + max_response_tokens ({params.max_response_tokens})"
            raise ValueError(f"{total} exceed the model's {positions} positions; lower sampling or evaluation caps")
        self._ends = params.stop_strings
        return self._cut(self.sample(prompts, seeds_PG, params))

    def sample(self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        """As `generate`, of a request that was checked; strings need end nothing."""
        raise NotImplementedError

    def tell(self, group: int, completions: Completions) -> None:
        """Hand over the responses to a prompt, all of which have ended."""
        if self.on_group is not None:
            self.on_group(group, self._cut(completions))

    def _cut(self, completions: Completions) -> Completions:
        return end_at_strings(completions, self._ends, self._decode) if self._ends and self._decode else completions

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take the policy's tensors, under `transformers` names, for all later requests.

        Raises:
            KeyError: the model lacks a name, or an expected tensor is missing (of vLLM a ConfigError). Some tensors may be new then, so
                the engine must not be used any more.
        """
        raise NotImplementedError

    def sleep(self) -> None:
        """Give device memory back for the update; weights are loaded again before the next request."""

    def wake(self) -> None:
        """Take the memory again."""

    def close(self) -> None:
        """End for good; safe to call twice."""


def end_at_strings(completions: Completions, strings: Sequence[str], decode: Decode) -> Completions:
    """End every response at the first token with which its text contains one of `strings`; such a response is finished."""
    rows = completions.token_lists()
    lengths, finished = completions.lengths_R.tolist(), completions.finished_R.tolist()

    def ends(text: str) -> bool:
        return any(string in text for string in strings)

    for row in [row for row, text in enumerate(decode(rows)) if ends(text)]:
        at_end = partial(lambda tokens, length: ends(decode([tokens[:length]])[0]), rows[row])
        lengths[row], finished[row] = 1 + bisect_left(range(1, len(rows[row])), True, key=at_end), True
    lengths_R = torch.tensor(lengths, dtype=torch.int64)
    mask_N = position_in_response(completions.lengths_R) < lengths_R.repeat_interleave(completions.lengths_R)
    return completions.subset(mask_N, lengths_R, torch.tensor(finished, dtype=torch.bool))


def passes(
    prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, rows: int, watch: Watch | None = None
) -> Iterator[tuple[Sequence[Sequence[int]], np.ndarray]]:
    """Parts of a request of at most `rows` responses: whole prompts while they fit, one with more samples split."""
    per_pass, done = max(1, rows // seeds_PG.shape[1]), 0
    for start in range(0, len(prompts), per_pass):
        chunk, seeds = prompts[start : start + per_pass], seeds_PG[start : start + per_pass]
        for first in range(0, seeds_PG.shape[1], rows):
            part = seeds[:, first : first + rows]
            if watch is not None:
                watch("responses", done, seeds_PG.size)
            yield chunk, part
            done += part.size


def ragged_index(starts_M: torch.Tensor, lengths_M: torch.Tensor) -> torch.Tensor:
    """Flat positions of M slices `[start, start + length)` laid end to end."""
    ends = lengths_M.cumsum(0)
    shift = starts_M - (ends - lengths_M)
    return torch.arange(int(ends[-1]) if len(ends) else 0) + shift.repeat_interleave(lengths_M)


def row_tokens(lengths_R: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Flat positions of the tokens of some of R responses."""
    return ragged_index((lengths_R.cumsum(0) - lengths_R)[rows], lengths_R[rows])


HELD = ("tokens_N", "head_NK", "head_log_probs_NK", "sampler_logprobs_NK")  # by `held_R`, other tokens by `lengths_R`


def select_rows(record: Any, rows: torch.Tensor) -> dict[str, Any]:
    """The fields of a record of R responses for some of them."""
    index_N = held_N = row_tokens(record.lengths_R, rows)
    if not torch.equal(record.held_R, record.lengths_R):
        held_N = row_tokens(record.held_R, rows)
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            values[name] = value[held_N if name in HELD else index_N if name.endswith(("_N", "_NK")) else rows]
    return values


def position_in_response(lengths_R: torch.Tensor) -> torch.Tensor:
    """For each flat token its index within its response, [N]."""
    return ragged_index(torch.zeros_like(lengths_R), lengths_R)


# Some chat templates write the current day into the prompt; a run that goes on tomorrow, or is repeated, would ask something else. This is
# the day that Llama 3.2's own template falls back to; templates that know no `date_string` ask the function.
_BASE_TEMPLATES = "a template for base models: plain, boxed_completion, qwen_math or r1"
_DAY = date(2024, 7, 26)
_SAME_DAY = {"date_string": _DAY.strftime("%d %b %Y"), "strftime_now": _DAY.strftime}
_SPECIAL = re.compile(r"<\|[^<|>\s]{1,40}\|>")


def prompt_tokens(tokenizer: Any, benchmark: Benchmark) -> list[list[int]]:
    """The token ids of every prompt: as it stands, or as the user turn of the chat template. Raises `ConfigError` where there is none."""
    if not benchmark.chat:
        _require_marks(tokenizer, benchmark, [problem.prompt for problem in benchmark.problems[:1]])
        return [_text_tokens(tokenizer, problem.prompt) for problem in benchmark.problems]
    if not getattr(tokenizer, "chat_template", None):
        raise ConfigError(
            f"benchmark {benchmark.name} asks in chat turns, but this tokenizer has no chat template; choose {_BASE_TEMPLATES}"
        )
    longest = max((problem.prompt for problem in benchmark.problems), key=len, default="")
    _require_ending_template(tokenizer, longest, benchmark.system)
    texts = [chat_text(tokenizer, problem.prompt, benchmark.system) for problem in benchmark.problems]
    _require_marks(tokenizer, benchmark, texts[:1])
    return [list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]


def prompt_texts(tokenizer: Any, benchmark: Benchmark, **settings: bool) -> tuple[list[str], int]:
    """Return texts that `tokenizer(text, **settings)` turns into our prompts, and the longest in tokens. Raises `ConfigError`."""

    def tokens(text: str, **settings: bool) -> list[int]:
        return list(tokenizer(text, **settings)["input_ids"])

    prompts, texts = prompt_tokens(tokenizer, benchmark), []
    for problem, ids in zip(benchmark.problems, prompts, strict=True):
        text = chat_text(tokenizer, problem.prompt, benchmark.system) if benchmark.chat else problem.prompt
        prefix = tokenizer.decode(ids[: len(ids) - len(tokens(text, add_special_tokens=False))])
        # The first tokens may have to be written, or be left to the tokenizer that adds them.
        candidates = (text, f"{prefix}{text}", text.removeprefix(tokenizer.bos_token or ""))
        match = next((candidate for candidate in candidates if tokens(candidate, **settings) == ids), None)
        if match is None:
            raise ConfigError(f"{benchmark.name}: this tokenizer makes other tokens of the prompt of {problem.id}")
        texts.append(match)
    return texts, max(map(len, prompts), default=0)


def chat_text(tokenizer: Any, prompt: str, system: str = "") -> str:
    """A prompt as the user turn of the chat template, behind a system turn if any; the same every day. Raises `ConfigError`."""
    turns = [{"role": "system", "content": system}] if system else []
    turns.append({"role": "user", "content": prompt})
    try:
        text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False, **_SAME_DAY)
        if text:
            return str(text)
        raise ValueError("it writes nothing")
    except MemoryError:
        raise
    except Exception as error:  # whatever the template does
        raise ConfigError(
            f"the tokenizer's chat template fails on {' and '.join(turn['role'] for turn in turns)} turns ({error}); mend it, leave out "
            f"the system turn, or choose {_BASE_TEMPLATES}"
        ) from error


_TEMPLATE_SECONDS, _TEMPLATE_BYTES, _MOST_CHARACTERS = 10.0, 2 << 30, 10_000_000


def _require_ending_template(tokenizer: Any, prompt: str, system: str) -> None:
    """Try the chat template in a process of its own, with a limit of time and memory: it is a program of whoever made the model.

    Raises:
        ConfigError: it does not end, or takes too much.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child runs the template and nothing else
        child = os.fork()
    if not child:
        _try_template(tokenizer, prompt, system)
    end = time.monotonic() + _TEMPLATE_SECONDS
    while (state := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.002)
    if state == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if state != (child, 0):
        limit = f"does not end within {_TEMPLATE_SECONDS:g} seconds"
        what = "takes more memory than a prompt can" if state[0] else limit
        raise ConfigError(f"the tokenizer's chat template {what}; choose a template for base models, or another model")


def _try_template(tokenizer: Any, prompt: str, system: str) -> NoReturn:
    """Render a prompt and end the process: with 1 where memory does not suffice or the text is no prompt."""
    code = 0
    try:
        if (statm := Path("/proc/self/statm")).exists():
            size = int(statm.read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + _TEMPLATE_BYTES,) * 2)
        code = int(len(chat_text(tokenizer, prompt, system)) > _MOST_CHARACTERS)
    except MemoryError:
        code = 1
    except Exception:  # is told where the template is used
        code = 0
    finally:
        os._exit(code)


def _text_tokens(tokenizer: Any, text: str) -> list[int]:
    """The token ids of a text; one that begins with the tokenizer's first token gets no second one."""
    first = getattr(tokenizer, "bos_token", None) or ""
    has_bos = first != "" and text.startswith(first)
    return list(tokenizer(text, **{"add_special_tokens": False} if has_bos else {})["input_ids"])


def _require_marks(tokenizer: Any, benchmark: Benchmark, texts: Sequence[str]) -> None:
    """A mark such as `<|im_start|>` that the tokenizer spells in pieces is not the turn the model was trained on."""
    for mark in sorted({mark for text in texts for mark in _SPECIAL.findall(text)}):
        pieces = tokenizer(mark, add_special_tokens=False)["input_ids"]
        if len(pieces) != 1 or pieces[0] == getattr(tokenizer, "unk_token_id", None):
            raise ConfigError(f"{benchmark.name}: its template uses {mark}, which this tokenizer has no token for")


def stop_tokens(tokenizer: Any, folder: Path) -> tuple[int, ...]:
    """The tokenizer's end token and the checkpoint's own (chat models end turns with another). Raises `ConfigError`: there is none.

    The checkpoint's are those of its `generation_config.json`, or where it has none those of its `config.json`, as in `transformers`.
    """
    ends_response = {int(tokenizer.eos_token_id)} if tokenizer.eos_token_id is not None else set()
    files = (folder / name for name in ("generation_config.json", "config.json"))
    path = next((file for file in files if file.exists()), None)
    if path is not None:
        values = json.loads(path.read_text())
        ends = values.get("eos_token_id", values.get("text_config", {}).get("eos_token_id"))
        ends_response |= set(ends if isinstance(ends, list) else [] if ends is None else [ends])
    if not ends_response:
        raise ConfigError(f"{folder} names no end token; set eos_token_id in its generation_config.json")
    return tuple(sorted(ends_response))
