"""The vLLM engine (0.32): token ids in and out, one request a response with its own seed, weights replaced in the running engine.

Log-probabilities and samples are of the tempered and filtered distribution (`processed_logprobs`). The same seed gives the same response in
another order or batch, up to the rounding of batched kernels. vLLM tells no entropy: it is estimated.

After an update two things would silently go on with the old weights, and are handled here: the packed output projection of tied
embeddings on a CPU (`worker`), and cached keys and values of prompts (`reset_prefix_cache`).

On a GPU it sleeps while the trainer works and wakes in stages: first the memory of the weights, then the weights themselves with the next
`load_weights`, then the cache; so nothing that is about to be replaced is kept, and the cache is not there while weights travel.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.model.checkpoint import tensor_names
from harness.model.decoder import is_rotary_table
from harness.rollout.types import Completions, EngineDied, RolloutEngine, SamplingParams
from harness.rollout.weight_file import weight_file

_GIB = 1 << 30
_CPU_CACHE_GIB = 1.0  # vLLM's own default on a CPU is most of the machine's memory
_TIED_HEAD = "lm_head.weight"
_WEIGHTS, _CACHE = "weights", "kv_cache"  # vLLM's names of what sleeps
_LEAST_TEMPERATURE = 0.01  # vLLM 0.32 takes this for anything smaller


class VllmEngine(RolloutEngine):
    """Samples with a `vllm.LLM`, None once closed.

    `names`: the tensors that every weight update must bring. `sleep_level`: what `sleep` gives back. `owns_group`: whether its process
    group is of its own making.
    """

    def __init__(self, llm: Any, names: frozenset[str], sleep_level: int, owns_group: bool) -> None:
        self.llm, self._names = llm, names
        self._sleep_level, self._owns_group = sleep_level, owns_group
        self._sleeping_parts: list[str] = []
        self._workers = llm.llm_engine.vllm_config.parallel_config.tensor_parallel_size

    @classmethod
    def load(cls, folder: Any, config: Any, runtime: Any, device: str, dtype: torch.dtype) -> Self:
        """Start an engine over a checkpoint folder; `runtime.rollout_rows` bounds the responses decoded together.

        Raises `ConfigError`: vLLM is missing, or refuses the checkpoint or the settings. Its other errors pass as they are.
        """
        # vLLM reads its environment when it is imported.
        cpu = not device.startswith("cuda")
        _environment(cpu)
        try:
            import vllm
        except ImportError as error:
            raise ConfigError(f"engine=vllm needs vLLM 0.32 ({error}): pip install -e '.[vllm]' (GPU)") from error
        # Settings. Every rank of the trainer has an engine of its own, in the process group that is there.
        sleep_level = 0 if cpu else config.sleep_level
        settings = _settings(config, runtime, dtype, cpu, sleep_level > 0)
        has_group = torch.distributed.is_initialized()
        if has_group and torch.distributed.get_world_size() > 1:
            settings["distributed_executor_backend"] = "external_launcher"
        # Start. On a CPU vLLM forbids everybody in the process to change the number of threads; the trainer keeps its own.
        set_threads, threads = torch.set_num_threads, torch.get_num_threads()
        try:
            llm = vllm.LLM(str(folder), **settings)
        except ValueError as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise ConfigError(f"vLLM cannot serve {folder}: {reason}; lower engine.max_model_len") from error
        finally:
            torch.set_num_threads = set_threads
            torch.set_num_threads(threads)
        # The tensors that an update must bring; some checkpoints hold a copy of a tied projection.
        names = tensor_names(Path(folder))
        if llm.llm_engine.model_config.hf_config.tie_word_embeddings:
            names.discard(_TIED_HEAD)
        return cls(llm, frozenset(names), sleep_level, owns_group=not has_group)

    def sample(self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        """See `RolloutEngine`. Raises `ValueError` for a temperature that vLLM has not, and `EngineDied`."""
        if 0 < params.temperature < _LEAST_TEMPERATURE:
            raise ValueError(f"vLLM samples at {_LEAST_TEMPERATURE} or above; temperature={params.temperature:g}")
        size, groups = seeds_PG.shape[1], dict[int, Completions]()
        ended: list[dict[int, Any]] = [{} for _ in prompts]  # of each prompt its responses, by their number
        first = next(self.llm.request_counter) + 1  # vLLM numbers its requests
        self.enqueue([prompt for prompt in prompts for _ in range(size)], seeds_PG.reshape(-1), params)
        while self.llm.llm_engine.has_unfinished_requests():
            with _guard_calls():
                outputs = self.llm.llm_engine.step()
            for output in outputs:
                group, number = divmod(int(output.request_id) - first, size)
                ended[group][number] = output.outputs[0]
                if len(ended[group]) == size:
                    responses = [ended[group][number] for number in range(size)]
                    groups[group] = _completions(responses, self._head(params), params.temperature)
                    self.tell(group, groups[group])
        if len(groups) < len(prompts):
            raise EngineDied(f"vLLM lost responses: {len(groups)} of {len(prompts)} prompts have theirs")
        return Completions.concatenate([groups[group] for group in range(len(prompts))])

    @property
    def positions(self) -> int | None:
        if self.llm is None:
            raise EngineDied("this vLLM engine was closed")
        return int(self.llm.llm_engine.model_config.max_model_len)

    def _head(self, params: SamplingParams) -> int:
        """How many of the likeliest tokens it reports."""
        return params.head and min(params.head, int(self.llm.llm_engine.model_config.get_vocab_size()))

    def enqueue(self, prompts: Sequence[Sequence[int]], seeds_R: np.ndarray, params: SamplingParams) -> None:
        import vllm

        settings = {
            "max_tokens": params.max_response_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "top_k": params.top_k,
            "stop_token_ids": list(params.stop_token_ids),
            "ignore_eos": True,  # the checkpoint's own end token ends a response only where the request says so
            # Text is made only where strings end a response.
            "detokenize": bool(params.stop_strings),
            "stop": list(params.stop_strings),
            "skip_special_tokens": False,
            "logprobs": self._head(params),
            "flat_logprobs": True,
        }
        # Seeds are signed 64-bit integers there. What vLLM refuses (a temperature above 2) is a ValueError here.
        request_params = [vllm.SamplingParams(seed=seed >> 1, **settings) for seed in seeds_R.tolist()]
        with _guard_calls():
            self.llm.enqueue([{"prompt_token_ids": list(prompt)} for prompt in prompts], request_params, use_tqdm=False)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See `RolloutEngine`. Raises EngineDied if the memory cannot be taken again, or old keys and values would stay."""
        self._wake(_WEIGHTS)
        tensors = _validate(weights, self._names)
        if self._workers == 1:
            self.llm.collective_rpc("take_policy_weights", args=(tensors, None))
        else:  # workers of their own cannot be handed tensors
            with weight_file(tensors) as path:
                self.llm.collective_rpc("take_policy_weights", args=(None, path))
        self._wake(_CACHE)
        if not self.llm.reset_prefix_cache():
            raise EngineDied("vLLM kept keys and values that older weights made: some request is unfinished")

    def sleep(self) -> None:
        """See `RolloutEngine`; does nothing on a CPU. Raises EngineDied."""
        if self._sleep_level and self.llm is not None and not self._sleeping_parts:
            with _guard_calls("going to sleep"):
                self.llm.sleep(level=self._sleep_level)
            self._sleeping_parts = [_WEIGHTS, _CACHE]

    def wake(self) -> None:
        """See `RolloutEngine`; takes the weights' memory alone, the cache comes back with them. Raises EngineDied."""
        self._wake(_WEIGHTS)

    def _wake(self, part: str) -> None:
        if part not in self._sleeping_parts:
            return
        torch.cuda.empty_cache()  # vLLM's allocator sees none of what torch keeps for the trainer
        with _guard_calls("waking"):
            awake = self.llm.wake_up(tags=[part])
            self._sleeping_parts.remove(part)
            if not self._sleeping_parts and not awake:  # it only logs a wake that it does not understand
                raise RuntimeError("weights and cache were woken, and it says that it still sleeps")

    def close(self) -> None:
        """See `RolloutEngine`. A process group that was there before the engine is left as it is."""
        if self.llm is None:
            return
        llm, self.llm = self.llm, None
        core = llm.llm_engine.engine_core
        if self._owns_group:
            core.shutdown()
        elif core._finalizer.detach() is not None:
            # vLLM's own shutdown destroys the default process group, which is the trainer's (or another engine's) here.
            core.engine_core.model_executor.shutdown()


def _settings(config: Any, runtime: Any, dtype: torch.dtype, cpu: bool, sleeps: bool) -> dict[str, Any]:
    gib = config.kv_cache_memory_gib or (_CPU_CACHE_GIB if cpu else 0.0)
    # A prompt that is read in two steps costs a seeded request a step back of its generator, which fails on a CPU.
    whole_prompts: dict[str, Any] = {"enable_chunked_prefill": False} if cpu else {}
    return {
        **whole_prompts,
        "dtype": str(dtype).removeprefix("torch."),
        "enforce_eager": cpu if config.enforce_eager is None else config.enforce_eager,
        "max_model_len": config.max_model_len or -1,
        "max_num_seqs": runtime.rollout_rows,
        "gpu_memory_utilization": config.gpu_memory_utilization,
        "kv_cache_memory_bytes": int(gib * _GIB) or None,
        "tensor_parallel_size": config.tensor_parallel,
        "enable_prefix_caching": config.prefix_caching,
        "enable_sleep_mode": sleeps,
        "use_tqdm_on_load": False,
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": -1,  # no bound of its own: a request asks for what the surrogate reads
        "worker_extension_cls": "harness.rollout.engine.vllm.worker.PolicyWeights",
        "seed": 0,
    }


@contextmanager
def _guard_calls(activity: str = "sampling") -> Iterator[None]:
    """Around calls of vLLM: a failure in there ends the engine, since unfinished requests would answer the next call."""
    try:
        yield
    except Exception as error:
        raise EngineDied(f"vLLM failed while {activity}: {type(error).__name__}: {error}") from error


def _environment(cpu: bool) -> None:
    """Set what vLLM reads from the environment, before it is imported; what is set already stays, but for what runs depend on."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the engine's loop runs in this process
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    if cpu:
        # Otherwise the first request for log-probabilities compiles for several seconds, and needs a C++ compiler. The variable is for
        # workers of its own: this process has read it long ago.
        os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
        torch._dynamo.config.disable = os.environ["TORCH_COMPILE_DISABLE"] == "1"
        # Its workers would bind themselves to the same cores in every run.
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")


_OTHER_NAMES = "as with transformers' fused experts; use engine=transformers"


def _validate(weights: Iterable[tuple[str, torch.Tensor]], names: frozenset[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the same tensors; ConfigError at one that the checkpoint has not, and at the end for one that did not come.

    The output projection may come or not where it is tied to the embeddings; rotary tables are no weights and do not count.
    """
    missing = {name for name in names if not is_rotary_table(name)}
    for name, tensor in weights:
        if is_rotary_table(name):
            continue
        if name not in names and name != _TIED_HEAD:
            raise ConfigError(f"engine=vllm: the checkpoint has no tensor {name!r} of the policy, {_OTHER_NAMES}")
        missing.discard(name)
        if name in names:
            yield name, tensor.detach()
    if missing:
        raise ConfigError(f"engine=vllm: the policy has no tensor {min(missing)!r} of the checkpoint, {_OTHER_NAMES}")


def _completions(outputs: Sequence[Any], head: int, temperature: float) -> Completions:
    """Responses in their order. Raises `EngineDied` for log-probabilities that are not those of the sampled tokens.

    vLLM tells no entropy. -log π of the sampled token stands for it, an unbiased estimate (H = E[-log π]) that is good only for means
    over many tokens. At temperature 0 nothing is drawn, and it is NaN.
    """
    width = 1 + head
    for output in outputs:
        if output.finish_reason not in ("stop", "length"):
            raise EngineDied(f"vLLM ended a response with finish_reason {output.finish_reason!r}")
        # With `flat_logprobs` every position has the sampled token's entry and then those of the likeliest, maybe the sampled one again.
        tokens, flat = list(output.token_ids), output.logprobs.token_ids
        if list(flat[::width]) != tokens or len(flat) != width * len(tokens):
            raise EngineDied("vLLM's log-probabilities are not those of the sampled tokens")
    ids_NW = np.concatenate([np.array(item.logprobs.token_ids, np.int32) for item in outputs]).reshape(-1, width)
    log_probs_NW = np.concatenate([np.array(item.logprobs.logprobs, np.float32) for item in outputs]).reshape(-1, width)
    log_probs_N = torch.from_numpy(log_probs_NW[:, 0].copy())
    return Completions(
        tokens_N=torch.from_numpy(ids_NW[:, 0].astype(np.int64)),
        log_probs_N=log_probs_N,
        entropy_N=-log_probs_N if temperature > 0 else torch.full_like(log_probs_N, float("nan")),
        lengths_R=torch.tensor([len(item.token_ids) for item in outputs]),
        finished_R=torch.tensor([item.finish_reason == "stop" for item in outputs]),
        head_log_probs_NK=torch.from_numpy(log_probs_NW[:, 1:].copy()) if head else None,
        head_NK=torch.from_numpy(ids_NW[:, 1:].copy()) if head else None,
    )
