"""Reinforcement-learning steps of a real shape with random weights: tokens a second, memory, where the time goes.

    python benchmarks/steps.py --engine native --steps 20 --response 1024 --out native.json

The model knows nothing and never ends a response, so every response has `--response` tokens; verdicts are drawn so that every group has
contrast and nothing is skipped. Writes one JSON object.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from random_model import random_checkpoint

from harness.configuration.compose import compose_values
from harness.configuration.schema import RunConfig, load
from harness.model.shapes import SHAPES
from harness.reward.shaping import Grader, Grades
from harness.store import ResultStore
from harness.training.loop import take_step
from harness.training.run_parts import RunParts
from harness.verify import Verdict

TINY = {"num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 256, "vocab_size": 512}
TINY |= {"num_attention_heads": 4, "num_key_value_heads": 2}  # heads of 32, the least that vLLM knows
_LARGEST_GAP = 0.05  # nats a token on average between engine and trainer; bfloat16 rounds by some 0.02


class ContrastGrader(Grader):
    """The real verifier runs; then every other response is called right."""

    def grade(self, *answers: Any, **more: Any) -> Grades:
        verdicts = super().grade(*answers, **more).verdicts
        return Grades(
            [
                Verdict("right" if i % 2 else "wrong", verdict.answer, verdict.method)
                for i, verdict in enumerate(verdicts)
            ]
        )


def configuration(options: argparse.Namespace, initial: Path) -> RunConfig:
    """The run to be measured, from this checkpoint."""
    values = compose_values(
        [
            "model=pretrained",
            f"model.path={initial}",
            f"engine={options.engine}",
            f"sampling.max_response_tokens={options.response}",
            f"evaluation.caps=[{options.response}]",
            "evaluation.samples_per_problem=1",
            "evaluation.benchmarks.arithmetic_heldout.problems=1",
            f"training.steps={options.steps + 1}",  # the evaluation after the last step is not measured
            "training.evaluate_every=100000",
            f"algorithm.prompts_per_step={options.prompts}",
            f"algorithm.responses_per_prompt={options.samples}",
            "algorithm.updates_per_step=1",
            f"runtime.device={options.device}",
            f"runtime.micro_batch_tokens={options.micro_batch_tokens}",
            f"runtime.rollout_rows={options.prompts * options.samples}",
            f"runtime.gradient_checkpointing={str(options.checkpointing).lower()}",
            *options.override,
        ]
    )
    values.pop("experiment", None)
    if options.tiny:
        values["model"]["precision"] = "float32"
    config = load(values)
    return config


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Train and report medians over all steps but the first two."""
    with tempfile.TemporaryDirectory() as folder:
        initial = random_checkpoint({**SHAPES[options.shape], **(TINY if options.tiny else {})}, 0, Path(folder))
        config = configuration(options, initial)
        run = ResultStore(Path(folder)).run("a" * 16)
        run.path.mkdir(parents=True)
        grader = ContrastGrader(config.verifier, config.runtime)
        trainer = RunParts(config, run, initial, "torch", grader)
        trainer.params = dataclasses.replace(trainer.params, stop_token_ids=())
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        try:
            trainer.sync.load()
            begin = time.monotonic()
            for done in range(1, options.steps + 1):
                take_step(trainer, 0)
                if options.seconds and done >= 5 and time.monotonic() - begin > options.seconds:
                    break
        finally:
            trainer.close()
            grader.close()
        steps = run.steps().iloc[min(2, options.steps - 1) :]
    gap = float(steps["sampler_log_prob_gap_mean"].mean())
    wrong = (
        {}
        if gap <= _LARGEST_GAP
        else {"failed": f"the engine's log-probabilities are {gap:.3g} nats from the trainer's on average"}
    )
    rollout, update = (statistics.median(steps[f"seconds_{part}"]) for part in ("rollout", "train"))
    tokens = float(steps["generated_tokens"].median())
    return {
        "engine": options.engine,
        **wrong,
        "micro_batch_tokens": config.runtime.micro_batch_tokens,
        "steps": done,
        "tokens_per_step": tokens,
        "rollout_tokens_per_second": tokens / rollout,
        "update_tokens_per_second": tokens / update,
        "step_seconds": float(steps["seconds_total"].median()),
        "sync_seconds": float(steps["seconds_sync"].median()),
        "log_prob_gap_mean": gap,
        "log_prob_gap_max": float(steps["sampler_log_prob_gap_max"].max()),
        "peak_memory_gib": torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--engine", default="native")
    parser.add_argument("--shape", default="qwen2.5-0.5b")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--response", type=int, default=1024)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0, help="no step after the fifth begins later; 0: no limit")
    parser.add_argument("--micro-batch-tokens", type=int, default=8192)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="two narrow layers, for a CPU")
    parser.add_argument("--override", action="append", default=[], help="a further override of the configuration")
    options = parser.parse_args()
    row = measure(options)
    options.out.write_text(json.dumps(row, indent=1))
    print(json.dumps(row))


if __name__ == "__main__":
    main()
