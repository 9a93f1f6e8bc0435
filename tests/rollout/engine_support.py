"""Every engine over a given checkpoint, and small checkpoints of real architectures."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fake_server import FakeServer

from harness.configuration.registry import kinds, member
from harness.configuration.sections import RuntimeConfig
from harness.model.policy import NativePolicy
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.types import Completions, RolloutEngine, SamplingParams
from harness.rollout.wrappers import key, sample_seeds
from harness.testbed.demonstrator import testbed_tokenizer

FAMILY = "harness.rollout.engine"
ROWS = 64
# Members with weights of their own, to be loaded after an update: a new one is in the suite by itself.
COPIES = tuple(kind for kind in sorted(kinds(FAMILY)) if getattr(member(FAMILY, kind), "READS_WEIGHTS", True))
HAS_VLLM = importlib.util.find_spec("vllm") is not None
HAS_OPENAI = importlib.util.find_spec("openai") is not None
Opener = Callable[[str, Path, NativePolicy], RolloutEngine]  # engine's name, checkpoint, policy


needs_openai = pytest.mark.skipif(not HAS_OPENAI, reason="the package openai is not installed here")


def cases(*names: str) -> list[Any]:
    """Parameters for these engines; vLLM's are marked `vllm`."""
    vllm = [
        pytest.mark.vllm,
        pytest.mark.skipif(
            not HAS_VLLM, reason="vLLM is not installed here; tests/vllm_cpu/setup.sh makes an environment that has it"
        ),
    ]
    marks = {"vllm": vllm, "vllm-serve": vllm, "openai": [needs_openai]}
    return [pytest.param(name, marks=marks.get(name, [])) for name in names]


def open_engine(name: str, folder: Path, policy: NativePolicy, scratch: Path, **settings: Any) -> RolloutEngine:
    """The engine of that name over the checkpoint, float32 on the CPU. `shared` samples from the policy's own tensors."""
    runtime = RuntimeConfig(rollout_rows=ROWS)
    if name == "shared":
        built: RolloutEngine = member(FAMILY, "native").build(member(FAMILY, "native").Config(), policy, runtime)
        return built
    if name == "openai":
        return Served(policy, **settings)
    if name == "vllm-serve":
        return VllmServe(folder, scratch)
    engine = member(FAMILY, name)
    opened: RolloutEngine = engine.open_folder(
        engine.Config(**settings), folder, runtime, "cpu", torch.float32, "torch"
    )
    return opened


class OverHttp(RolloutEngine):
    """The openai engine over a server that ends with it."""

    def connect(self, address: str, **settings: Any) -> None:
        openai = member(FAMILY, "openai")
        config = openai.Config(base_url=address, **{"logprobs": "processed", **settings})
        self.engine = openai.open_folder(config, None, None, "cpu", torch.float32, "torch")

    def generate(self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        made: Completions = self.engine.generate(prompts, seeds_PG, params)
        return made

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.engine.load_weights(weights)


class Served(OverHttp):
    """Over a native engine in a thread."""

    def __init__(self, policy: NativePolicy, **settings: Any) -> None:
        self.server = FakeServer(NativeEngine(policy.decoder))
        self.connect(self.server.base_url, **{"concurrency": 8, **settings})

    def close(self) -> None:
        self.server.close()


class VllmServe(OverHttp):
    """Over a real vLLM server. Starting takes a quarter of a minute."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = f"--host 127.0.0.1 --port {port} --served-model-name tiny --dtype float32 --enforce-eager"
        options += f" --logprobs-mode processed_logprobs --max-num-seqs {ROWS} --kv-cache-memory-bytes {1 << 30}"
        environment = {**os.environ, "TORCH_COMPILE_DISABLE": "1", "VLLM_NO_USAGE_STATS": "1"}
        environment.pop("VLLM_ENABLE_V1_MULTIPROCESSING", None)  # set by engines in this process
        environment.pop("VLLM_LOGGING_LEVEL", None)
        self.log = scratch / "serve.log"
        # What `vllm serve` starts; the command itself fails under vllm-cpu, which is not installed under the name that it looks up.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *options.split()],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        address = f"http://127.0.0.1:{port}/v1"
        self._wait_for(address)
        self.connect(address, concurrency=ROWS)

    def _wait_for(self, address: str) -> None:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{address}/models", timeout=2):
                    return
            except OSError:
                time.sleep(0.5)
        self.close()
        pytest.fail(f"vllm serve did not come up:\n{self.log.read_text()[-3000:]}")

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def seeds_for(prompts: Sequence[Sequence[int]], samples: int, stream: str = "contract") -> np.ndarray:
    return sample_seeds(key(stream), np.arange(len(prompts), dtype=np.uint64), samples)


def scores(
    policy: NativePolicy, prompts: Sequence[Sequence[int]], made: Completions, temperature: float = 1.0
) -> torch.Tensor:
    """The trainer's log-probabilities of an engine's responses, [N]."""
    rows = [prompt for prompt in prompts for _ in range(len(made.lengths_R) // len(prompts))]
    with torch.no_grad():
        return policy.token_log_probs(rows, made.tokens_N, made.lengths_R, temperature)[0]


def tiny_checkpoint(folder: Path, architecture: str, tied: bool, hidden: int = 128, seed: int = 0) -> Path:
    """A random model of the architecture, with norms and biases that are not at their trivial values, so that a stale one shows."""
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = testbed_tokenizer()
    sizes: dict[str, Any] = {
        "vocab_size": 64,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": hidden // 4,
        "max_position_embeddings": 512,
        "initializer_range": 0.1,
    }
    config = AutoConfig.for_model(
        architecture, **sizes, tie_word_embeddings=tied, bos_token_id=None, eos_token_id=1, pad_token_id=0
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.data.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@torch.no_grad()
def shift(policy: NativePolicy, seed: int, only: str | None = None, amount: float = 0.1) -> None:
    """Move every tensor of the policy, or one, by noise."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in policy.named_weights():
        if only is None or name == only:
            tensor.add_(amount * torch.randn(tensor.shape, generator=generator))
