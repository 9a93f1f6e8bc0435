"""GRPOTrainer of a run: its data set, its reward functions, and a callback that records, evaluates, saves and stops."""

import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import set_seed
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.models import unwrap_model_for_generation

from harness.backends.trl.rollouts import Rollouts
from harness.backends.trl.settings import settings
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.exchange.dialect import load_table
from harness.model.checkpoint import load_model
from harness.model.policy import adamw
from harness.model.transformers_policy import adapter_settings
from harness.problems.problem import load_benchmark
from harness.rollout.types import prompt_texts
from harness.training.grading import Tally
from harness.training.metrics import average, groups_row, rollout_row, verdicts_row
from harness.training.step_data import NumericalFault
from harness.training.task import TaskParts
from harness.training.update import learning_rate

_NAN = float("nan")


def build(parts: TaskParts, rollouts: Rollouts, folder: Path, callback: TrainerCallback) -> Any:
    """The trainer of a run, which writes its checkpoints into `folder`. Raises `ConfigError`."""
    config = parts.config
    longest = max(map(len, parts.prompts))
    try:
        arguments = GRPOConfig(output_dir=str(folder), **settings(config, longest))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"TRL's GRPOConfig refuses the settings of backend=trl: {error}") from error
    model = _model(config, parts.initial)
    # Only experts can be left without a gradient: DDP need not look for others, and warns where it looked in vain.
    experts = any("expert" in name for name, _ in model.named_parameters())
    if arguments.ddp_find_unused_parameters is None and not experts:
        arguments.ddp_find_unused_parameters = False
    optimizer = adamw(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        config.optimizer,
        config.optimizer.learning_rate,
    )
    refills = config.algorithm.dead_groups.policy != "keep"
    if refills:
        warnings.filterwarnings("ignore", message="You are using 'rollout_func'")  # it may change with another TRL
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=rollouts.reward_functions(),
        args=arguments,
        train_dataset=_dataset(parts),
        processing_class=parts.tokenizer,
        callbacks=[callback],
        optimizers=(optimizer, _schedule(config, optimizer)),
        rollout_func=(lambda _, trainer: rollouts.refill(partial(sample, trainer, config.runtime.rollout_rows)))
        if refills
        else None,
    )
    trainer.remove_callback(PrinterCallback)
    if arguments.use_vllm:  # built in this process it has set every generator to its own seed, the same for all seeds
        set_seed(arguments.seed, device_specific=True)
    return trainer


def _model(config: RunConfig, initial: Path) -> Any:
    """The policy with float32 weights, and its adapters where it has any."""
    model = load_model(initial, torch.float32)
    lora = getattr(config.model, "lora", None)
    if lora is None or not lora.rank:
        return model
    adapters = adapter_settings(model, lora)
    from peft import get_peft_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # all runs begin with the same adapters, as the built-in trainer's do
        return get_peft_model(model, adapters)


def _schedule(config: RunConfig, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
    """Our learning rate, which changes with rollout steps; the scheduler counts updates."""
    updates, peak = updates_per_step(config), config.optimizer.learning_rate or 1.0
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda update: learning_rate(config, update // updates + 1) / peak
    )


def updates_per_step(config: RunConfig) -> int:
    return config.algorithm.updates_per_step * config.algorithm.epochs_per_step


def _dataset(parts: TaskParts) -> Dataset:
    """The prompts of all steps in the order in which the curriculum draws them; TRL walks through them once.

    With dynamic sampling the rows only count steps: the rounds are drawn as they come.
    """
    algorithm, steps = parts.config.algorithm, parts.config.training.steps
    texts, _ = prompt_texts(parts.tokenizer, load_benchmark(parts.config.task))
    if algorithm.dead_groups.policy != "keep":
        problems = np.zeros(steps * algorithm.prompts_per_step, dtype=np.int64)
    else:
        problems = np.concatenate([parts.curriculum.draw(algorithm.prompts_per_step) for _ in range(steps)])
    rows = problems.tolist()
    return Dataset.from_dict({"prompt": [texts[i] for i in rows], "problem": rows})


def sample(trainer: Any, rows: int, prompts: list[list[int]]) -> list[list[int]]:
    """One response to each prompt, at most so many `rows` decoded together, with the settings of the trainer's own sampling."""
    return [ids for start in range(0, len(prompts), rows) for ids in _decode(trainer, prompts[start : start + rows])]


def _decode(trainer: Any, prompts: list[list[int]]) -> list[list[int]]:
    """One response to each prompt by one call of transformers' `generate`."""
    longest, pad = max(map(len, prompts)), trainer.generation_config.pad_token_id
    ids = torch.tensor([[pad] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    device, accelerator = trainer.accelerator.device, trainer.accelerator
    context = unwrap_model_for_generation(
        trainer.model_wrapped, accelerator, generation_kwargs=trainer.generation_kwargs
    )
    with context as model, torch.no_grad():
        whole = model.generate(
            input_ids=ids.to(device), attention_mask=mask.to(device), generation_config=trainer.generation_config
        )
    stops = set(trainer.eos_token_ids)
    return [_truncate_response(row, stops) for row in whole[:, longest:].tolist()]


def _truncate_response(tokens: list[int], stops: set[int]) -> list[int]:
    """The tokens up to the first that ends a response, that one included."""
    end = next((place for place, token in enumerate(tokens) if token in stops), len(tokens) - 1)
    return tokens[: end + 1]


class Recorder(TrainerCallback):  # type: ignore[misc]
    """Writes a row of the store for every rollout step, evaluates, and tells Trainer when to save and when to stop.

    On several ranks each has one: all decide alike, and rank 0 writes.
    """

    def __init__(
        self,
        parts: TaskParts,
        rollouts: Rollouts,
        attempt: int,
        evaluate: Callable[[int, bool, Any], object],
        publish: Callable[[int, Path], None],
        stop: Callable[[], bool],
    ) -> None:
        self.parts, self.rollouts, self.attempt = parts, rollouts, attempt
        self.evaluate, self.publish, self.stop = evaluate, publish, stop
        self.updates = updates_per_step(parts.config)
        self.tokens = int((parts.run.last_step() or {}).get("generated_tokens_total") or 0)
        self.ended = False  # a budget is spent
        self._logs: list[dict[str, float]] = []
        self._step_start = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """An update begins: with the first of a rollout step its clock."""
        if state.global_step % self.updates == 0:
            self._step_start, self._logs = time.perf_counter(), []
            self.rollouts.begin(state.global_step // self.updates + 1)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """An update has ended: after the last of a rollout step save and stop where it is due."""
        step, remainder = divmod(state.global_step, self.updates)
        if remainder:
            return
        runtime, selection = self.parts.config.runtime, self.rollouts.selection
        assert selection is not None
        self._trained_at = time.perf_counter()
        self.tokens += selection.generated_tokens
        self.ended = self.parts.config.training.is_spent(step, self.tokens)
        stopping = self.rollouts.ranks.any(self.stop()) and not self.ended
        control.should_training_stop = control.should_training_stop or stopping or self.ended
        control.should_save = not self.ended and (stopping or step % runtime.checkpoint_every == 0)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], model: Any = None, **_: Any) -> None:
        """Take an update's metrics; after the last of a rollout step evaluate and write its row. Raises `NumericalFault`."""
        if "grad_norm" not in logs:  # the summary of the whole training
            return
        step, remainder = divmod(state.global_step, self.updates)
        if not math.isfinite(logs["grad_norm"]):
            text = f"step {step + bool(remainder)}: the gradient norm is {logs['grad_norm']}; lower optimizer.learning_rate"
            raise NumericalFault(text, {})
        self._logs.append(dict(logs))
        if remainder:
            return
        evaluation_start = time.perf_counter()
        if self.ended or step % self.parts.config.training.evaluate_every == 0:
            self.evaluate(step, self.ended, model)
        end, tallies = time.perf_counter(), self.rollouts.ranks.gather(self.rollouts.tally)
        if self.rollouts.ranks.first:
            self.parts.run.append_step(self._row(step, tallies, end - evaluation_start, end - self._step_start))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        self.publish(state.global_step // self.updates, folder)

    def _row(self, step: int, tallies: list[Tally], seconds_evaluate: float, seconds_total: float) -> dict[str, Any]:
        rollouts, config = self.rollouts, self.parts.config
        selection, tally = rollouts.selection, rollouts.tally
        assert selection is not None
        names = load_table("trl").log["metrics"]
        log_means = {
            ours: self._mean(theirs) for theirs, ours in names.items() if any(theirs in each for each in self._logs)
        }
        shares, gradient_groups = rollouts.shares()
        rate, limit = learning_rate(config, step), config.optimizer.max_gradient_norm
        clipped = [each["grad_norm"] + 1e-6 > limit for each in self._logs]
        return {
            "step": step,
            "updates": step * self.updates,
            "attempt": self.attempt,
            **log_means,
            **rollout_row(selection),
            # Of the policy in every update, not of the one that sampled.
            "entropy_nats": log_means.get("entropy_nats", _NAN),
            "generated_tokens_total": self.tokens,
            **verdicts_row(tallies, config),
            "gradient_clipped_fraction": sum(clipped) / len(clipped),
            "gradient_groups": gradient_groups,
            **shares.row(),
            **groups_row(selection, config),
            "learning_rate": rate,
            "seconds_rollout": rollouts.graded_at - self._step_start - tally.seconds_verify,
            "seconds_verify": tally.seconds_verify,
            "seconds_train": self._trained_at - rollouts.graded_at,
            "seconds_sync": 0.0,
            "seconds_evaluate": seconds_evaluate,
            "seconds_total": seconds_total,
        }

    def _mean(self, name: str) -> float:
        """The mean of a metric of TRL's over the step's updates."""
        return average(np.array([each[name] for each in self._logs if each.get(name) is not None]))
