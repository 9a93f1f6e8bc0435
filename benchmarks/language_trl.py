"""TRL's GRPO step on a language model, for `language_step.py`; without the harness.

    python language_trl.py CHECKPOINT PROBLEMS.json --steps 2 --threads 2 --device cpu [--float32]

PROBLEMS.json: [[problem, answer], ...]; 16 of them x 8 completions of at most 24 tokens, two updates a step, bfloat16 unless `--float32`.
Each pair of a group is rewarded 1 and -1, so that every group trains. Prints a JSON line a step.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

MICRO = {"cpu": 32, "cuda": 64}  # sequences in one forward and backward; 128 are a step


class Clock(TrainerCallback):  # type: ignore[misc]
    """Prints what two optimiser updates, which are one step, took."""

    tokens = 0

    def start(self) -> None:
        self.wall, self.cpu, self.tokens = time.perf_counter(), time.process_time(), 0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % 2 == 0:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            row = {"cpu": time.process_time() - self.cpu, "wall": time.perf_counter() - self.wall}
            print(json.dumps({**row, "tokens": self.tokens}), flush=True)
            self.start()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("problems")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", choices=list(MICRO), required=True)
    parser.add_argument("--float32", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    micro, cpu = MICRO[options.device], options.device == "cpu"
    with open(options.problems) as file:
        rows = [{"prompt": [{"role": "user", "content": text}], "answer": gold} for text, gold in json.load(file)]
    clock = Clock()

    def reward(completions: Any, completion_ids: Any, **_: Any) -> list[float]:
        clock.tokens += sum(map(len, completion_ids))
        return [1.0 if index % 2 else -1.0 for index in range(len(completions))]

    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=cpu, bf16=not options.float32, seed=0, report_to="none", disable_tqdm=True,
        save_strategy="no", per_device_train_batch_size=micro, gradient_accumulation_steps=64 // micro,
        steps_per_generation=128 // micro, num_generations=8, max_completion_length=24, max_steps=2 * options.steps,
        learning_rate=2e-5, lr_scheduler_type="constant", max_grad_norm=1.0, loss_type="grpo", beta=0.0, epsilon=0.2,
        temperature=1.0, top_p=1.0, top_k=0, gradient_checkpointing=False, dataloader_pin_memory=not cpu, optim="adamw_torch",
    )  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(options.folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(options.folder, padding_side="left")
    GRPOTrainer(
        model=model, reward_funcs=reward, args=config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer,
        callbacks=[clock],
    ).train()  # fmt: skip


if __name__ == "__main__":
    main()
