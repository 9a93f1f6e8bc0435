"""Checkpoints on benchmarks: sampled once, never sampled twice.

The samples of a checkpoint under a protocol lie in `<results>/evaluations/samples/<key>/` as immutable parts; the key hashes the
weights, the benchmark's content, the sampling settings, the verifier's rules and the engine. The number of samples is no part of it:
sample j of a problem has a seed of its own, so asking for 32 where 8 exist makes 24. An interrupted evaluation goes on from its parts.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.configuration.error import ConfigError
from harness.configuration.identity import canonical_json, content_hash
from harness.configuration.schema import RunConfig, dump
from harness.configuration.sections import EvaluationConfig
from harness.evaluation.evaluate import Sampler, SampleRows, evaluation_seeds, graded_table, sampler_of, sampling_params
from harness.evaluation.metrics.names import Equivalence
from harness.evaluation.named_models import Model
from harness.evaluation.result import code_samples, graders_of, require_ks, result_of
from harness.evaluation.stored import ABOUT, write_problems
from harness.model.checkpoint import blame_folder, tensor_without_numbers
from harness.problems.problem import Benchmark, Problem, deduplicate, load_benchmark
from harness.reward.shaping import Grader
from harness.rollout.types import prompt_tokens
from harness.store import ResultStore, lease, seal
from harness.store.atomic import write_file
from harness.store.layout import PROBLEMS, WARNING, part_paths
from harness.store.samples import read_parts, write_part

LENGTH = "response_tokens"
_ROWS_PER_PART = 512
_COLUMNS = (
    "problem_id", "sample_index", "max_response_tokens", "correct", "answer", "verdict", "finish_reason", LENGTH,
    "second_correct",
)  # fmt: skip

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Cell:
    """One checkpoint on one benchmark, and the folder of its samples."""

    model: Model
    name: str
    benchmark: Benchmark
    directory: Path


def evaluate_models(
    models: Sequence[Model],
    config: RunConfig,
    store: ResultStore,
    linear_kernel: str,
    ks: Sequence[int] | None,
    progress: Callable[[str], Progress],
    limit: int | None = None,
) -> dict[str, Any]:
    """Sample what is missing, grade it, and summarise every model on every benchmark and cap.

    `ks` of Pass@k and Maj@k are powers of two where None; `limit` draws so many problems of each benchmark. Raises `ConfigError` where a
    prompt and its tokens exceed a model's positions, data is missing or a k is above the samples, `RunClaimed` where another process
    samples the same cell.
    """
    require_ks(ks or (), config.evaluation.samples_per_problem)  # before hours of sampling
    benchmarks = {name: _load_problems(item, limit) for name, item in config.evaluation.benchmarks.items()}
    longest = max(len(problem.prompt) for item in benchmarks.values() for problem in item.problems)
    budget = max(config.evaluation.caps) + longest
    grader = Grader(config.verifier, config.runtime)
    fingerprint = grader.verifier.fingerprint()
    cells: list[dict[str, Any]] = []
    try:
        for model in models:
            sampler = sampler_of(model, config, linear_kernel, budget)
            for name, benchmark in benchmarks.items():
                cell = _cell(model, name, benchmark, config, store, sampler, fingerprint)
                sample_missing(cell, config.evaluation, sampler, grader, progress(f"{model.name} on {name}"))
                for cap in sorted(set(config.evaluation.caps)):
                    frame = cell_samples(cell, config.evaluation.samples_per_problem, cap)
                    summary = _summary(cell, cap, frame, grader.verifier.equivalent_many, ks)
                    place = str(cell.directory.relative_to(store.root))
                    cells.append({**summary, "samples": place, "settings": sampler.settings})
            sampler.close()
            del sampler  # its weights, before the next model's are read
            gc.collect()  # engines around engines are cycles
    finally:
        grader.close()
    evaluation = dump(config.evaluation)
    protocol = {"evaluation": evaluation, "verifier": asdict(config.verifier), "fingerprint": fingerprint}
    sources = [[cell["fingerprint"], cell["samples"]] for cell in cells]  # a path by settings and problems
    return {
        "id": content_hash(sources, protocol, [list(ks)] if ks else None),
        "protocol": protocol,
        "models": [model.name for model in models],
        "cells": cells,
    }


def _summary(
    cell: Cell, cap: int, frame: pd.DataFrame, equivalent: Equivalence, ks: Sequence[int] | None
) -> dict[str, Any]:
    """Return what is reported of one model on one benchmark at one cap."""
    return {
        "model": cell.model.name,
        "fingerprint": cell.model.fingerprint,
        "benchmark": cell.name,
        "cap": cap,
        "benchmark_version": cell.benchmark.version,
        **result_of(code_samples(frame, LENGTH, equivalent), ks, LENGTH),
        "graders": graders_of(frame),
    }


def _load_problems(config: Any, limit: int | None) -> Benchmark:
    benchmark = load_benchmark(config)
    for line in deduplicate(benchmark.problems)[1].lines():
        message = f"{line}; copies count as problems, so its intervals are too narrow"
        print(f"{WARNING}{benchmark.name}: {message}", file=sys.stderr)
    if limit is None or len(benchmark.problems) <= limit:
        return benchmark
    # Drawn: kinds of problems may come in turn.
    indices = np.random.default_rng(0).choice(len(benchmark.problems), limit, replace=False)
    return replace(benchmark, problems=[benchmark.problems[i] for i in sorted(indices)])


def _cell(
    model: Model,
    name: str,
    benchmark: Benchmark,
    config: RunConfig,
    store: ResultStore,
    sampler: Sampler,
    verifier: Any,
) -> Cell:
    """The place of a cell's samples; what its name hashes is written beside them."""
    protocol = config.evaluation
    system = [benchmark.system] if benchmark.system else []
    content = content_hash(benchmark.chat, [[p.id, p.prompt, p.gold] for p in benchmark.problems], *system)
    about = {
        "model": model.fingerprint,
        "benchmark": {"name": name, "version": benchmark.version, "content": content},
        "temperature": protocol.temperature,
        "top_p": protocol.top_p,
        "caps": sorted(set(protocol.caps)),
        "seed": protocol.seed,
        "stop_token_ids": list(sampler.stop_token_ids),
        # Verdicts lie beside the samples, and another verifier may give others.
        "verifier": [asdict(config.verifier), verifier],
        **({"stop_strings": protocol.stop_strings} if protocol.stop_strings else {}),
        **sampler.settings,
    }
    directory = store.root / "evaluations" / "samples" / content_hash(about)
    description = {**about, "names": [model.name]}
    if not (directory / ABOUT).exists():
        write_file(directory / ABOUT, canonical_json(description).encode() + b"\n")
    return Cell(model, name, benchmark, directory)


def sample_missing(
    cell: Cell, protocol: EvaluationConfig, sampler: Sampler, grader: Grader, progress: Progress
) -> None:
    """Make the samples of a cell that do not exist yet, one published part at a time."""
    samples = protocol.samples_per_problem
    total = samples * len(cell.benchmark.problems)
    with lease.acquire(cell.directory / "claim.lock"):
        entries = seal.drop_broken(cell.directory, ABOUT)
        write_problems(cell.directory / PROBLEMS, cell.benchmark)
        stored_indices = _stored_indices(cell.directory)
        count = sum(min(len(indices & set(range(samples))), samples) for indices in stored_indices.values())
        progress(count, total)
        if count == total:
            return
        with blame_folder(cell.model.folder):
            prompts = prompt_tokens(sampler.tokenizer, cell.benchmark)
        _require_positions(prompts, max(protocol.caps), sampler, cell)
        seeds_PG = evaluation_seeds(protocol.seed, cell.name, cell.benchmark, samples)
        params = sampling_params(protocol, sampler.stop_token_ids)
        metadata = {"benchmark": cell.name, "benchmark_version": str(cell.benchmark.version)}
        part = max((int(path.stem.rpartition("-")[2]) + 1 for path in part_paths(cell.directory)), default=0)
        for rows_P, index_G in _missing_blocks(cell.benchmark.problems, stored_indices, samples):
            rows = SampleRows([cell.benchmark.problems[i] for i in rows_P], index_G, seeds_PG[np.ix_(rows_P, index_G)])
            with _blame_weights(cell.model.folder):
                completions = sampler.engine.generate([prompts[i] for i in rows_P], rows.seeds_PG, params)
            table = graded_table(rows, completions, protocol.caps, sampler.tokenizer, grader)
            path = cell.directory / f"part-{part:06d}.parquet"
            write_part(path, table, metadata)
            files = (path, cell.directory / ABOUT, cell.directory / PROBLEMS)
            entries |= seal.seal_of({each.name: each for each in files})
            seal.write_seal(cell.directory, entries)
            part += 1
            count += len(rows_P) * len(index_G)
            progress(count, total)


@contextmanager
def _blame_weights(folder: Path) -> Iterator[None]:
    """Say of a sampling error whether weights that are no numbers made it. Raises `ConfigError` then."""
    try:
        yield
    except (IndexError, RuntimeError) as error:
        if (name := tensor_without_numbers(folder)) is not None:
            raise ConfigError(f"{folder} cannot be sampled: {name} holds values that are no numbers") from error
        raise


def _stored_indices(directory: Path) -> dict[str, set[int]]:
    """Problem id → sample numbers that are there."""
    if not part_paths(directory):
        return {}
    frame = read_parts(directory, ["problem_id", "sample_index"]).to_pandas()
    return frame.groupby("problem_id")["sample_index"].agg(set).to_dict()


def _missing_blocks(
    problems: Sequence[Problem], stored_indices: Mapping[str, set[int]], samples: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rectangles of (problems, sample numbers) still to make, each at most a part.

    Parts begin at fixed problems whatever exists, so a resumed evaluation makes the batches that an uninterrupted one makes.
    """
    per_part = max(1, _ROWS_PER_PART // samples)
    for start in range(0, len(problems), per_part):
        groups: dict[tuple[int, ...], list[int]] = {}
        for i in range(start, min(start + per_part, len(problems))):
            missing = tuple(sorted(set(range(samples)) - stored_indices.get(problems[i].id, set())))
            if missing:
                groups.setdefault(missing, []).append(i)
        for missing, rows in groups.items():
            yield np.array(rows), np.array(missing)


def _require_positions(prompts: Sequence[Sequence[int]], cap: int, sampler: Sampler, cell: Cell) -> None:
    longest = max(map(len, prompts))
    if sampler.positions is not None and longest + cap > sampler.positions:
        most = f"evaluation.caps=[{sampler.positions - longest}]"
        raise ConfigError(f"{cell.model.name} has {sampler.positions} positions, prompts {longest} tokens: set {most}")


def cell_samples(cell: Cell, samples: int, cap: int) -> pd.DataFrame:
    """Return the first `samples` samples of every problem at one cap, in the benchmark's order."""
    frame = read_parts(cell.directory, _COLUMNS).to_pandas()
    frame = frame[(frame["sample_index"] < samples) & (frame["max_response_tokens"] == cap)]
    order = {problem.id: i for i, problem in enumerate(cell.benchmark.problems)}
    place = frame["problem_id"].map(order)
    return frame.assign(place=place).sort_values(["place", "sample_index"], ignore_index=True)
