"""One GRPO step of a real language model: ours beside TRL.

    python benchmarks/language_step.py [--threads 2] [--precision mixed,bfloat16] [--rounds 3] [--without trl]
    python benchmarks/language_step.py --device cuda --precision bfloat16 --steps 8

The work is `preset=language` on SmolLM2 135M: 16 prompts x 8 responses of at most 24 tokens, two updates. The verifier runs, then every
other response is called right, so that every group trains, as in TRL's script (`language_trl.py`; bfloat16, or float32 with
`--peer-float32`). Each part is a process of its own, one after the other in every round; the first half of its steps warms up. Prints
medians over rounds, CPU seconds and wall, and their ratios; on a busy machine only CPU seconds mean something, on a GPU only wall.
`engine_speed.py --policy` compares the samplers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from steps import ContrastGrader

from harness.base_policy import pretrained
from harness.configuration.compose import compose_run
from harness.configuration.schema import RunConfig
from harness.model.linear import resolve_kernel
from harness.problems.problem import load_benchmark
from harness.store import ResultStore
from harness.training import loop as steps
from harness.training.run_parts import RunParts

HERE = Path(__file__).resolve().parent


def configuration(options: argparse.Namespace, precision: str) -> RunConfig:
    machine = ["runtime=one_gpu"] if options.device == "cuda" else []
    settings = [f"model.precision={precision}", "training.evaluate_every=100000"]
    return compose_run(["preset=language", *machine, *settings, f"runtime.threads={options.threads}"])


def ours(options: argparse.Namespace) -> None:
    """Take whole steps and print what each took."""
    torch.set_num_threads(options.threads)
    folder, config = options.part, configuration(options, options.precision)
    run = ResultStore(folder / "store").run(os.urandom(8).hex())
    run.path.mkdir(parents=True)
    trainer = RunParts(
        config, run, folder / "model", resolve_kernel("auto"), ContrastGrader(config.verifier, config.runtime)
    )
    for _ in range(options.steps):
        cpu, wall = time.process_time(), time.perf_counter()
        steps.take_step(trainer, 0)
        row = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        last = run.steps().iloc[-1]
        row["tokens"], row["gap"] = float(last["generated_tokens"]), float(last["sampler_log_prob_gap_mean"])
        print(json.dumps({**row, "peak": peak_gb()}), flush=True)
    trainer.grader.close()


def peak_gb() -> float:
    """The largest resident size of this process, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("VmHWM"))


def part(command: list[str], options: argparse.Namespace) -> dict[str, float]:
    """Run a process; medians of its timed steps."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    rows = rows[len(rows) // 2 :]
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def prepare(folder: Path, options: argparse.Namespace) -> None:
    """The model's checkpoint and the training problems as JSON."""
    config = configuration(options, "float32")
    made = pretrained.prepare(config.model, config.task, 0, folder, resolve_kernel("auto"))
    (folder / "model").symlink_to(made)
    problems = [[problem.prompt, problem.gold] for problem in load_benchmark(config.task).problems]
    (folder / "problems.json").write_text(json.dumps(problems))


def report(found: dict[str, list[dict[str, float]]], precisions: list[str]) -> None:
    """Two tables in Markdown: seconds, and ratios by CPU seconds and wall."""
    median = {name: {k: statistics.median(row[k] for row in rows) for k in rows[0]} for name, rows in found.items()}
    print("| part | CPU s | wall s | generated tokens | gap, nats | peak, GB |\n|---|---|---|---|---|---|")
    for name, row in median.items():
        gap, peak = (f"{row[k]:.2g}" if k in row else "" for k in ("gap", "peak"))
        print(f"| {name} | {row['cpu']:.1f} | {row['wall']:.1f} | {row['tokens']:.0f} | {gap} | {peak} |")
    print("\n| ratio | CPU | wall |\n|---|---|---|")
    for precision in precisions:
        if "TRL" in median:
            ratios = (median["TRL"][clock] / median[f"ours {precision}"][clock] for clock in ("cpu", "wall"))
            print(f"| TRL / ours, {precision} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")


def commands_of(folder: Path, options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the command of each part by its name, in the order of a round."""
    machine = ["--threads", str(options.threads), "--steps", str(options.steps), "--device", options.device]
    commands = {
        f"ours {precision}": [sys.executable, __file__, *machine, "--precision", precision, "--part", str(folder)]
        for precision in options.precision.split(",")
    }
    if options.without != "trl":
        peer = [*machine, *(["--float32"] if options.peer_float32 else [])]
        files = [f"{folder}/model", f"{folder}/problems.json"]
        commands["TRL"] = [sys.executable, str(HERE / "language_trl.py"), *files, *peer]
    return commands


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", default="mixed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2, help="of a process; the first half warms up")
    parser.add_argument("--without", choices=["trl"])
    parser.add_argument("--peer-float32", action="store_true")
    parser.add_argument("--part", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        ours(options)
        return
    rows: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder, options)
        for turn in range(options.rounds):
            for name, command in commands_of(folder, options).items():
                rows.setdefault(name, []).append(part(command, options))
                print(f"round {turn + 1}, {name}: {rows[name][-1]}", file=sys.stderr, flush=True)
    report(rows, options.precision.split(","))


if __name__ == "__main__":
    main()
