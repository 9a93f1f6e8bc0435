"""Pass@k of two arms by difficulty, with paired intervals.

``python experiments/dapo_ladder/bands.py ROOT EXPERIMENT --arm ARM --reference ARM``.
``--reference before`` compares the arm with its own policies before RL. Bands come from the reference's pass rates on other base policies
(`difficulty_bands.py`). For k above the samples that training took, sample the stored checkpoints again with
``harness evaluate model=RUN@0,RUN,... evaluation.samples_per_problem=256`` and name what it wrote: ``--evaluation FOLDER/evaluation.json``.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from difficulty_bands import band_means, crossed_bands
from numpy.typing import NDArray

from analysis.results import Results
from analysis.tables.table import Cell, Column, Table
from harness.evaluation.metrics.names import default_ks, pass_at_k, require_samples
from harness.experiment.plan import PlannedArm
from harness.statistics.intervals import Estimate, Paired, judge, mean_interval, replicate_of
from harness.store.samples import read_parts

sys.path.append(str(Path(__file__).resolve().parents[1]))

from table_script import print_table, script_parser

Floats = NDArray[np.float64]
BEFORE = "before"
EDGES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Counts:
    """Right samples per problem of one evaluated checkpoint, of ``samples`` each."""

    right_P: NDArray[np.int64]
    samples: int


def stored_counts(results: Results) -> dict[tuple[str, int], Counts]:
    """(run id, step) to counts, of the evaluations that training made; none of runs whose samples are not here."""
    plan, cells = results.experiment.plan, results.experiment.cells
    if "samples" not in cells:
        return {}
    own = cells[(cells["benchmark"] == plan.benchmark) & (cells["cap"] == plan.primary_cap)]
    counts = {}
    for run_id, step, samples in zip(own["run_id"], own["step"], own["samples"], strict=True):
        average_P = results.experiment.problem_avg.get((str(run_id), int(step), plan.primary_cap))
        if average_P is not None:
            counts[str(run_id), int(step)] = Counts(np.rint(average_P * samples).astype(np.int64), int(samples))
    return counts


def evaluated_counts(root: Path, path: Path, results: Results) -> dict[tuple[str, int], Counts]:
    """(run id, step) to counts, of what `harness evaluate` sampled; a run without ``@STEP`` is its last evaluated step.

    Raises:
        ValueError: a file of no evaluation of this experiment's benchmark and response cap.
    """
    plan, cells = results.experiment.plan, results.experiment.cells
    own = cells[cells["benchmark"] == plan.benchmark]
    last = {str(run_id): int(step) for run_id, step in own.groupby("run_id")["step"].max().items()}
    counts = {}
    for cell in json.loads(path.read_bytes())["cells"]:
        run_id, _, step = str(cell["model"]).partition("@")
        if (cell["benchmark"], cell["cap"]) != (plan.benchmark, plan.primary_cap) or run_id not in last:
            continue
        frame = read_parts(
            root / cell["samples"], ["problem_id", "sample_index", "max_response_tokens", "correct"]
        ).to_pandas()
        samples = int(cell["samples_per_problem"])
        frame = frame[(frame["sample_index"] < samples) & (frame["max_response_tokens"] == cell["cap"])]
        by_problem = frame.groupby("problem_id")["correct"]  # sorted: the order of training's evaluations
        require_samples(by_problem.size(), samples)
        counts[run_id, int(step) if step else last[run_id]] = Counts(by_problem.sum().to_numpy(dtype=np.int64), samples)
    if not counts:
        raise ValueError(
            f"{path} evaluates no run of {plan.name} on {plan.benchmark} with cap {plan.primary_cap}; name runs as model=RUN_ID or RUN_ID@0"
        )
    return counts


def paired_counts(
    results: Results, counts: Mapping[tuple[str, int], Counts], arm: PlannedArm, reference: PlannedArm | None
) -> dict[int, tuple[Counts, Counts]]:
    """Seed to the counts of the arm and of the reference, of seeds that have both; ``reference`` None: before RL."""
    frame = results.per_seed
    last = {
        (str(row["arm"]), int(row["seed"])): (str(row["run_id"]), int(row["checkpoint"]))
        for _, row in frame[frame["cap"] == results.experiment.plan.primary_cap].iterrows()
    }
    pairs = {}
    for seed, run_id in arm.runs.items():
        own = counts.get(last.get((arm.name, seed), ("", 0)))
        other = counts.get((run_id, 0)) if reference is None else counts.get(last.get((reference.name, seed), ("", 0)))
        if own is not None and other is not None:
            pairs[seed] = (own, other)
    return pairs


def band_table(
    results: Results,
    counts: Mapping[tuple[str, int], Counts],
    arm: PlannedArm,
    reference: PlannedArm | None,
    edges: Sequence[float] = EDGES,
    ks: Sequence[int] | None = None,
) -> Table:
    """Pass@k of reference and arm and their difference, one row each for every band and for all problems.

    Raises:
        ValueError: fewer than two base policies or seeds with both evaluations, or a k above the samples of one.
    """
    plan = results.experiment.plan
    pairs = paired_counts(results, counts, arm, reference)
    unit = _units(results, pairs)
    rates: dict[int, list[Floats]] = {}
    for seed, (_, other) in pairs.items():
        rates.setdefault(unit[seed], []).append(other.right_P / other.samples)
    bands = crossed_bands({one: np.mean(group, axis=0) for one, group in rates.items()}, edges)
    names = _names(edges)
    min_samples = min(one.samples for pair in pairs.values() for one in pair)
    ks = [k for k in default_ks(min_samples) if k <= min_samples] if ks is None else list(ks)
    sizes = {seed: np.bincount(bands[one], minlength=len(names)) for seed, one in unit.items()}
    rows: list[dict[str, Cell]] = []
    of_reference = "before RL" if reference is None else reference.label
    for index, name in enumerate([*names, "all problems"]):
        problems = [float(sizes[seed][index]) if index < len(names) else float(sizes[seed].sum()) for seed in pairs]
        for label in (of_reference, arm.label, "difference"):
            rows.append({"band": name, "problems": float(np.mean(problems)), "what": label})
    for k in ks:
        level: dict[int, tuple[Floats, Floats]] = {}
        for seed, pair in pairs.items():
            ours, theirs = (_levels(one, k, bands[unit[seed]], len(names)) for one in pair)
            level[seed] = (ours, theirs)
        differences = judge({str(i): _pair_differences(results, level, i) for i in range(len(names))})
        overall = judge({"all": _pair_differences(results, level, len(names))})["all"]
        for i in range(len(names) + 1):
            rows[3 * i][f"pass_{k}"] = _mean(results, {seed: float(pair[1][i]) for seed, pair in level.items()})
            rows[3 * i + 1][f"pass_{k}"] = _mean(results, {seed: float(pair[0][i]) for seed, pair in level.items()})
            rows[3 * i + 2][f"pass_{k}"] = _to_text(differences[str(i)] if i < len(names) else overall)
    columns = (
        Column("band", "reference solves, on other base policies"),
        Column("problems", "problems", 0),
        Column("what", "Pass@k %"),
        *(Column(f"pass_{k}", f"k = {k}", 1, 100) for k in ks),
    )
    return Table(
        f"{plan.name}-bands",
        f"{plan.title}: {arm.label} against {of_reference}, Pass@k by difficulty",
        columns,
        tuple(rows),
        _notes(pairs, rates, min_samples, len(names)),
    )


def _units(results: Results, pairs: Mapping[int, tuple[Counts, Counts]]) -> dict[int, int]:
    """Seed to what counts as one replicate of the reference: its base policy, and whatever else has the very same samples.

    Seeds that start from one base policy have one evaluation before training: bands made of "the others" would be made of their own.
    """
    first: dict[bytes, int] = {}
    return {
        seed: first.setdefault(other.right_P.tobytes(), replicate_of(seed, results.experiment.plan.base_policies))
        for seed, (_, other) in pairs.items()
    }


def _names(edges: Sequence[float]) -> list[str]:
    ends = [0.0, *edges, 1.0]
    return [f"{100 * low:g} to {100 * high:g} %" for low, high in itertools.pairwise(ends)]


def _levels(counts: Counts, k: int, band_P: NDArray[np.int64], bands: int) -> Floats:
    """Pass@k in each band, and of all problems behind them."""
    values_P = pass_at_k(counts.right_P, counts.samples, k)
    return np.append(band_means(values_P, band_P, bands), values_P.mean())


def _pair_differences(results: Results, level: Mapping[int, tuple[Floats, Floats]], index: int) -> Paired:
    differences = {
        seed: float(ours[index] - theirs[index]) for seed, (ours, theirs) in level.items() if np.isfinite(ours[index])
    }
    return Paired(results.experiment.plan.replicates(differences), len(differences))


def _mean(results: Results, values: Mapping[int, float]) -> Cell:
    """The mean alone: intervals stand beside differences, where arms share their noise."""
    finite = {seed: value for seed, value in values.items() if np.isfinite(value)}
    return mean_interval(results.experiment.plan.replicates(finite)).value if finite else None


def _to_text(estimate: Estimate) -> Cell:
    """A difference with its sign, interval, and a star where it is resolved; NaN bounds leave the value alone."""
    if not np.isfinite(estimate.value):
        return None
    text = f"{100 * estimate.value:+.1f}"
    if np.isfinite(estimate.low):
        text += f" [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}]" + "*" * estimate.resolved
    return text.replace("-", "−")


def _notes(
    pairs: Mapping[int, tuple[Counts, Counts]], rates: Mapping[int, list[Floats]], min_samples: int, bands: int
) -> tuple[str, ...]:
    return (
        f"{len(pairs)} seeds on {len(rates)} base policies or seeds of their own, {min_samples} samples a problem at least; Pass@k is the "
        f"unbiased estimator.",
        "A problem's band comes from the reference's runs on the other base policies, so neither arm's outcome here chooses it; "
        "sizes are means.",
        f"Differences: arm minus reference, paired, 95 %, Student's t over base policies or seeds; the {bands} bands of a column "
        f"hold together "
        "(Šidák), columns do not; all problems stands alone. A star: the interval excludes zero.",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table as Markdown; 0, or 2 with one line where it cannot be made."""
    parser = script_parser("bands", __doc__)
    parser.add_argument("--arm", required=True, help="name of the arm")
    parser.add_argument("--reference", default=BEFORE, help="name of an arm, or before: the arm's policies before RL")
    parser.add_argument("--edges", default=",".join(map(str, EDGES)), help="of the bands, fractions of 1")
    parser.add_argument("--ks", help="comma-separated; without: powers of two up to the samples of a problem")
    parser.add_argument("--evaluation", type=Path, help="evaluation.json of harness evaluate")
    options = parser.parse_args(arguments)

    def make(results: Results) -> Table:
        counts = (
            stored_counts(results)
            if options.evaluation is None
            else evaluated_counts(options.root, options.evaluation, results)
        )
        plan = results.experiment.plan
        reference = None if options.reference == BEFORE else plan.arm(options.reference)
        edges = [float(edge) for edge in options.edges.split(",")]
        ks = None if options.ks is None else [int(k) for k in options.ks.split(",")]
        return band_table(results, counts, plan.arm(options.arm), reference, edges, ks)

    return print_table(options, make)


if __name__ == "__main__":
    raise SystemExit(main())
