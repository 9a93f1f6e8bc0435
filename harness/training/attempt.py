"""What an attempt at a run settles before anything is trained: linear kernel, base policy, the micro-batch that fits."""

import dataclasses
import json
from contextlib import suppress
from pathlib import Path

import torch

from harness.configuration.error import ConfigError
from harness.configuration.registry import implementation
from harness.configuration.schema import RunConfig
from harness.configuration.sections import RuntimeConfig
from harness.model.checkpoint import count_parameters
from harness.model.linear import onednn_available, resolve_kernel
from harness.model.packed_attention import attention_name
from harness.model.system import processor
from harness.store import RunDir, layout
from harness.store.atomic import write_file
from harness.training.task import warn


def base_policy(config: RunConfig, run: RunDir, attempt: int) -> tuple[str, Path]:
    """Settle the linear kernel of this attempt, and prepare the policy before RL; returns both, the policy as its folder."""
    kernel = settle_kernel(config.runtime, run, attempt)
    run.say_phase(attempt, "preparing the base policy")
    source, cache = implementation("harness.base_policy", config.model), run.path.parent.parent / "cache"
    folder = source.prepare(config.model, config.task, config.seed, cache, kernel)
    with suppress(ConfigError):  # of another format
        path = layout.attempt_dir(run.path, attempt) / layout.NUMERICS
        record = json.loads(path.read_text()) | {"parameters": count_parameters(folder)}
        write_file(path, json.dumps(record, indent=1).encode() + b"\n")
    return kernel, folder


def settle_kernel(runtime: RuntimeConfig, run: RunDir, attempt: int) -> str:
    """The linear kernel of this attempt, recorded in its directory before anything is computed.

    A run that resumes from a checkpoint keeps the kernel it began with: the supervisor copies the record into the manifest's provenance.
    Raises `ConfigError` where the configuration asks for another one, or this machine lacks it.
    """
    recorded_kernel = _read_kernel(run, attempt) if run.checkpoints() else None
    kernel = recorded_kernel or resolve_kernel(runtime.linear_kernel)
    if runtime.linear_kernel not in ("auto", kernel):
        raise ConfigError(f"runtime.linear_kernel={runtime.linear_kernel}: the run began with {kernel}; set it to auto")
    if kernel == "onednn" and not onednn_available():
        raise ConfigError("the run needs runtime.linear_kernel=onednn, which this torch has not: go on where it began")
    record = {
        "linear_kernel": kernel,
        "threads": runtime.threads,
        "torch": torch.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "processor": processor().name,
        "packed_attention": attention_name(runtime.device),
    }
    path = layout.attempt_dir(run.path, attempt) / layout.NUMERICS
    write_file(path, json.dumps(record, indent=1).encode() + b"\n")
    return kernel


def _read_kernel(run: RunDir, attempt: int) -> str | None:
    """The kernel of the newest earlier attempt that told it."""
    for number in range(attempt - 1, -1, -1):
        path = layout.attempt_dir(run.path, number) / layout.NUMERICS
        try:
            return str(json.loads(path.read_text())["linear_kernel"])
        except (FileNotFoundError, ValueError):  # it broke off before, or a power cut left the file empty
            continue
    return None


OUT_OF_MEMORY = "out-of-memory.txt"  # in the folder of an attempt: the micro-batch that did not fit


def out_of_memory(config: RunConfig, run: RunDir) -> MemoryError:
    """What to raise where memory ran out in an update; the run's next attempt takes half of the micro-batch."""
    size, attempt = config.runtime.micro_batch_tokens, run.newest_attempt()
    if attempt is not None:
        write_file(attempt / OUT_OF_MEMORY, str(size).encode())
    shards = config.backend.kind != "trl"  # whose processes hold a copy each
    return MemoryError(
        f"an update does not fit into memory with runtime.micro_batch_tokens={size}; the next attempt takes half. Instead set "
        f"runtime.gradient_checkpointing=true, or model.lora.rank{', or use more GPUs (runtime.gpus_per_run)' * shards}"
    )


def fit_memory(config: RunConfig, run: RunDir) -> RunConfig:
    """The configuration with half of the smallest micro-batch that did not fit before. No gradient depends on it.

    A process of its own begins with it: FSDP2 gives wrong scores, silently, after a pass that broke off.
    """
    tokens, files = config.runtime.micro_batch_tokens, run.path.glob(f"attempts/*/{OUT_OF_MEMORY}")
    size = min([tokens, *(max(1, int(file.read_text()) // 2) for file in files)])
    if size == tokens:
        return config
    warn(f"memory ran out with larger micro-batches: runtime.micro_batch_tokens={size} instead of {tokens}")
    return dataclasses.replace(config, runtime=dataclasses.replace(config.runtime, micro_batch_tokens=size))
