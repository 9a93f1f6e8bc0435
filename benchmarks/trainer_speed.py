"""Speed of whole rollout steps (sample, decode, verify, update, record) on one core, beside TRL and a hand-written limit.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/trainer_speed.py [--peers DIR --peer-python PY] [--rounds 3]

Without `--peers` it prints our CPU seconds a step. `--peers` names a folder with `peers/trl_grpo_cpu.py`,
`limits/hand_sampler.py` and `limits/hand_update.py`, which print one JSON line each; `--peer-python` is an interpreter that has TRL
(the limits run with this one). Rounds are interleaved; figures are medians of CPU seconds, compared as ratios within the one run.

The work is the same 32 prompts x 8 completions: random-init policies, so that grading finds nothing right; correctness is then drawn at
random (after the real verifier ran), so that every group has contrast and nothing is skipped. `--skip-dead` keeps the verifier's word.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from random_policies import random_policy
from steps import ContrastGrader

from harness.configuration.registry import AGGREGATION, member
from harness.configuration.schema import RunConfig
from harness.model.linear import resolve_kernel
from harness.problems.benchmarks import arithmetic
from harness.reward.shaping import Grader
from harness.rollout.noise import key, sample_seeds
from harness.rollout.types import SamplingParams
from harness.store import ResultStore
from harness.testbed.demonstrator import VOCABULARY
from harness.training.loop import take_step
from harness.training.run_parts import RunParts


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    size: str
    cap: int
    updates: int
    ends: bool  # whether the stop token ends a response (mean length about 18)
    peer: str = ""  # options of TRL's script, and of the limit's two
    limit_sampler: str = ""
    limit_update: str = ""


CASES = (
    Case("3.2M, 64 tokens, 1 update", "m", 64, 1, False, "--updates 1 --micro 64"),
    Case("3.2M, 64 tokens, 4 updates", "m", 64, 4, False, "--updates 4 --micro 64", "", "--updates 4"),
    Case(
        "3.2M, mean about 18 of 64, 1 update", "m", 64, 1, True,
        "--updates 1 --micro 64 --free-length --eos-bias 1.5", "--eos-bias 1.5", "--mean-len 18",
    ),
    Case(
        "testbed size, 32 tokens, 16 updates", "t", 32, 16, False,
        "--size t --new 32 --updates 16", "--size t --new 32", "--size t --new 32 --updates 16",
    ),
)  # fmt: skip


def make_trainer(case: Case, folder: Path, kernel: str, skip_dead: bool) -> RunParts:
    """A trainer over a random-init policy of the case's size."""
    config = RunConfig()
    config.task = arithmetic.Config(problems=512, min_operations=2, max_operations=3)
    initial = random_policy(config.model, case.size, folder / "initial", kernel)
    config.algorithm.aggregation = member(AGGREGATION, "batch_token_mean").Config()
    config.algorithm.updates_per_step = case.updates
    config.sampling.max_response_tokens = case.cap
    config.evaluation.caps = [case.cap]
    config.training.steps = 1000
    grader = (Grader if skip_dead else ContrastGrader)(config.verifier, config.runtime)
    run = ResultStore(folder / "store").run("a" * 16)
    run.path.mkdir(parents=True)
    trainer = RunParts(config, run, initial, kernel, grader)
    trainer.params = SamplingParams(case.cap, stop_token_ids=stop_token(trainer, case.cap) if case.ends else ())
    return trainer


def stop_token(trainer: RunParts, cap: int) -> tuple[int, ...]:
    """The token that, taken as the end of text, gives this random policy the mean length closest to the limit's 18.5."""
    seeds = sample_seeds(key("length"), np.arange(32, dtype=np.uint64), 8)

    def mean_length(token: int) -> float:
        made = trainer.engine.generate(trainer.prompts[:32], seeds, SamplingParams(cap, stop_token_ids=(token,)))
        return float(made.lengths_R.float().mean())

    return (min(range(len(VOCABULARY)), key=lambda token: abs(mean_length(token) - 18.5)),)


def measure(trainer: RunParts, steps: int) -> dict[str, float]:
    """Median CPU seconds of a step, and the tokens generated in one."""
    rows = []
    for _ in range(steps):
        start = time.process_time()
        take_step(trainer, 0)
        rows.append(time.process_time() - start)
    metrics = trainer.run.steps().tail(steps)
    return {
        "ours": statistics.median(rows),
        "rollout": float(metrics["seconds_rollout"].median()),
        "verify": float(metrics["seconds_verify"].median()),
        "train": float(metrics["seconds_train"].median()),
        "length": float(metrics["response_tokens_mean"].mean()),
    }


def script(python: str, path: Path, arguments: str) -> dict[str, Any]:
    """Run one peer or limit script; its last line of output is JSON."""
    command = [python, str(path), *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=path.parent)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--peer-python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--skip-dead", action="store_true")
    parser.add_argument("--case", type=int, action="append")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| the same work (32 x 8 completions) | ours, CPU s | rollout / verify / train | TRL / ours | ours / limit | sampler / limit's |"
    )
    print("|---|---|---|---|---|---|")
    for index, case in enumerate(CASES):
        if options.case and index not in options.case:
            continue
        with tempfile.TemporaryDirectory() as folder:
            kernel = resolve_kernel(options.kernel)
            trainer = make_trainer(case, Path(folder), kernel, options.skip_dead)
            measure(trainer, 2)
            rounds: list[dict[str, float]] = []
            for _ in range(options.rounds):
                row = measure(trainer, options.steps)
                if options.peers:
                    limits, lin = options.peers / "limits", f" --lin {kernel}"
                    sampler = script(sys.executable, limits / "hand_sampler.py", case.limit_sampler + lin)
                    update = script(sys.executable, limits / "hand_update.py", case.limit_update + lin)
                    row["limit_sampler"] = sampler["generate_s_cpu"]
                    row["limit"] = sampler["generate_s_cpu"] + update["update_s_cpu"]
                if options.peers and options.peer_python:
                    theirs = script(options.peer_python, options.peers / "peers/trl_grpo_cpu.py", case.peer)
                    row["trl"] = theirs["cycle_s_cpu"]
                rounds.append(row)
            trainer.grader.close()
        print(line(case, {key: statistics.median(row[key] for row in rounds) for key in rounds[0]}), flush=True)


def line(case: Case, row: dict[str, float]) -> str:
    """One Markdown row; a dash where a peer was not measured."""
    trl = f"{row['trl'] / row['ours']:.2f}" if "trl" in row else "-"
    limit = f"{row['ours'] / row['limit']:.2f}" if "limit" in row else "-"
    sampler = f"{row['rollout'] / row['limit_sampler']:.2f}" if "limit" in row else "-"
    phases = f"{row['rollout']:.3f} / {row['verify']:.3f} / {row['train']:.3f}"
    return f"| {case.name} (mean {row['length']:.0f}) | {row['ours']:.3f} | {phases} | {trl} | {limit} | {sampler} |"


if __name__ == "__main__":
    main()
