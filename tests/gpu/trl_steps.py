"""The same steps under TRL's GRPOTrainer, for the ratio: random weights of the same shape, responses of the same length, the same batch."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring import TINY, leave, measured, parser_of_steps

from harness.base_policy.random_init import SHAPES, random_checkpoint


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Median seconds of a step, its first two left out."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOTrainer

    shape = {**SHAPES[options.shape], **(TINY if options.tiny else {})}
    batch = options.prompts * options.samples
    cuda = options.device == "cuda"

    class Clock(TrainerCallback):
        """Wall time between the ends of steps."""

        ends: list[float] = []  # noqa: RUF012

        def on_step_end(self, *arguments: Any, **keywords: Any) -> None:
            if cuda:
                torch.cuda.synchronize()
            self.ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = random_checkpoint(shape, 0, Path(folder))
        tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
        model.generation_config.eos_token_id = None
        settings = _settings(options, folder)
        data = Dataset.from_list(
            [{"prompt": f"{i % 10}+{i % 7}:"} for i in range(options.prompts * options.steps)]
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=[lambda completions, **_: [float(i % 2) for i in range(len(completions))]],
            args=settings,
            train_dataset=data,
            processing_class=tokenizer,
            callbacks=[Clock()],
        )
        trainer.train()
    seconds = [b - a for a, b in zip(Clock.ends, Clock.ends[1:], strict=False)][1:]
    tokens = batch * options.response
    return {
        "engine": "TRL GRPOTrainer",
        "steps": options.steps,
        "response_tokens": options.response,
        "tokens_per_step": tokens,
        "step_seconds": statistics.median(seconds),
        "peak_memory_gib": torch.cuda.max_memory_reserved() / 2**30 if cuda else None,
    }


def _settings(options: argparse.Namespace, folder: str) -> Any:
    """One update a step on full-length responses; nothing is saved or reported."""
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=f"{folder}/out",
        max_steps=options.steps,
        per_device_train_batch_size=options.micro_batch_rows,
        gradient_accumulation_steps=options.prompts * options.samples // options.micro_batch_rows,
        num_generations=options.samples,
        max_completion_length=options.response,
        bf16=options.device == "cuda",
        use_cpu=options.device != "cuda",
        beta=0.0,
        temperature=1.0,
        gradient_checkpointing=False,
        save_strategy="no",
        report_to="none",
        logging_steps=1000,
        generation_kwargs={"min_new_tokens": options.response},
    )


def main() -> None:
    parser = parser_of_steps(__doc__)
    parser.add_argument("--micro-batch-rows", type=int, default=32)
    options = parser.parse_args()
    leave(measured("TRL GRPOTrainer", "trl", lambda: measure(options)), options.out)


if __name__ == "__main__":
    main()
