"""A rank of a TRL run under torchrun, as `harness.training.torchrun`, that keeps beside the attempt what TRL was given and came to.

`python trl_rank.py RUN_DIRECTORY ATTEMPT [fixed] [kill]`: `fixed` samples by `fixed_sample`; `kill` ends rank 0 in the third step.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from harness.backends.trl import rollouts, trainer
from harness.store import RunDir
from harness.store.layout import attempt_dir
from harness.training import torchrun


def fixed_sample(trained: Any, rows: int, prompts: list[list[int]]) -> list[list[int]]:
    """Responses that depend on prompt, place in the group and update alone, not on the policy or on who samples them."""
    return [_response(trained, prompt, place % trained.num_generations) for place, prompt in enumerate(prompts)]


def _response(trained: Any, prompt: list[int], place: int) -> list[int]:
    chance, stop = random.Random(repr((prompt, place, trained.state.global_step))), trained.eos_token_ids[0]
    tokens = [chance.choice([token for token in range(10) if token != stop]) for _ in range(chance.randint(1, 12))]
    return tokens if len(tokens) == 12 else [*tokens, stop]


def main(run: Path, attempt: int, *options: str) -> int:
    rank, folder, built = os.environ["RANK"], attempt_dir(run, attempt), []
    shaped_reward, build, begin = rollouts.Rollouts.shaped_reward, trainer.build, trainer.Recorder.on_step_begin

    def recorded(self: Any, completion_ids: list[list[int]], problem: list[int], **more: Any) -> list[float]:
        rewards = shaped_reward(self, completion_ids, problem, **more)
        with (folder / f"given-{rank}.jsonl").open("a") as file:
            rows = zip(problem, map(len, completion_ids), rewards, strict=True)
            file.writelines(json.dumps([self.step, *row]) + "\n" for row in rows)
        return rewards

    def kept(*arguments: Any) -> Any:
        built.append(build(*arguments))
        return built[0]

    def killed(self: Any, args: Any, state: Any, control: Any, **more: Any) -> None:
        if rank == "0" and len(RunDir(run).steps()) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        begin(self, args, state, control, **more)

    rollouts.Rollouts.shaped_reward, trainer.build = recorded, kept  # type: ignore[method-assign]
    if "fixed" in options:
        trainer.sample = fixed_sample
    if "kill" in options:
        trainer.Recorder.on_step_begin = killed  # type: ignore[method-assign]
    code = torchrun.main(run, attempt)
    if built:
        torch.save(built[0].model.state_dict(), folder / f"model-{rank}.pt")
    return code


if __name__ == "__main__":
    done = main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
    sys.stdout.flush()
    os._exit(done)
