"""A table of final scores from anywhere as tidy rows: arm, seed, group, benchmark, value.

One row a score (long) or one column a benchmark (wide); CSV, TSV, Parquet, JSON and JSONL, also wandb's export of runs or of a chart.
Columns are known by usual names, else named by the caller. Nothing is dropped in silence: a row that cannot be a score is an error that
names it, and every reading is a line of ``notes``.
"""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

ABOVE = "above"
UNITS = ("percent", "fraction", "raw")
FILES = (".csv", ".tsv", ".txt", ".parquet", ".jsonl", ".ndjson", ".json")
_ARMS = (
    "arm", "method", "algorithm", "algo", "system", "variant", "config", "configuration", "exp_name", "group", "name", "run", "model",
)  # fmt: skip
_SEEDS = ("seed", "training_seed", "train_seed", "run_seed", "random_seed", "config.seed", "replicate", "trial")
_EVALUATION_SEEDS = ("evaluation_seed", "eval_seed", "sampling_seed", "decoding_seed")
_SCORES = ("score", "value", "accuracy", "acc", "mean_score", "return", "reward", "result")
_BENCHMARKS = ("benchmark", "task", "dataset", "eval", "evaluation", "env", "environment", "test_set")
_STEPS = ("step", "steps", "global_step", "_step", "epoch", "checkpoint")
_CHART = re.compile(r"(.+) - (.+)")
_RUN_NAME = re.compile(r"(.+?)[-_/ .:]*(?:seed|(?<![a-z])s)?[-_=: ]*(\d+)", re.IGNORECASE)
_LIMIT = 5  # names or rows that a message lists
_MOST_ROWS, _MOST_COLUMNS, _MOST_ARMS = 2_000_000, 1_000, 500
_MOST_EXACT = 2**53  # beyond it a float skips whole numbers
_MOST_SCORE = 1e100  # beyond it squares are no numbers
_LEAST_PERCENT = 10  # a table of per cent has a score above it


class TableError(ValueError):
    """A table that cannot be read as scores; the message names the place and the fix."""


@dataclass(frozen=True)
class ScoreTable:
    """Scores as rows of arm, seed, group, benchmark, value and the row of the file that each stands in.

    Attributes:
        baselines: group → the arm that the others are compared with; the `ABOVE` of them all: each with the arm before it.
        unit: `percent`; `fraction` of 1; `raw`: a unit of their own.
        seeded: seeds are those of the table; without a column of seeds they only count the rows of an arm.
    """

    rows: pd.DataFrame
    baselines: Mapping[str, str]
    unit: str
    score: str
    seeded: bool
    notes: Sequence[str]

    @property
    def benchmarks(self) -> list[str]:
        """The benchmarks in the order of the table."""
        return [str(name) for name in self.rows["benchmark"].unique()]


def read_file(path: Path) -> pd.DataFrame:
    """The file as a frame. Raises `TableError` for one that is no table, or a larger one than a table of final scores."""
    suffix = path.suffix.lower()
    if suffix not in FILES:
        raise TableError(f"{path}: no table of a known kind; one of {', '.join(FILES)}")
    try:
        reader = _read_parquet if suffix == ".parquet" else _read_json if "json" in suffix else _read_csv
        frame = reader(path)
    except (ValueError, OSError, csv.Error, RecursionError) as error:
        raise TableError(f"{path}: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from error
    if not len(frame):
        raise TableError(f"{path} has no rows")
    return frame


def _require_size(rows: int, columns: int) -> None:
    if columns > _MOST_COLUMNS:
        raise TableError(f"{columns:,} columns are more than {_MOST_COLUMNS:,}; keep arm, seed, benchmark and scores")
    if rows > _MOST_ROWS:
        raise TableError(f"{rows:,} rows are more than {_MOST_ROWS:,}; give one score a run and benchmark")


def _read_parquet(path: Path) -> pd.DataFrame:
    _require_size((about := pq.read_metadata(path)).num_rows, about.num_columns)
    frame = pq.read_table(path).to_pandas(ignore_metadata=True)  # what pandas notes of an index may name no column
    return frame.rename(columns=lambda name: name.replace("__index_level_", "unnamed ")).map(_nested_as_text)


def _nested_as_text(cell: Any) -> Any:
    """Lists and objects as texts, which can be told apart."""
    return str(cell) if isinstance(cell, list | dict | np.ndarray) else cell


def _read_json(path: Path) -> pd.DataFrame:
    lines = path.suffix.lower() != ".json"
    text = io.StringIO(path.read_text(encoding="utf-8-sig"))
    frame = pd.read_json(text, lines=lines, dtype=False, convert_axes=False, precise_float=True)
    frame.index = pd.RangeIndex(-1, len(frame) - 1)  # errors add a header's line to the first row's
    _require_size(*frame.shape)
    return frame.map(_nested_as_text)


def _read_csv(path: Path) -> pd.DataFrame:
    with path.open(encoding="utf-8-sig", newline="") as file:
        first_line = file.readline()
        if not first_line.strip():
            raise TableError("no header in its first line")
        dialect = csv.Sniffer().sniff(first_line[:10_000], ",;\t|")
        file.seek(0)
        reader = csv.reader(file, delimiter=dialect.delimiter)
        header = next(reader)
        _require_size(0, len(header))
        # Errors count blank lines, as an editor does.
        numbered_rows: dict[int, list[str]] = {}
        for number, row in enumerate(reader):
            if len(row) not in (0, len(header)):
                raise TableError(f"row {number + 2} has {len(row)} cells, and the header {len(header)}")
            if row:
                numbered_rows[number] = row
                _require_size(len(numbered_rows), len(header))
    # Texts as they are spelled, since an arm may be called `nan`, `001` or `1e-3`.
    # Row labels that pandas writes have no name in the header; `unnamed` is what pandas calls them.
    columns = [name.strip() or f"unnamed {place}" for place, name in enumerate(header)]
    return pd.DataFrame(list(numbered_rows.values()), index=list(numbered_rows), columns=columns, dtype="str")


def score_table(
    frame: pd.DataFrame,
    *,
    arm: str | None = None,
    seed: str | None = None,
    score: str | Sequence[str] | None = None,
    baseline: str | Sequence[str] | None = None,
    by: str | Sequence[str] = (),
    benchmark: str | None = None,
    where: Mapping[str, object] | None = None,
    unit: str | None = None,
    evaluation_seed: str | None = None,
) -> ScoreTable:
    """Read a frame as scores.

    Args:
        frame: one row a score, or one row a run with a column for each benchmark.
        arm: its column of configurations.
        seed: its column of training seeds.
        score: its column of scores, or several.
        baseline: the arm that others are compared with, or one for each group; ``above``: each with the arm before it.
        by: columns that are judged apart (a model). One called benchmark, task, dataset or the like is the benchmark.
        benchmark: the column of benchmarks of a long table.
        where: column → the only value that counts, such as ``{"metric": "avg"}``.
        unit: ``percent``, ``fraction`` or ``raw``.
        evaluation_seed: the column that tells repeated evaluations of one trained policy apart. They are averaged, and count as one run;
            without a column of seeds an arm is one run.

    Raises:
        TableError: a column that is not there or has no scores; rows that are twice there; an unknown baseline; mixed units.
    """
    notes: list[str] = []
    frame = _flat_frame(frame)
    if is_chart := _is_chart(frame):
        frame = _chart_runs(frame, dict(where or {}), notes)
        score = score or [name for name in frame.columns if name not in ("arm", "seed")]
    frame = _select_rows(frame, {} if is_chart else where or {})
    groups, scores, baselines = _to_list(by), _to_list(score), _to_list(baseline)
    _require_columns(frame, [name for name in (arm, seed, benchmark, evaluation_seed, *groups, *scores) if name])
    arm, benchmark, groups = _named_columns(frame, arm, benchmark, groups)
    seed = seed or _known(frame, _SEEDS)
    evaluation_seed = evaluation_seed or _known(
        frame.drop(columns=list(filter(None, (seed, *groups)))), _EVALUATION_SEEDS
    )
    scores = scores or _known_scores(frame, [arm, seed, benchmark, evaluation_seed, *groups])
    rows = _tidy_rows(_without_seeds(frame, arm, seed, notes), arm, seed, scores, groups, benchmark, evaluation_seed)
    roles = [name for name in (arm, seed, benchmark, evaluation_seed, *groups, *scores) if name]
    columns = {"arm": arm, "seed": seed, "evaluation seed": evaluation_seed, "score": ", ".join(scores)}
    columns |= {"benchmark": benchmark, "judged apart by": ", ".join(groups)}
    notes.insert(0, f"columns read as {'; '.join(f'{name}: {value}' for name, value in columns.items() if value)}")
    if seed is None:
        are = "the rows of an arm are its seeds, compared unpaired" if evaluation_seed is None else "an arm is one run"
        notes.append(f"no column of seeds: {are} (seed= names the column)")
    if seed or evaluation_seed:
        _refuse_duplicates(rows, frame, roles)
    rows = _drop_unscored(rows, notes)
    rows = _average_evaluations(rows, evaluation_seed, notes)
    unit = unit or _guess_unit(rows, notes)
    name = scores[0] if len(scores) == 1 else "score"
    return ScoreTable(rows, _baselines(rows, baselines, notes), unit, name, seed is not None, notes)


def _flat_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a named index as columns, and numbers of rows, by which errors name them, as its index."""
    named = any(name is not None for name in frame.index.names)
    flat_frame = (frame.reset_index() if named else frame).rename(columns=str)
    numbered = pd.api.types.is_integer_dtype(flat_frame.index) and flat_frame.index.is_unique
    if flat_frame.columns.has_duplicates:
        raise TableError(f"two columns are called {flat_frame.columns[flat_frame.columns.duplicated()][0]!r}")
    return flat_frame if numbered else flat_frame.reset_index(drop=True)


def _to_list(value: str | Sequence[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _known(frame: pd.DataFrame, names: Sequence[str]) -> str | None:
    """The column with the first of these names that the table has, in any case of letters."""
    columns = {name.lower(): name for name in frame.columns}
    return next((columns[name] for name in names if name in columns), None)


def _require_columns(frame: pd.DataFrame, names: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in frame]:
        raise TableError(f"the table has no column {unknown[0]!r}; it has {', '.join(frame.columns[:20])}")


def _named_columns(
    frame: pd.DataFrame, arm: str | None, benchmark: str | None, groups: list[str]
) -> tuple[str, str | None, list[str]]:
    """The columns of arms, of benchmarks (None: there is none) and of what is judged apart. Raises `TableError`: nothing names the arms."""
    if benchmark is None:
        benchmark = next((name for name in groups if name.lower() in _BENCHMARKS), None) or _known(frame, _BENCHMARKS)
    groups = [name for name in groups if name != benchmark]
    arm = arm or _known(frame, [name for name in _ARMS if name not in map(str.lower, [*groups, benchmark or ""])])
    if arm is None:
        raise TableError(f"which column names the configurations? arm= is one of {', '.join(frame.columns[:20])}")
    return arm, benchmark, groups


def _known_scores(frame: pd.DataFrame, keys: Sequence[str | None]) -> list[str]:
    if column := _known(frame, _SCORES):
        return [column]
    others = [name for name in frame.columns if name not in keys]
    numbers = [name for name in others if _as_numbers(frame[name].iloc[:_LIMIT]).notna().all()]
    raise TableError(f"which columns are scores? score=COLUMN[,COLUMN] of {', '.join((numbers or others)[:20])}")


def _select_rows(frame: pd.DataFrame, where: Mapping[str, object]) -> pd.DataFrame:
    """The rows whose columns have these values. Raises `TableError`: there are none, or runs that have not finished are among them."""
    for column, value in where.items():
        _require_columns(frame, [column])
        matches = frame[column].astype(str).str.strip().str.lower() == str(value).lower()
        if (number := pd.to_numeric(str(value), errors="coerce")) == number:
            matches |= _as_numbers(frame[column]) == number
        if not matches.any():
            valid_values = ", ".join(map(str, frame[column].unique()[:_LIMIT]))
            raise TableError(f"no row has {column}={value}; it has {valid_values}")
        frame = frame[matches]
    _require_finished(frame, where)
    return frame


def _require_finished(frame: pd.DataFrame, where: Mapping[str, object]) -> None:
    """Raises `TableError` where wandb's column of states has others than finished: a score of such a run is none of a whole run."""
    if (column := _known(frame, ["state"])) is None or column in where:
        return
    states = frame[column].astype(str).str.lower()
    if (states == "finished").any() and (others := states[states != "finished"]).any():
        counts = ", ".join(f"{count} {name}" for name, count in others.value_counts().items())
        raise TableError(f"unfinished runs are among the rows ({counts}); where.{column}=finished leaves them out")


def _is_chart(frame: pd.DataFrame) -> bool:
    """Whether wandb exported it from a chart: ``Step``, then ``RUN - METRIC`` with its envelope (``__MIN``, ``__MAX``)."""
    step, *rest = frame.columns
    return step.lower() in (*_STEPS, "relative time (process)") and bool(rest) and all(map(_CHART.match, rest))


def _chart_runs(frame: pd.DataFrame, where: dict[str, object], notes: list[str]) -> pd.DataFrame:
    """A chart as one row a run, at the chart's last step or at that of ``where``; runs without a value there are named and left out.

    Raises `TableError`: a run's name does not end in the number of its seed, or no run has a value.
    """
    step = frame.columns[0]
    columns = [name for name in frame.columns[1:] if not name.endswith(("__MIN", "__MAX"))]
    values = frame[columns].apply(_as_numbers)
    steps = _as_numbers(frame[step])
    wanted = where.pop(step, steps[values.notna().any(axis=1)].max())
    if where:
        raise TableError(f"of a chart where.{step}=NUMBER chooses rows; there is no {next(iter(where))!r}")
    place = steps == pd.to_numeric(str(wanted), errors="coerce")
    if not place.any() or not (found := values[place].iloc[-1].dropna()).size:
        raise TableError(f"no run of the chart has a value at {step} {wanted}")
    rows: dict[str, dict[str, object]] = {}
    ends: dict[str, float] = {}
    for name in columns:
        run, _, metric = name.rpartition(" - ")
        parts = _RUN_NAME.fullmatch(run)
        if parts is None:
            raise TableError(f"run {run!r} of the chart does not end in its seed (grpo-seed1); export a table of runs")
        if name in found:
            rows.setdefault(run, {"arm": parts[1], "seed": int(parts[2])})[metric] = found[name]
        else:
            ends[run] = steps[values[name].notna()].max()
    notes.append(
        f"a chart of wandb: {len(rows)} runs at {step} {float(str(wanted)):g}; the number at the end of a run's name is its seed"
    )
    notes += [f"run {run} ends at {step} {end:g} and is left out" for run, end in ends.items() if run not in rows]
    return pd.DataFrame(list(rows.values()))


def _without_seeds(frame: pd.DataFrame, arm: str, seed: str | None, notes: list[str]) -> pd.DataFrame:
    """The frame with the names of its arms, where it names runs and every name ends in its seed (``grpo-s1``)."""
    if seed is None or arm.lower() not in ("name", "run"):
        return frame
    names = [_RUN_NAME.fullmatch(str(name).strip()) for name in frame[arm]]
    seeds = frame[seed].astype(str).str.strip()
    if not all(name is not None and name[2] == number for name, number in zip(names, seeds, strict=True)):
        return frame
    notes.append("the number at the end of a run's name is its seed")
    return frame.assign(**{arm: [name[1] for name in names if name]})


def _tidy_rows(
    frame: pd.DataFrame, arm: str, seed: str | None, scores: Sequence[str], groups: Sequence[str],
    benchmark: str | None, evaluation_seed: str | None,
) -> pd.DataFrame:  # fmt: skip
    """Rows of arm, seed, evaluation, group, benchmark, value and row."""
    needed = [name for name in (arm, benchmark, evaluation_seed, seed) if name]
    names = {name: _to_names(frame[name]) for name in [*needed, *groups]}
    for name in needed:
        if (absent := names[name] == "").any():
            raise TableError(f"row {frame.index[absent][0] + 2} has no {name}")
    varying_columns = [name for name in groups if names[name].nunique() > 1] or list(groups)
    group = pd.Series("", index=frame.index)
    for name in varying_columns:
        group = group.str.cat(names[name], sep=", ").str.strip(", ")
    columns = {"arm": names[arm], "seed": 0 if seed is None else _to_seeds(names[seed]), "group": group}
    label = pd.DataFrame({**columns, "row": frame.index + 2})
    label["evaluation"] = names[evaluation_seed] if evaluation_seed else ""
    # Arms stand in the table's order, whichever of their rows are left out.
    label = label.iloc[label.groupby(["group", "arm"], sort=False).ngroup().argsort(kind="stable")]
    parts = []
    for name in scores:
        title = names[benchmark] if benchmark else name
        title = title + f", {name}" if benchmark and len(scores) > 1 else title
        parts.append(label.assign(benchmark=title, value=_to_numbers(frame, name)))
    rows = pd.concat(parts, ignore_index=True)
    if seed is None and evaluation_seed is None:
        rows["seed"] = rows.groupby(["group", "arm", "benchmark"], sort=False).cumcount()
    return rows


def _to_names(column: pd.Series) -> pd.Series:
    """Names as they are spelled, however much they look like numbers, without blanks around them; empty where there is none."""
    codes, values = pd.factorize(column)
    texts = np.array([*(str(value).strip() for value in values), ""], dtype=object)  # the last: missing
    for text in texts:
        if not text.isprintable():
            raise TableError(
                f"row {column.index[codes == list(texts).index(text)][0] + 2}: {text!r} has control characters"
            )
    return pd.Series(texts[codes], index=column.index)


def _to_seeds(names: pd.Series) -> pd.Series:
    """Seeds as whole numbers where they are (``01`` and ``1.0`` too), else as they are spelled: of 20 digits a float makes one of many."""
    codes, texts = pd.factorize(names)
    numbers = pd.to_numeric(pd.Series(texts), errors="coerce").to_numpy(dtype=float)
    if bool((np.isfinite(numbers) & (numbers % 1 == 0) & (np.abs(numbers) < _MOST_EXACT)).all()):
        return pd.Series(numbers.astype(np.int64)[codes], index=names.index)
    return names


def _as_numbers(column: pd.Series) -> pd.Series:
    """A column as numbers, NaN for what is none."""
    numbers = column if pd.api.types.is_numeric_dtype(column) else pd.to_numeric(column.astype(str), errors="coerce")
    return numbers.astype(float)


def _to_numbers(frame: pd.DataFrame, name: str) -> pd.Series:
    """A column of scores as numbers. Raises `TableError` that names the row of one that is none."""
    numbers = _as_numbers(frame[name])
    rows = frame[name][numbers.isna() & frame[name].notna()]
    rows = rows[~rows.astype(str).str.strip().str.lower().isin(["", "nan", "null", "none"])]
    if len(rows):
        percent = "; write per cent as numbers: unit=percent" if str(rows.iloc[0]).strip().endswith("%") else ""
        raise TableError(
            f"row {rows.index[0] + 2}: {name}={rows.iloc[0]!r} is no number; {len(rows)} such rows{percent}"
        )
    if (huge := numbers.abs().between(_MOST_SCORE, math.inf, inclusive="left")).any():
        raise TableError(f"row {frame.index[huge][0] + 2}: {name}={numbers[huge].iloc[0]:g} is beyond {_MOST_SCORE:g}")
    return numbers


def _refuse_duplicates(rows: pd.DataFrame, frame: pd.DataFrame, roles: Sequence[str]) -> None:
    """Raises `TableError` where a score is there twice; it names the columns that could tell the rows apart."""
    keys = ["group", "arm", "seed", "benchmark", "evaluation"]
    duplicates = rows[rows.duplicated(keys, keep=False)]
    if not len(duplicates):
        return
    first = duplicates[keys].iloc[0]
    copies = duplicates[(duplicates[keys] == first).all(axis=1)]
    originals = frame.loc[copies["row"].unique() - 2]
    names = [name for name in frame.columns if name not in roles and originals[name].astype(str).nunique() > 1]
    hint = "keep one of them"
    if step := next((name for name in names if name.lower() in _STEPS), None):
        hint = f"they differ in {step}: where.{step}={_as_numbers(frame[step]).max():g} takes those of the last"
    elif names:
        hint = f"they differ in {', '.join(names[:_LIMIT])}: by= or where= tells them apart, evaluation_seed= averages them"
    place = ", ".join(filter(None, [first["arm"], f"seed {first['seed']}", first["benchmark"], first["group"]]))
    raise TableError(f"rows {' and '.join(map(str, copies['row'][:_LIMIT]))} both have the score of {place}; {hint}")


def _drop_unscored(rows: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """The rows that have a finite score; the others are told."""
    has_score = rows["value"].abs() < math.inf
    for row in rows[~has_score].head(_LIMIT).to_dict("records"):
        notes.append(
            f"row {row['row']} ({row['arm']}, seed {row['seed']}, {row['benchmark']}) has no "
            f"{'score' if math.isnan(row['value']) else 'finite score'}: that seed is left out there"
        )
    if (further_rows := int((~has_score).sum()) - _LIMIT) > 0:
        notes.append(f"{further_rows} further rows have no score")
    if not has_score.any():
        raise TableError("no row has a score")
    return rows[has_score].reset_index(drop=True)


def _average_evaluations(rows: pd.DataFrame, evaluation_seed: str | None, notes: list[str]) -> pd.DataFrame:
    """One score a run and benchmark: the mean over its evaluations, which vary below the training seed and are no replicates of it."""
    if evaluation_seed is None:
        return rows.drop(columns="evaluation")
    runs = rows.groupby(["group", "arm", "seed", "benchmark"], sort=False)["value"]
    spread, (fewest, most) = math.sqrt(runs.var(ddof=1).mean()), runs.size().agg(["min", "max"])
    count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    varied = "" if math.isnan(spread) else f"; within a run they vary by {spread:.3g} (SD)"
    notes.append(f"evaluations by {evaluation_seed}: a run counts once, with the mean of its {count}{varied}")
    first = rows.drop_duplicates(["group", "arm", "seed", "benchmark"])[["row"]].reset_index(drop=True)
    return runs.mean().reset_index().assign(row=first["row"])


def _guess_unit(rows: pd.DataFrame, notes: list[str]) -> str:
    """The unit by the size of the scores. Raises `TableError` where fractions and per cent stand in one table."""
    low, high = rows["value"].min(), rows["value"].max()
    if low >= 0 and high <= 1:
        notes.append("unit: fractions of 1, shown in per cent (unit=raw takes them as they are)")
        return "fraction"
    if low < 0 or high > 100 or high <= _LEAST_PERCENT:
        notes.append(f"unit: the table's own, since scores go from {low:g} to {high:g} (unit=percent for points)")
        return "raw"
    for name in ("row", "benchmark"):
        largest = rows.groupby(name, sort=False)["value"].max()
        if places := list(largest.index[(largest > 0) & (largest <= 1)]):
            text = f"{name} {', '.join(map(str, places[:_LIMIT]))}"
            raise TableError(f"per cent and fractions are mixed: {text} has no score above 1; mend it, or unit=percent")
    notes.append("unit: per cent")
    return "percent"


def _baselines(rows: pd.DataFrame, requests: Sequence[str], notes: list[str]) -> dict[str, str]:
    """Group → its baseline. Raises `TableError` for one that is not there, and for too many arms."""
    arms = {str(group): list(map(str, part["arm"].unique())) for group, part in rows.groupby("group", sort=False)}
    if (count := max(map(len, arms.values()))) > _MOST_ARMS:
        raise TableError(f"{count:,} arms are over {_MOST_ARMS}; arm= names the configurations, where= and by= fewer")
    all_arms = list(dict.fromkeys(arm for names in arms.values() for arm in names))
    if list(requests) == [ABOVE]:
        return dict.fromkeys(arms, ABOVE)
    requests = [arm for name in requests for arm in ([name] if name in all_arms else map(str.strip, name.split(",")))]
    if unknown := [name for name in requests if name not in all_arms]:
        raise TableError(f"no arm is called {unknown[0]!r}; baseline= is one of {', '.join(all_arms[:12])}, or {ABOVE}")
    baselines = {}
    for group, names in arms.items():
        first = next((name for name in requests if name in names), None)
        if requests and first is None:
            raise TableError(
                f"{group} has no arm {' or '.join(requests)}; it has {', '.join(names)}: baseline=A,B names one for each group"
            )
        baselines[group] = first or names[0]
        hint = "" if requests else ", the first arm"
        notes.append(f"compared with {baselines[group]}{hint}{f' in {group}' if group and len(arms) < _LIMIT else ''}")
    notes[:] = dict.fromkeys(notes)
    return baselines
