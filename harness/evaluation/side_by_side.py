"""Evaluation of checkpoints side by side: sampled once, never sampled twice, and compared problem by problem.

The samples of a checkpoint under a protocol lie in `<results>/evaluations/samples/<key>/` as immutable parts; the key hashes the
weights, the benchmark's content, the sampling settings, the verifier's rules and the engine. The number of samples is no part of it:
sample j of a problem has a seed of its own, so asking for 32 where 8 exist makes 24. An interrupted evaluation goes on from its parts.

In a comparison a problem is the unit: its samples are averaged first, so that they count as one cluster, and the interval is Student's t
over the differences of problems (Miller 2024, arXiv:2411.00640). Where both sides have several training runs it is over runs and
problems (`harness.statistics.intervals.two_way_difference`).
"""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.configuration.error import ConfigError
from harness.configuration.identity import canonical_json, content_hash
from harness.configuration.schema import RunConfig, dump
from harness.configuration.sections import EvaluationConfig, base_policy_count
from harness.evaluation.counts import (
    AVG,
    TOKENS,
    ByDifficulty,
    Counts,
    KBand,
    PointCost,
    by_difficulty,
    difference_of,
    k_band,
    mean_rows,
    point_cost,
)
from harness.evaluation.evaluate import Sampler, SampleRows, evaluation_seeds, graded_table, sampler_of, sampling_params
from harness.evaluation.metrics.names import Equivalence, UnevenSamples, default_ks, reduce_samples
from harness.evaluation.named_models import Model
from harness.evaluation.protocol import run_config
from harness.evaluation.recorded import ABOUT, graded_frame, read_recorded, stored_samples
from harness.evaluation.result import code_samples, graders_of, require_ks, result_of
from harness.problems.problem import Benchmark, Problem, Record, deduplicate, load_benchmark, normalise
from harness.reward.shaping import Grader
from harness.rollout.types import prompt_tokens
from harness.statistics.intervals import Estimate, comparison_level, mean_interval, replicate_of
from harness.store import ResultStore, StoreError, lease, seal
from harness.store.atomic import write_file
from harness.store.layout import MANIFEST, RUN_ID, WARNING, part_paths
from harness.store.samples import read_parts, write_part
from harness.verify import MathVerifier

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
    """Sample what is missing, grade it, and summarise every model on every benchmark and cap; differences are to the first model.

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
    frames: dict[tuple[str, str, int], pd.DataFrame] = {}
    try:
        for model in models:
            sampler = sampler_of(model, config, linear_kernel, budget)
            for name, benchmark in benchmarks.items():
                cell = _cell(model, name, benchmark, config, store, sampler, fingerprint)
                sample_missing(cell, config.evaluation, sampler, grader, progress(f"{model.name} on {name}"))
                for cap in sorted(set(config.evaluation.caps)):
                    frame = cell_samples(cell, config.evaluation.samples_per_problem, cap)
                    frames[model.name, name, cap] = frame
                    summary = _summary(cell, cap, frame, grader.verifier.equivalent_many, ks)
                    place = str(cell.directory.relative_to(store.root))
                    cells.append({**summary, "samples": place, "settings": sampler.settings})
            sampler.close()
            del sampler  # its weights, before the next model's are read
            gc.collect()  # engines around engines are cycles
    finally:
        grader.close()
    _add_differences(cells, frames)
    evaluation = dump(config.evaluation)
    protocol = {"evaluation": evaluation, "verifier": asdict(config.verifier), "fingerprint": fingerprint}
    sources = [[cell["fingerprint"], cell["settings"]] for cell in cells]
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
    rows = (Record(problem.id, problem.prompt, problem.gold) for problem in benchmark.problems)
    for line in deduplicate(rows)[1].lines():
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
    description = {**about, "names": [model.name], "benchmark_config": asdict(protocol.benchmarks[name])}
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
        stored_indices = _stored_indices(cell.directory)
        count = sum(min(len(indices & set(range(samples))), samples) for indices in stored_indices.values())
        progress(count, total)
        if count == total:
            return
        prompts = prompt_tokens(sampler.tokenizer, cell.benchmark)
        _require_positions(prompts, max(protocol.caps), sampler, cell)
        seeds_PG = evaluation_seeds(protocol.seed, cell.name, cell.benchmark, samples)
        params = sampling_params(protocol, sampler.stop_token_ids)
        metadata = {"benchmark": cell.name, "benchmark_version": str(cell.benchmark.version)}
        part = max((int(path.stem.rpartition("-")[2]) + 1 for path in part_paths(cell.directory)), default=0)
        for rows_P, index_G in _missing_blocks(cell.benchmark.problems, stored_indices, samples):
            rows = SampleRows([cell.benchmark.problems[i] for i in rows_P], index_G, seeds_PG[np.ix_(rows_P, index_G)])
            completions = sampler.engine.generate([prompts[i] for i in rows_P], rows.seeds_PG, params)
            table = graded_table(rows, completions, protocol.caps, sampler.tokenizer, grader)
            path = cell.directory / f"part-{part:06d}.parquet"
            write_part(path, table, metadata)
            entries |= seal.seal_of({each.name: each for each in (path, cell.directory / ABOUT)})
            seal.write_seal(cell.directory, entries)
            part += 1
            count += len(rows_P) * len(index_G)
            progress(count, total)


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
        raise ConfigError(
            f"{cell.model.name} has {sampler.positions} positions, but the longest prompt of {cell.name} ({longest} tokens) and "
            f"evaluation.caps={cap} need {longest + cap}; set evaluation.caps=[{sampler.positions - longest}] or less"
        )


def cell_samples(cell: Cell, samples: int, cap: int) -> pd.DataFrame:
    """Return the first `samples` samples of every problem at one cap, in the benchmark's order."""
    frame = read_parts(cell.directory, _COLUMNS).to_pandas()
    frame = frame[(frame["sample_index"] < samples) & (frame["max_response_tokens"] == cap)]
    order = {problem.id: i for i, problem in enumerate(cell.benchmark.problems)}
    place = frame["problem_id"].map(order)
    return frame.assign(place=place).sort_values(["place", "sample_index"], ignore_index=True)


def _add_differences(cells: Sequence[dict[str, Any]], frames: Mapping[tuple[str, str, int], pd.DataFrame]) -> None:
    """Add to every later model's cell the difference of avg to the first model's, paired by problem."""
    first: dict[tuple[str, int], str] = {}
    for cell in cells:
        place = cell["benchmark"], cell["cap"]
        reference = first.setdefault(place, cell["model"])
        if reference == cell["model"]:
            continue
        pair = (frames[model, *place] for model in (reference, cell["model"]))
        a, b = (frame.groupby("place")["correct"].mean().to_numpy() for frame in pair)
        difference = mean_interval(b - a)
        cell["difference"] = {
            "to": reference,
            "avg": difference.value,
            "interval": None if math.isnan(difference.low) else [difference.low, difference.high],
            "method": "95 %, Student's t over problems, paired; one checkpoint each: it says nothing about retraining",
        }


def read_side(
    name: str,
    parts: Sequence[str],
    store: ResultStore,
    *,
    benchmark: str | None = None,
    cap: int | None = None,
    golds: Path | None = None,
) -> Side:
    """Return the evaluations of one side, a frame a training run; verdicts are those that are stored, none for files of others.

    A part is RUN_ID, RUN_ID@STEP, a folder of `harness evaluate` (FOLDER@MODEL where it has several) or a file; `golds` are for files that
    have none. `cap` None is the largest, in tokens. Raises `ConfigError` where nothing is there, or several could be meant.
    """
    frames, remarks = [], list[str]()
    for part in parts:
        if Path(part).is_file():
            recording = read_recorded(Path(part), golds)
            remarks += [f"{part}: {line}" for line in recording.lines()]
            frames.append(pd.DataFrame(recording.samples).assign(model=Path(part).name, benchmark=""))
        else:
            frames.append(_read_stored(part, store))
    runs = [_select_samples(part, frame, benchmark, cap) for part, frame in zip(parts, frames, strict=True)]
    return Side(name, runs, [_seed(part, store) for part in parts], remarks, _bases(parts, store))


def fewest_samples(sides: Sequence[Side]) -> int:
    """The samples of a problem in the run that has the fewest."""
    return min(int(frame.groupby("problem_id").size().max()) for side in sides for frame in side.runs)


def is_graded(side: Side) -> bool:
    """Return whether all its samples have stored verdicts of ours."""
    return all("correct" in frame for frame in side.runs)


def rules_of(side: Side) -> set[str]:
    """Return the rules by which its stored verdicts were given, where they are known."""
    return {rules for frame in side.runs if "rules" in frame for rules in frame["rules"].unique() if rules}


def grade_side(side: Side, verifier: MathVerifier, progress: Callable[[int, int], None]) -> Side:
    """Grade all samples again; what was recorded of them before stays under `label`."""
    runs = []
    for frame in side.runs:
        verdicts_only = "correct" in frame and frame["label"].isna().all()
        labelled_frame = frame.assign(label=frame["correct"] if verdicts_only else frame["label"])
        runs.append(graded_frame(labelled_frame, verifier, progress))
    return replace(side, runs=runs)


def disagreements(side: Side) -> tuple[pd.DataFrame, int]:
    """Return the samples whose recorded verdict is another one than ours, and how many have a recorded verdict."""
    frame = pd.concat(side.runs)
    labelled_rows = frame[frame["label"].notna()]
    differences = labelled_rows[labelled_rows["label"].astype(bool) != labelled_rows["correct"]]
    columns = ["problem_id", "sample_index", "label", "verdict", "answer", "gold"]
    return differences[columns].assign(side=side.name), len(labelled_rows)


def _read_stored(part: str, store: ResultStore) -> pd.DataFrame:
    folder, _, model = part.partition("@")
    if not Path(folder).is_dir() or (Path(folder) / MANIFEST).exists():
        return stored_samples(part, store)
    frame = stored_samples(folder, store)
    models = frame["model"].unique().tolist()
    if (model and model not in models) or (not model and len(models) > 1):
        raise ConfigError(f"{part}: it has the models {', '.join(models)}; name one of them: {folder}@{models[0]}")
    return frame[frame["model"] == model] if model else frame


def _select_samples(part: str, frame: pd.DataFrame, benchmark: str | None, cap: int | None) -> pd.DataFrame:
    """The samples of one benchmark at one cap, in the columns of `Side`."""
    names = frame["benchmark"].unique().tolist()
    if names != [""]:  # a file does not say
        if (benchmark or names[0]) not in names or (benchmark is None and len(names) > 1):
            raise ConfigError(f"{part} was evaluated on {', '.join(names)}; choose one: benchmark={names[0]}")
        frame = frame[frame["benchmark"] == (benchmark or names[0])]
    if "max_response_tokens" in frame:
        caps = sorted(frame["max_response_tokens"].unique().tolist())
        if cap is not None and cap not in caps:
            raise ConfigError(f"{part} was evaluated at caps of {', '.join(map(str, caps))} tokens, not at {cap}")
        frame = frame[frame["max_response_tokens"] == (cap or caps[-1])]
    for name in ("label", "problem", "response_tokens"):
        if name not in frame:
            frame = frame.assign(**{name: None})
    return frame.assign(tokens=frame["response_tokens"].astype(float)).reset_index(drop=True)


def _seed(part: str, store: ResultStore) -> int | None:
    stem = part.partition("@")[0]
    manifest = store.run(stem).manifest() if RUN_ID.fullmatch(stem) else None
    return None if manifest is None else int(manifest["seed"])


def _bases(parts: Sequence[str], store: ResultStore) -> int | None:
    """See `base_policy_count`; None for what is no run of ours."""
    stems = [part.partition("@")[0] for part in parts]
    if not all(map(RUN_ID.fullmatch, stems)):
        return None
    try:
        return base_policy_count([run_config(store.run(stem)).model for stem in stems])
    except (ConfigError, StoreError):  # imported, or of another version
        return None


Floats = NDArray[np.float64]
_EXAMPLES = 5


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its name, a frame of graded samples a training run, the runs' training seeds where they are known.

    `remarks`: what there was to say when it was read. `bases`: seed s starts from base policy s mod that; None: each from its own.
    Columns: problem_id, gold, problem (text or None), correct, answer, verdict, finish_reason, tokens (NaN where unknown).
    """

    name: str
    runs: Sequence[pd.DataFrame]
    seeds: Sequence[int | None]
    remarks: Sequence[str] = ()
    bases: int | None = None


@dataclass(frozen=True)
class Comparison:
    """Scores of the sides on their shared `problems` (id and gold), and the differences.

    `scores`: side → metric → values [runs, problems], fractions of 1 (tokens: a response's mean). `differences`: side → metric → its
    difference to the first side, in the same units. `notes`: problems that were left out. `k_bands`: side → its difference in Pass@k over
    all k. `point_costs`: side → what a point of avg takes, None where training runs decide that. `by_difficulty`: where it was asked for.
    """

    problems: pd.DataFrame
    scores: Mapping[str, Mapping[str, Floats]]
    differences: Mapping[str, Mapping[str, Estimate]]
    notes: Sequence[str] = field(default_factory=list)
    k_bands: Mapping[str, KBand] = field(default_factory=dict)
    point_costs: Mapping[str, PointCost | None] = field(default_factory=dict)
    by_difficulty: ByDifficulty | None = None

    @property
    def reference(self) -> str:
        """The side that the others are compared with."""
        return next(iter(self.scores))

    def by_problem(self) -> pd.DataFrame:
        """The problems with every side's share of right samples, those first on which a side differs most from the first one."""
        shares = {name: scores[AVG].mean(axis=0) for name, scores in self.scores.items()}
        frame = self.problems.assign(**shares)
        others = frame[[*self.differences]].sub(frame[self.reference], axis=0)
        gaps = others.abs().max(axis=1)
        return frame.loc[gaps.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)


def compare(
    sides: Sequence[Side],
    verifier: MathVerifier,
    *,
    margin: float | None = None,
    ks: Sequence[int] | None = None,
    by_text: bool | None = None,
    difficulty: Side | None = None,
) -> Comparison:
    """Compare every side with the first.

    `margin` is a fraction of 1. `ks` None: powers of two that all sides have samples for. `by_text` None: problems match by id where any is
    shared. `difficulty`: a further side whose samples say how hard a problem is. Raises `ConfigError` where nothing matches, a side has
    unequal numbers of samples a problem, or `difficulty` has the samples of a compared side.
    """
    sides, seed_notes = _align_seeds(sides)
    if len({side.bases for side in sides}) > 1:  # seeds of one base policy here are not those there
        seed_notes += [f"{side.name}: runs that share a base policy count singly" for side in sides if _sharing(side)]
        sides = [replace(side, bases=None) for side in sides]
    matched_sides, notes = _match_sides(sides, by_text, verifier)
    notes = [*seed_notes, *_cap_notes(sides), *notes, *filter(None, map(_sharing, matched_sides))]
    first, *others = matched_sides
    most = fewest_samples(matched_sides)
    k_values = [k for k in ks or default_ks(most) if k > 1]
    require_ks(k_values, most)
    scores = {side.name: _scores(side, k_values, verifier) for side in matched_sides}
    metrics = [name for name in scores[first.name] if all(name in table for table in scores.values())]
    level = comparison_level(len(others))
    paired = {side.name: _same_seeds(first, side) for side in others}
    replicates_of = {side.name: _replicates(side) for side in matched_sides}

    def difference(name: str, metric: str) -> Estimate:
        first_RP, other_RP = (mean_rows(scores[side][metric], replicates_of[side]) for side in (first.name, name))
        estimate = difference_of(first_RP, other_RP, paired[name], level)
        return replace(estimate, margin=None if metric == TOKENS else margin, family=len(others))

    differences = {name: {metric: difference(name, metric) for metric in metrics} for name in paired}
    problems = first.runs[0].drop_duplicates("key")[["problem_id", "gold"]].reset_index(drop=True)
    counts = {side.name: _counts(side) for side in matched_sides}
    reference = counts[first.name]
    bands = {
        name: k_band(reference, counts[name], paired=same_seeds, level=level)
        for name, same_seeds in paired.items()
        if min(reference.most, counts[name].most) > 1
    }
    costs = {name: point_cost(reference, counts[name], level) for name in paired}
    by_band = None
    if difficulty is not None:
        *band_sides, difficulty_side = _match_sides([*sides, _independent(difficulty, sides)], by_text, verifier)[0]
        band_counts = {side.name: _counts(side) for side in band_sides}
        by_band = by_difficulty(difficulty.name, _shares(difficulty_side).mean(axis=0), band_counts, paired, k_values)
    return Comparison(problems, scores, differences, notes, bands, costs, by_band)


def _independent(difficulty: Side, sides: Sequence[Side]) -> Side:
    """The side that says how hard a problem is; `ConfigError` where a compared side has its samples, under whatever name."""
    own = [_content(frame) for frame in difficulty.runs]
    for side in sides:
        if any(_content(frame).equals(one) for frame in side.runs for one in own):
            raise ConfigError(
                f"difficulty={difficulty.name} has the samples of {side.name}, which is compared: a problem with bad luck in them would "
                "be called hard and then gain by itself; name an evaluation that is not compared, such as RUN@0 of another run"
            )
    return difficulty


def _content(frame: pd.DataFrame) -> pd.DataFrame:
    columns = ["problem_id", "sample_index", "correct", "answer", "tokens"]
    return frame[columns].sort_values(columns[:2], ignore_index=True)


def _shares(side: Side) -> Floats:
    """Share of right samples, [runs, problems], of a side whose frames are in the order of the problems."""
    return np.array([frame.groupby("place")["correct"].mean().to_numpy(dtype=np.float64) for frame in side.runs])


def _counts(side: Side) -> Counts:
    """Right samples of such a side, whose problems have equally many samples in each run."""
    samples = tuple(len(frame) // frame["place"].nunique() for frame in side.runs)
    right_RP = np.rint(_shares(side) * np.array(samples)[:, None]).astype(np.int64)
    return Counts(right_RP, samples, _replicates(side))


def _cap_notes(sides: Sequence[Side]) -> list[str]:
    """A note where the sides were sampled with different caps."""
    column = "max_response_tokens"
    caps = {
        side.name: sorted({cap for frame in side.runs if column in frame for cap in frame[column].unique()})
        for side in sides
    }
    if len({tuple(values) for values in caps.values() if values}) < 2:
        return []
    texts = "; ".join(f"{name}: {', '.join(map(str, values)) or 'unknown'}" for name, values in caps.items())
    return [f"the caps differ, in tokens ({texts}); cap=TOKENS chooses one that every side has"]


def _sharing(side: Side) -> str:
    """A note where runs of a side start from one base policy."""
    runs, bases = len(side.runs), len({*_replicates(side)})
    if bases == runs:
        return ""
    judged = (
        f"{bases} base policies, whose means are judged" if bases > 1 else "one base policy: nothing is said of others"
    )
    return f"{side.name}: {runs} runs start from {judged}"


def _replicates(side: Side) -> tuple[int, ...]:
    """What each run is a replicate of: its base policy where seeds share those, else itself."""
    seeds = [seed for seed in side.seeds if seed is not None]
    if side.bases is None or len(seeds) < len(side.runs):
        return tuple(range(len(side.runs)))
    return tuple(replicate_of(seed, side.bases) for seed in seeds)


# ---- runs and problems that are the same ----


def _align_seeds(sides: Sequence[Side]) -> tuple[list[Side], list[str]]:
    """The sides with their runs in the order of training seeds, of those that all have where these are two or more; what is left out.

    As they are where a seed is unknown, or twice on one side.
    """
    if any(None in side.seeds or len(set(side.seeds)) < len(side.seeds) for side in sides):
        return list(sides), []
    by_seed = [
        {seed: run for seed, run in zip(side.seeds, side.runs, strict=True) if seed is not None} for side in sides
    ]
    shared_seeds = set.intersection(*map(set, by_seed))
    aligned_sides, notes = [], []
    for side, runs in zip(sides, by_seed, strict=True):
        seeds = sorted(shared_seeds if len(shared_seeds) > 1 else runs)
        if absent := sorted(set(runs) - set(seeds)):
            notes.append(f"{side.name}: seeds {', '.join(map(str, absent))} are not on every side and are left out")
        aligned_sides.append(replace(side, runs=[runs[seed] for seed in seeds], seeds=seeds))
    return aligned_sides, notes


def _match_sides(sides: Sequence[Side], by_text: bool | None, verifier: MathVerifier) -> tuple[list[Side], list[str]]:
    """The sides with the problems alone that all runs of all sides have, in one order, under the column `key`; and what was left out."""
    frames = [(side.name, frame) for side in sides for frame in side.runs]
    if by_text is None:
        by_text = not set.intersection(*(set(frame["problem_id"]) for _, frame in frames))
    keys = [_keys(name, frame, by_text) for name, frame in frames]
    shared_keys = set.intersection(*map(set, keys))
    golds = [dict(zip(key, frame["gold"], strict=True)) for key, (_, frame) in zip(keys, frames, strict=True)]
    others = {k for k in shared_keys if any(not _same_gold(golds[0][k], each[k], verifier) for each in golds[1:])}
    what = "text" if by_text else "id"
    notes = []
    for name, key in {name: key for (name, _), key in zip(frames, keys, strict=True)}.items():
        if absent := sorted(set(key) - shared_keys):
            notes.append(f"{name}: {len(absent)} of {key.nunique()} problems are not on every side: {_quote(absent)}")
    if others:
        notes.append(
            f"{len(others)} problems of one {what} have different golds and are left out: {_quote(sorted(others))}"
            + ("" if by_text else "; if these are other problems under the same ids, match=problem compares texts")
        )
    if not shared_keys - others:
        other = "match=id" if by_text else "match=problem compares their texts"
        raise ConfigError(
            f"no problem is on every side by its {what}; {other}. {' '.join([*notes, ''])}Are these evaluations of one benchmark?"
        )
    order = {key: place for place, key in enumerate(dict.fromkeys(k for k in keys[0] if k in shared_keys - others))}
    matched_frames = iter(
        frame.assign(key=key, place=key.map(order)).dropna(subset="place").sort_values("place", kind="stable")
        for key, (_, frame) in zip(keys, frames, strict=True)
    )
    return [replace(side, runs=[next(matched_frames) for _ in side.runs]) for side in sides], notes


def _keys(name: str, frame: pd.DataFrame, by_text: bool) -> pd.Series:
    if not by_text:
        return frame["problem_id"]
    if frame["problem"].isna().any():
        raise ConfigError(f"{name} shares no problem ids with the others and has no texts of its problems to match by")
    keys = frame["problem"].map(normalise)
    id_counts = frame.groupby(keys)["problem_id"].nunique()
    if (id_counts > 1).any():
        texts = list(id_counts[id_counts > 1].index)
        raise ConfigError(f"{name}: {len(texts)} problems have one text: {_quote(texts)}")
    return keys


def _same_gold(a: str, b: str, verifier: MathVerifier) -> bool:
    if normalise(a) == normalise(b) or verifier.equivalent(a, b):
        return True
    # One is a solution with the answer at its end.
    return verifier.verify(a, b).correct or verifier.verify(b, a).correct


def _quote(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:60]) for name in names[:_EXAMPLES]) + (" …" if len(names) > _EXAMPLES else "")


# ---- numbers ----


def _scores(side: Side, ks: Sequence[int], verifier: MathVerifier) -> dict[str, Floats]:
    """Metric → values [runs, problems] of a side whose frames are in the order of the problems."""
    scores: dict[str, list[Floats]] = {}
    for frame in side.runs:
        # Codes are of sorted texts, so that the places need as many digits each.
        place_frame = frame.assign(problem_id=frame["place"].map("{:09.0f}".format), length=0)
        try:
            reduction = reduce_samples(code_samples(place_frame, "length", verifier.equivalent_many), ks)
        except UnevenSamples as error:
            raise ConfigError(f"{side.name}: {error}") from error
        values = {AVG: reduction.avg_P}
        values |= {f"{kind}@{k}": reduction.scores[f"{kind}@{k}"] for kind in ("pass", "maj") for k in ks}
        tokens = frame.groupby("place")["tokens"].mean().to_numpy(dtype=np.float64)
        if np.isfinite(tokens).all():
            values[TOKENS] = tokens
        for name, value in values.items():
            scores.setdefault(name, []).append(value)
    return {name: np.array(rows) for name, rows in scores.items() if len(rows) == len(side.runs)}


def _same_seeds(a: Side, b: Side) -> bool:
    return None not in a.seeds and list(a.seeds) == list(b.seeds)
