"""One run from configuration to finished store entry, with verl as the trainer and our evaluation before and after.

verl reads problems as parquet rows whose prompts already carry our template, so that its tokenizer yields our token ids.
"""

import gc
import shutil
import signal
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from harness.backends.verl.metrics import MetricsImport, export, remove_old
from harness.backends.verl.overrides import FILE_LOGGER, TRAIN_FILE, Place, data_folder, overrides, refusals
from harness.backends.verl.process import LOG, VerlFailed, absent_programs, check, environment, interpreter
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.model.checkpoint import load_tokenizer
from harness.model.ranks import ALONE
from harness.problems.problem import load_benchmark
from harness.reward.shaping import Grader
from harness.rollout.types import prompt_texts, stop_tokens
from harness.store import RunDir
from harness.store.atomic import publish_file
from harness.store.layout import TRAINING, attempt_dir
from harness.store.run import verl_step
from harness.training.attempt import base_policy
from harness.training.checkpoints import POLICY
from harness.training.opening import open_folder
from harness.training.task import TaskParts
from harness.training.torchrun import Child

_POLL_SECONDS = 1.0


def train_run(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """See `harness.backends`. Raises `VerlFailed` where verl's process ended with an error."""
    if reasons := refusals(config):
        raise ConfigError("backend=verl cannot express this run: " + "; ".join(reasons))
    if reasons := absent_programs(config):
        raise ConfigError("; ".join(reasons))
    python = interpreter(config.runtime.verl)
    torch.set_num_threads(config.runtime.threads)
    cache = (run.path.parent.parent / "cache").resolve()
    kernel, folder = base_policy(config, run, attempt)
    initial = folder.resolve()
    with closing(Grader(config.verifier, config.runtime)) as grader:
        evaluate = partial(_evaluate, TaskParts(config, run, initial, kernel, grader, ALONE))
        evaluate(initial, 0)
        steps = config.training.steps
        if not steps:
            return True
        policy = next((path / POLICY for step, path in run.checkpoints() if step == steps), None)
        if policy is None:
            run.say_phase(attempt, TRAINING)
            place = prepare(config, run, initial, cache, attempt)
            if stop() or not _train(config, run, place, python, stop):
                return False
            policy = export(python, run, place, steps, _log(run, attempt))
        evaluate(policy, steps)
    shutil.rmtree(run.path / "verl" / "checkpoints", ignore_errors=True)  # only a resume needs them
    return True


def prepare(config: RunConfig, run: RunDir, initial: Path, cache: Path, attempt: int) -> Place:
    tokenizer = load_tokenizer(initial)
    data = data_folder(config, cache, initial)
    longest = write_data(config, tokenizer, data / TRAIN_FILE)
    return Place(run.path.resolve(), data, initial, longest, stop_tokens(tokenizer, initial), attempt)


def _train(config: RunConfig, run: RunDir, place: Place, python: str, stop: Callable[[], bool]) -> bool:
    """Run verl to its last step; False if it was stopped (it resumes at its newest checkpoint)."""
    place.folder.mkdir(exist_ok=True)
    start_step = verl_step(place.checkpoints)
    if start_step >= config.training.steps:
        return True
    remove_old(place.checkpoints)
    run.rewind(start_step)  # what lies beyond the checkpoint is of a policy that is gone
    metrics = MetricsImport(config, run, place, start_step)
    variables = {**environment(python), FILE_LOGGER: str(place.metrics)}
    # Without an address Ray would join whatever cluster it finds on this machine.
    variables["RAY_ADDRESS"] = config.runtime.verl.ray_address or "local"
    command = [python, "-m", "verl.trainer.main_ppo", *overrides(config, place)]
    log = _log(run, place.attempt)
    # It is asked to end when this process ends, so that it can end its own processes.
    child = Child(command, variables, log, death=signal.SIGTERM)
    try:
        while child.wait(_POLL_SECONDS) and not stop():
            metrics.update()
        stopped = child.code is None
    finally:
        child.stop()
        metrics.finish()
    if stopped:
        return False
    check(child, log)
    last_step = verl_step(place.checkpoints)
    if last_step < config.training.steps:
        raise VerlFailed(f"verl ended without an error at step {last_step} of {config.training.steps}; see {log}")
    return True


def _evaluate(parts: TaskParts, folder: Path, step: int) -> None:
    """Evaluate a checkpoint folder as the built-in trainer evaluates its policy; what this step has already is left as it is."""
    if all(step in parts.run.sample_steps(name) for name in parts.config.evaluation.benchmarks):
        return
    with closing(open_folder(parts.config, folder, parts.linear_kernel, parts.tokenizer)) as engine:
        parts.evaluator_of(engine).evaluate(step)
    del engine
    gc.collect()
    torch.cuda.empty_cache()  # verl needs the memory


def _log(run: RunDir, attempt: int) -> Path:
    folder = attempt_dir(run.path, attempt)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / LOG


SCHEMA = pa.schema(
    {
        "data_source": pa.string(),
        "prompt": pa.list_(pa.struct({"role": pa.string(), "content": pa.string()})),
        "reward_model": pa.struct({"style": pa.string(), "ground_truth": pa.string()}),
        "extra_info": pa.struct({"index": pa.int64(), "problem": pa.string()}),
    }
)


def write_data(config: RunConfig, tokenizer: Any, train_file: Path) -> int:
    """Write the training problems; returns the tokens of the longest prompt. Raises `ConfigError`: too few, or no texts."""
    task, prompts = load_benchmark(config.task), config.algorithm.prompts_per_step
    if len(task.problems) < prompts:
        raise ConfigError(f"algorithm.prompts_per_step={prompts} is more than {len(task.problems)} training problems")
    texts, longest = prompt_texts(tokenizer, task, add_special_tokens=False)
    rows = [
        {
            "data_source": "train",
            "prompt": [{"role": "user", "content": text}],
            "reward_model": {"style": "rule", "ground_truth": problem.gold},
            "extra_info": {"index": index, "problem": problem.prompt},
        }
        for index, (problem, text) in enumerate(zip(task.problems, texts, strict=True))
    ]
    publish_file(train_file, partial(pq.write_table, pa.Table.from_pylist(rows, schema=SCHEMA)))
    return longest
