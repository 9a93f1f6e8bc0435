"""The rollout engine in a process of its own, which samples while the trainer updates (`runtime.sampler_gpus`).

`python -m harness.training.sampler_process DESCRIPTOR` is that process. It ends with its trainer, however that ends.
"""

import functools
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.configuration.registry import ENGINE, implementation
from harness.configuration.schema import RunConfig, dump, load
from harness.model.policy import NativePolicy, Policy
from harness.model.system import visible_gpus
from harness.rollout.types import Completions, EngineDied, RolloutEngine, SamplingParams
from harness.rollout.weight_file import read_weights, weight_file
from harness.training.torchrun import Child

_GRACE_SECONDS = 5.0  # for an engine to end its own processes
_WATCH_SECONDS = 0.2  # between two words of how far a request is


class SamplerProcess(RolloutEngine):
    """The run's engine in a process that sees the last `runtime.sampler_gpus` GPUs of this one; one request at a time, from any thread.

    What fails there is raised here, as `ConfigError` or `EngineDied`. A request that breaks off, be it by what `watch` or `on_group`
    raises, ends the process.
    """

    def __init__(self, config: RunConfig, policy: Policy) -> None:
        environment, sampler_gpus = dict(os.environ), config.runtime.sampler_gpus
        if config.runtime.device == "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(visible_gpus()[-sampler_gpus:])
        self._link, remote = Pipe()
        with remote:
            command = [sys.executable, "-m", "harness.training.sampler_process", str(remote.fileno())]
            self._child = Child(command, environment, pass_fds=[remote.fileno()])
        # The native engine decodes with the policy's own modules: from a copy it computes the same to the last bit.
        place = SimpleNamespace(folder=policy.folder, device=policy.device, compute_dtype=policy.compute_dtype)
        self._positions = self._ask(dump(config), policy if isinstance(policy, NativePolicy) else place)

    @property
    def positions(self) -> int | None:
        return self._positions

    def sample(self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        request = prompts, seeds_PG, replace(params, watch=None), self.on_group is not None
        completions: Completions = self._ask("generate", *request, group=self.tell, watch=params.watch)
        return completions

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        with weight_file(weights) as path:
            self._ask("load_weights", path)

    def close(self) -> None:
        if not self._link.closed:
            self._link.close()  # it ends when it next looks there
            self._child.wait(_GRACE_SECONDS)
            self._child.stop(0.0)

    def _ask(self, *request: Any, **hear: Callable[..., None] | None) -> Any:
        """The answer to a request; each word of another kind meanwhile goes to the function of its name."""
        try:
            _send(self._link, *request)
            while (word := pickle.loads(self._link.recv_bytes()))[0] != "answer":
                if word[0] == "error":
                    raise word[1]
                if tell := hear[word[0]]:
                    tell(*word[1:])
        except (EOFError, OSError) as error:
            self.close()
            text = f"the process that samples ended (exit code {self._child.code}): it was killed, often for memory"
            raise EngineDied(text) from error
        except BaseException:
            self.close()
            raise
        return word[1]


def _send(link: Connection, *message: Any) -> None:
    # Not by `send`, with which torch would leave tensors in files of shared memory.
    link.send_bytes(pickle.dumps(message))


def main(link: Connection) -> None:
    """Answer until the trainer hangs up, or something fails."""
    try:
        settings, policy = pickle.loads(link.recv_bytes())
        config = load(settings)
        torch.set_num_threads(config.runtime.threads)
        build = implementation(ENGINE, config.engine).build
        with closing(build(config.engine, policy, config.runtime)) as engine:
            _serve(link, engine)
    except (EOFError, ConnectionError):  # the trainer needs no more
        return
    except ConfigError as error:
        _send(link, "error", ConfigError(str(error)))
    except Exception as error:
        traceback.print_exc()
        _send(link, "error", EngineDied(f"the process that samples: {type(error).__name__}: {error}"))


def _serve(link: Connection, engine: RolloutEngine) -> NoReturn:
    watched_at, answer = 0.0, cast(Any, engine.positions)

    def watch(*progress: Any) -> None:
        nonlocal watched_at
        if (now := time.monotonic()) >= watched_at + _WATCH_SECONDS:
            watched_at = now
            _send(link, "watch", *progress)

    while True:
        _send(link, "answer", answer)
        request, *values = pickle.loads(link.recv_bytes())
        if request == "load_weights":
            engine.load_weights(read_weights(*values).items())
            answer = None
        else:
            prompts, seeds_PG, params, tells = values
            engine.on_group = functools.partial(_send, link, "group") if tells else None
            answer = engine.generate(prompts, seeds_PG, replace(params, watch=watch))


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # as in `harness.training.torchrun`
