"""Evaluation of a policy on fixed problems with fixed sampling seeds; every sample is kept.

One request per sample at the largest cap yields every smaller cap exactly: sampling is causal and its noise belongs to (problem,
sample, position), so a smaller cap only cuts.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from harness.configuration.registry import ENGINE, implementation, member
from harness.configuration.schema import RunConfig
from harness.configuration.sections import EvaluationConfig
from harness.evaluation.named_models import Model
from harness.evaluation.stored import write_problems
from harness.model.checkpoint import architecture_of, blame_folder, load_tokenizer, weight_files
from harness.model.decoder import Shape, UnsupportedArchitectureError
from harness.model.ranks import ALONE, Ranks
from harness.problems.problem import Benchmark, Problem, load_benchmark
from harness.reward.shaping import Grader
from harness.rollout.noise import key, sample_seeds
from harness.rollout.types import Completions, RolloutEngine, SamplingParams, Watch, prompt_tokens, stop_tokens
from harness.store import RunDir
from harness.store.atomic import publish_file
from harness.store.layout import problems_file
from harness.store.samples import SAMPLES


class Evaluator:
    """Evaluates the engine's current weights on the configured benchmarks and stores the graded samples.

    `shared_folder` is for the evaluation before RL, named by everything it depends on: runs that start from the same policy under
    the same protocol have the same samples at step 0, so these are made once and copied.
    """

    def __init__(
        self,
        config: RunConfig,
        run: RunDir,
        engine: RolloutEngine,
        tokenizer: Any,
        grader: Grader,
        stop_token_ids: tuple[int, ...],
        shared_folder: Path | None = None,
        ranks: Ranks = ALONE,
        watch: Watch | None = None,
    ) -> None:
        self.protocol, self.run, self.engine, self.ranks = config.evaluation, run, engine, ranks
        self.tokenizer, self.grader, self.shared_folder = tokenizer, grader, shared_folder
        self.params = dataclasses.replace(sampling_params(self.protocol, stop_token_ids), watch=watch)
        self.benchmarks = {name: load_benchmark(item) for name, item in self.protocol.benchmarks.items()}
        self.prompts = {name: prompt_tokens(tokenizer, benchmark) for name, benchmark in self.benchmarks.items()}

    def evaluate(self, step: int, *, last: bool = True) -> dict[str, float]:
        """Sample, grade and store all benchmarks; a benchmark that already has samples of this step is skipped.

        Between step 0 and the `last` one, `evaluation.samples_between` says how many samples a problem gets. Returns the share of right
        answers by benchmark, on rank 0 and of what was stored now.
        """
        right: dict[str, float] = {}
        samples = self.protocol.samples_per_problem
        if step and not last:
            samples = min(samples, self.protocol.samples_between or samples)
        for name, benchmark in self.benchmarks.items():
            # Rank 0 looks and writes; the others only sample their share.
            if self.ranks.from_first(step in self.run.sample_steps(name)):
                continue
            shared_file = self.shared_folder / f"{name}.parquet" if self.shared_folder and step == 0 else None
            if shared_file is not None and self.ranks.from_first(shared_file.exists()):
                table = pq.read_table(shared_file) if self.ranks.first else None
            else:
                table = self._sample(name, benchmark, samples)
                if shared_file is not None and self.ranks.first:
                    shared_file.parent.mkdir(parents=True, exist_ok=True)
                    publish_file(shared_file, functools.partial(pq.write_table, table, compression="zstd"))
            if self.ranks.first and table is not None:
                write_problems(problems_file(self.run.path, name), benchmark)
                self.run.write_samples(name, benchmark.version, step, table)
                right[name] = float(np.mean(table["correct"].to_numpy()))
        return right

    def _sample(self, name: str, benchmark: Benchmark, samples: int) -> pa.Table:
        """Sample and grade one benchmark with the current weights: one row per cap and sample, caps ascending."""
        seeds = evaluation_seeds(self.protocol.seed, name, benchmark, samples)
        tables = []
        own_rows = self.ranks.share(len(benchmark.problems))
        if len(seeds[own_rows]):
            completions = self.engine.generate(self.prompts[name][own_rows], seeds[own_rows], self.params)
            rows = SampleRows(benchmark.problems[own_rows], np.arange(seeds.shape[1]), seeds[own_rows])
            tables = [graded_table(rows, completions, self.protocol.caps, self.tokenizer, self.grader)]
        if self.ranks.world == 1:
            return tables[0]
        table = pa.concat_tables(part for parts in self.ranks.gather(tables) for part in parts)
        caps = table["max_response_tokens"].to_numpy()
        return table.take(np.argsort(caps, kind="stable"))


def sampling_params(protocol: EvaluationConfig, stop_token_ids: tuple[int, ...]) -> SamplingParams:
    """Return the request that a protocol makes of an engine: one at its largest cap."""
    return SamplingParams(
        max_response_tokens=max(protocol.caps),
        temperature=protocol.temperature,
        top_p=protocol.top_p,
        stop_token_ids=stop_token_ids,
        stop_strings=tuple(protocol.stop_strings),
    )


@dataclass(frozen=True)
class SampleRows:
    """The samples that a batch of completions holds: problems, the sample numbers of each, and their seeds [P, G]."""

    problems: Sequence[Problem]
    index_G: np.ndarray
    seeds_PG: np.ndarray


def graded_table(
    rows: SampleRows, completions: Completions, caps: Sequence[int], tokenizer: Any, grader: Grader
) -> pa.Table:
    """Grade completions under every cap: one row per cap and sample, with the store's columns."""
    tables = (_table(rows, completions.prefix(cap), cap, tokenizer, grader) for cap in sorted(set(caps)))
    return pa.concat_tables(tables)


def _table(rows: SampleRows, completions: Completions, cap: int, tokenizer: Any, grader: Grader) -> pa.Table:
    samples = len(rows.index_G)
    sequences = [tuple(tokens) for tokens in completions.token_lists()]
    distinct = list(dict.fromkeys(sequences))  # samples of one problem are often equal
    text_of = dict(zip(distinct, tokenizer.batch_decode(distinct, skip_special_tokens=True), strict=True))
    texts = [text_of[tokens] for tokens in sequences]
    problems = [problem for problem in rows.problems for _ in range(samples)]
    golds = [problem.gold for problem in problems]
    verdicts = grader.grade(texts, golds, [p.prompt for p in problems], (~completions.finished_R).tolist()).verdicts
    return pa.table(
        {
            "problem_id": [problem.id for problem in problems],
            "sample_index": np.tile(rows.index_G.astype(np.int32), len(rows.problems)),
            "sampling_seed": rows.seeds_PG.reshape(-1),
            "max_response_tokens": np.full(len(texts), cap, dtype=np.int32),
            "response_tokens": completions.lengths_R.numpy().astype(np.int32),
            "finish_reason": ["stop" if finished else "length" for finished in completions.finished_R.tolist()],
            "answer": [verdict.answer for verdict in verdicts],
            "correct": [verdict.correct for verdict in verdicts],
            "verdict": [verdict.verdict for verdict in verdicts],
            "method": [verdict.method for verdict in verdicts],
            "entropy_sum_nats": _per_response(completions.entropy_N, completions),
            "log_prob_sum": _per_response(completions.log_probs_N, completions),
            "response": texts,
            "second_correct": grader.second(texts, golds),
        },
        schema=SAMPLES,
    )


def evaluation_seeds(seed: int, name: str, benchmark: Benchmark, samples: int) -> np.ndarray:
    """Return one 64-bit seed a (problem, sample): the same for every run and step, so that arms are evaluated with the same noise."""
    keys = [int(key("problem", problem.id)) for problem in benchmark.problems]
    return sample_seeds(key("evaluation", seed, name), np.array(keys, dtype=np.uint64), samples)


def _per_response(values_N: torch.Tensor, completions: Completions) -> np.ndarray:
    response_N = torch.arange(len(completions.lengths_R)).repeat_interleave(completions.lengths_R)
    sums = torch.zeros(len(completions.lengths_R), dtype=torch.float64)
    return sums.index_add_(0, response_N, values_N.double()).float().numpy()


# Of what the weights leave, for keys and values: the rest is for activations and others.
_MEMORY_SHARE = {"cuda": 0.5, "cpu": 0.25}


@dataclass
class Sampler:
    """Engine and settings of a checkpoint; `open` reads the weights when `engine` is first used.

    `positions`: longest prompt and response together, in tokens. `settings`: what the samples depend on besides weights and protocol.
    """

    open: Callable[[], RolloutEngine]
    tokenizer: Any
    stop_token_ids: tuple[int, ...]
    positions: int | None
    settings: dict[str, Any]

    @functools.cached_property
    def engine(self) -> RolloutEngine:
        """The engine, loaded once."""
        return self.open()

    def close(self) -> None:
        """End the engine, if it was ever loaded."""
        if "engine" in self.__dict__:
            self.engine.close()


def sampler_of(model: Model, config: RunConfig, linear_kernel: str, longest: int) -> Sampler:
    """Return the configured engine for a checkpoint; the transformers engine where the native one lacks its architecture.

    `longest`: prompt and response together, in tokens; it bounds the rows that fit into memory.
    """
    engine, runtime, tokenizer = config.engine, config.runtime, load_tokenizer(model.folder)
    device = runtime.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    # A GPU computes in bfloat16 what a CPU computes in float32: the usual types of inference on each.
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    architecture = architecture_of(model.folder)
    positions = getattr(architecture, "max_position_embeddings", None)
    settings = {"engine": engine.kind, "device": device, "dtype": str(dtype).removeprefix("torch.")}
    if engine.kind == "native":
        try:
            shape = Shape.from_config(architecture)
        except UnsupportedArchitectureError:
            engine = member(ENGINE, "transformers").Config()
            settings["engine"] = "transformers"
        else:
            with blame_folder(model.folder):
                fit = _rows_that_fit(shape, longest, dtype, device, model.folder)
            runtime = dataclasses.replace(runtime, rollout_rows=min(runtime.rollout_rows, fit))
            settings["linear_kernel"] = linear_kernel

    def open_engine() -> RolloutEngine:
        open_folder, place = implementation(ENGINE, engine).open_folder, (runtime, device, dtype, linear_kernel)
        opened: RolloutEngine = open_folder(engine, model.folder, *place)
        return opened.with_stops(tokenizer)

    with blame_folder(model.folder):
        return Sampler(open_engine, tokenizer, stop_tokens(tokenizer, model.folder), positions, settings)


def _rows_that_fit(shape: Shape, positions: int, dtype: torch.dtype, device: str, folder: Path) -> int:
    """Responses whose keys and values fit beside the weights, by the memory the machine has.

    Not by what is free at the moment: batches of another size may round otherwise, and load must not change a sample.
    """
    host_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    total_bytes = torch.cuda.mem_get_info()[1] if device == "cuda" else host_bytes
    weights = sum(path.stat().st_size for path in weight_files(folder))
    row = 2 * shape.layers * shape.kv_heads * shape.head_size * positions * dtype.itemsize
    return max(1, int(_MEMORY_SHARE[device] * (total_bytes - weights)) // row)
