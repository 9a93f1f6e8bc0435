"""A table of final scores from anywhere as tidy rows: arm, seed, group, benchmark, value. What is guessed of it is told.

One row a score (long) or one column a benchmark (wide); CSV, TSV, Parquet, JSON and JSONL, also a table or a chart that wandb exported.
Nothing is dropped in silence: a row that cannot be a score is an error that names it, and every reading is a line of ``notes``.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

ABOVE = "above"
FILES = (".csv", ".tsv", ".txt", ".parquet", ".jsonl", ".ndjson", ".json")
_ARMS = (
    "arm", "method", "algorithm", "algo", "system", "variant", "config", "configuration", "exp_name", "group", "name", "run", "model",
)  # fmt: skip
_SEEDS = ("seed", "training_seed", "train_seed", "run_seed", "random_seed", "replicate", "trial")
_SCORES = ("score", "value", "accuracy", "acc", "mean_score", "return", "reward", "result")
_BENCHMARKS = ("benchmark", "task", "dataset", "eval", "evaluation", "env", "environment", "test_set")
_STEPS = ("step", "steps", "global_step", "_step", "epoch", "checkpoint")
_BASELINES = ("baseline", "base", "control", "reference", "vanilla", "uniform", "static", "naive")
_NO_SCORES = re.compile(
    r"_.*|.*(^|_)(id|idx|index|steps?|epochs?|runtime|seconds|timestamp|created|hours)$|unnamed.*", re.IGNORECASE
)
_SEED_NAME = re.compile(r"(^|[^a-z])seed$", re.IGNORECASE)
_SEED_SUFFIX = re.compile(r"(.+?)[-_/ .:]*(?:seed|(?<![a-z])s)[-_=: ]*(\d+)$", re.IGNORECASE)
_CHART = re.compile(r"(.+) - (.+)$")
_LIMIT = 5  # names or rows that a message lists
_MOST_EXACT = 2**53  # beyond it a float skips whole numbers
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
    """The file as a frame. Raises `TableError` for one that is no table."""
    suffix = path.suffix.lower()
    if suffix not in FILES:
        raise TableError(f"{path}: no table of a known kind; one of {', '.join(FILES)}")
    try:
        if suffix == ".parquet":
            frame = pd.read_parquet(path)
        elif "js" in suffix:
            frame = _read_json(path, lines=suffix != ".json")
        else:
            frame = _read_csv(path)
    except TableError:
        raise
    except (ValueError, OSError, csv.Error, RecursionError) as error:
        raise TableError(f"{path}: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from error
    if not len(frame):
        raise TableError(f"{path} has no rows")
    return frame


def _read_json(path: Path, lines: bool) -> pd.DataFrame:
    """The file as a frame; columns with lists or objects in them are texts, which can be told apart."""
    text = io.StringIO(path.read_text(encoding="utf-8-sig"))
    frame = pd.read_json(text, lines=lines, dtype=False, convert_axes=False, precise_float=True)
    for name in frame:
        if frame[name].map(lambda cell: isinstance(cell, list | dict)).any():
            frame[name] = frame[name].map(str)
    frame.index = pd.RangeIndex(-1, len(frame) - 1)  # errors add a header's line to the first row's
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    with path.open(encoding="utf-8-sig", newline="") as file:
        first_line = file.readline()
        if not first_line.strip():
            raise TableError(f"{path} has no header in its first line")
        dialect = csv.Sniffer().sniff(first_line, ",;\t|")
        file.seek(0)
        header, *rows = csv.reader(file, delimiter=dialect.delimiter)
    # Errors count blank lines, as an editor does.
    numbered_rows = {number: row for number, row in enumerate(rows) if row}
    for number, row in numbered_rows.items():
        if len(row) != len(header):
            raise TableError(f"{path}: row {number + 2} has {len(row)} cells, and the header {len(header)}")
    # Texts as they are spelled, since an arm may be called `nan`, `001` or `1e-3`; `_parse_numbers` makes numbers of the others.
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
) -> ScoreTable:
    """Read a frame as scores; what is not named is guessed where the names of its columns leave no doubt.

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

    Raises:
        TableError: a column that is not there or has no scores; rows that are twice there; an unknown baseline; mixed units.
    """
    notes: list[str] = []
    raw_frame = _flat_frame(frame)
    if raw_frame.columns.has_duplicates:
        raise TableError(f"two columns are called {raw_frame.columns[raw_frame.columns.duplicated()][0]!r}")
    frame, percent = _parse_numbers(raw_frame)
    frame = _drop_unfinished(_chart_runs(frame, notes), where or {}, notes)
    for column, value in (where or {}).items():
        frame = _select_rows(frame, column, value)
    groups, scores, baselines = _to_list(by), _to_list(score), _to_list(baseline)
    _require_columns(frame, [name for name in (arm, seed, benchmark, *groups, *scores) if name])
    arm, benchmark, groups = _named_columns(frame, arm, benchmark, groups)
    for name in (arm, *groups):  # names, however much they look like numbers
        if name in raw_frame:
            texts = raw_frame[name].loc[frame.index].map(lambda cell: cell.strip() if isinstance(cell, str) else cell)
            frame[name] = texts.replace("", np.nan)
    seed = seed or _guess(frame, _SEEDS) or next(filter(_SEED_NAME.search, frame.columns), None)
    frame, seed = _add_seeds(frame, arm, seed, benchmark, notes)
    keys = [name for name in (arm, seed, benchmark) if name]
    scores = scores or _guess_scores(frame, [*keys, *groups], notes)
    groups = groups or _guess_groups(frame, keys, notes) or _guess_groups(frame, keys, notes, _guess(frame, _STEPS))
    # Arms stand in the table's order, whichever of their rows are left out.
    frame = frame.iloc[frame.groupby([*groups, arm], sort=False, dropna=False).ngroup().argsort(kind="stable")]
    frame = _last_steps(frame, [*keys, *groups], scores, notes)
    groups = groups or _guess_groups(frame, keys, notes)
    rows = _tidy_rows(frame, arm, seed, scores, groups, benchmark)
    _refuse_duplicates(rows, frame, [*keys, *groups, *scores])
    notes.insert(0, _describe_columns(arm, "" if seed == _ROW_NUMBER else seed, scores, groups, benchmark))
    rows = _drop_unscored(rows, notes)
    if unit is None:
        unit = _written_percent(frame, scores, percent, notes) if percent & {*scores} else _guess_unit(rows, notes)
    name = scores[0] if len(scores) == 1 else "score"
    return ScoreTable(rows, _baselines(rows, baselines, notes), unit, name, seed != _ROW_NUMBER, notes)


def _flat_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a named index as columns, and numbers of rows, by which errors name them, as its index."""
    named = any(name is not None for name in frame.index.names)
    flat_frame = (frame.reset_index() if named else frame).rename(columns=str)
    numbered = pd.api.types.is_integer_dtype(flat_frame.index) and flat_frame.index.is_unique
    return flat_frame if numbered else flat_frame.reset_index(drop=True)


def _named_columns(
    frame: pd.DataFrame, arm: str | None, benchmark: str | None, groups: list[str]
) -> tuple[str, str | None, list[str]]:
    """The columns of arms, of benchmarks (None: there is none) and of what is judged apart. Raises `TableError`: nothing names the arms."""
    if benchmark is None:
        benchmark = next((name for name in groups if name.lower() in _BENCHMARKS), None) or _guess(frame, _BENCHMARKS)
    groups = [name for name in groups if name != benchmark]
    arm = arm or _guess(frame, [name for name in _ARMS if name not in map(str.lower, [*groups, benchmark or ""])])
    if arm is None:
        raise TableError(f"which column names the configurations? arm= is one of {', '.join(frame.columns)}")
    if benchmark and frame.groupby(arm)[benchmark].nunique().max() < 2 <= frame[benchmark].nunique():
        benchmark = None  # every arm has its own: what it was trained on
    return arm, benchmark, groups


_ROW_NUMBER = "number of the row"


def _to_list(value: str | Sequence[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _parse_numbers(raw_frame: pd.DataFrame) -> tuple[pd.DataFrame, set[str]]:
    """The frame with numbers in the columns of text that are numbers all through, and the columns that are written with a per cent sign."""
    columns, percent = {}, set()
    for name in raw_frame:
        column = raw_frame[name]
        if not pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            texts = column.astype("string").str.strip()
            texts = texts.mask(texts.isin(["", "nan", "NaN", "null", "None"]))
            numbers = _texts_as_numbers(texts)
            if numbers.notna().any() and bool((numbers.isna() == texts.isna()).all()):
                percent |= {str(name)} if texts.str.endswith("%").fillna(False).any() else set()
                whole = numbers.notna().all() and (numbers % 1 == 0).all() and numbers.abs().max() < _MOST_EXACT
                column = numbers.astype("int64") if whole else numbers
            else:
                column = column.where(texts.notna(), np.nan)
        columns[str(name)] = column
    return pd.DataFrame(columns), percent


def _texts_as_numbers(texts: pd.Series) -> pd.Series:
    """Stripped texts as numbers, those with a per cent sign too; NaN for others."""
    return pd.to_numeric(texts.str.removesuffix("%").str.strip(), errors="coerce").astype(float)


def _require_columns(frame: pd.DataFrame, names: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in frame]:
        raise TableError(f"the table has no column {unknown[0]!r}; it has {', '.join(frame.columns)}")


def _select_rows(frame: pd.DataFrame, column: str, value: object) -> pd.DataFrame:
    """The rows whose column has the value."""
    _require_columns(frame, [column])
    matches = frame[column].astype(str).str.lower() == str(value).lower()
    if (
        pd.api.types.is_numeric_dtype(frame[column])
        and (number := pd.to_numeric(str(value), errors="coerce")) == number
    ):
        matches |= frame[column] == number
    rows = frame[matches]
    if not len(rows):
        valid_values = ", ".join(map(str, frame[column].unique()[:_LIMIT]))
        raise TableError(f"no row has {column}={value}; it has {valid_values}")
    return rows


def _guess(frame: pd.DataFrame, names: Sequence[str]) -> str | None:
    """The column with the first of these names that the table has, in any case of letters."""
    columns = {name.lower(): name for name in frame.columns}
    return next((columns[name] for name in names if name in columns), None)


def _chart_runs(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """A chart that wandb exported (``Step``, then ``RUN - METRIC``) as one row a run, at the last step that it has."""
    step, *rest = frame.columns
    runs = [name for name in rest if _CHART.fullmatch(name) and not name.endswith(("__MIN", "__MAX"))]
    if step.lower() not in (*_STEPS, "relative time (process)") or not runs or len(runs) < len(rest) / 3:
        return frame
    rows: dict[str, dict[str, object]] = {}
    last_steps = set()
    for name in runs:
        scores = frame[name].dropna()
        match = _CHART.fullmatch(name)
        if match and len(scores):
            rows.setdefault(match[1], {"run": match[1]})[match[2]] = scores.iloc[-1]
            last_steps.add(frame[step][scores.index[-1]])
    notes.append(f"a chart of wandb: {len(rows)} runs, each at its last value")
    if len(last_steps) > 1:
        notes.append(_uneven_ends(step, last_steps))
    return pd.DataFrame(list(rows.values()))


def _uneven_ends(step: str, values: Collection[float]) -> str:
    return f"runs end at different {step}s: {', '.join(f'{value:g}' for value in sorted(values)[:_LIMIT])}"


def _drop_unfinished(frame: pd.DataFrame, where: Mapping[str, object], notes: list[str]) -> pd.DataFrame:
    """Leave out runs that wandb calls failed, crashed, killed or running, and tell of them; a score of theirs is none of a whole run."""
    state_column = _guess(frame, ["state"])
    if state_column is None or state_column in where:
        return frame
    run_states = frame[state_column].astype(str).str.lower()
    unfinished = run_states.isin(["failed", "crashed", "killed", "running"])
    if not unfinished.any() or not (run_states == "finished").any():
        return frame
    counts = ", ".join(f"{count} {name}" for name, count in run_states[unfinished].value_counts().items())
    notes.append(f"left out as not finished: {counts} (column {state_column}; where.{state_column}=crashed reads them)")
    return frame[~unfinished]


def _add_seeds(
    frame: pd.DataFrame, arm: str, seed: str | None, benchmark: str | None, notes: list[str]
) -> tuple[pd.DataFrame, str]:
    """The frame with a column of seeds: that of the table, the end of the arms' names, or the number of the row."""
    if seed is not None:
        if frame[seed].isna().any():
            raise TableError(f"row {frame.index[frame[seed].isna()][0] + 2} has no {seed}")
        return frame, seed
    matches = [_SEED_SUFFIX.fullmatch(str(name)) for name in frame[arm]]
    if all(matches):
        split = [(match[1], int(match[2])) for match in matches if match]
        notes.append(
            f"seeds are the ends of the names in {arm}: {frame[arm].iloc[0]!r} is {split[0][0]!r}, seed {split[0][1]}"
        )
        frame = frame.assign(seed=[number for _, number in split])
        frame[arm] = [name for name, _ in split]
        return frame, "seed"
    place = [name for name in (arm, benchmark) if name]
    step = _guess(frame, _STEPS)
    if step and frame.groupby(place)[step].nunique().max() > 1:
        raise TableError(
            f"no column of seeds, and {step} varies, so rows are no runs; name the column of runs: seed=COLUMN"
        )
    notes.append(
        "no column of seeds: the rows of an arm are its seeds, and arms are compared unpaired (seed= names the column)"
    )
    frame = frame.copy()
    frame[_ROW_NUMBER] = frame.groupby(place, sort=False).cumcount()
    return frame, _ROW_NUMBER


def _guess_scores(frame: pd.DataFrame, keys: Sequence[str | None], notes: list[str]) -> list[str]:
    """The columns of scores: the one with a name for it, else all that are numbers and vary among the seeds of an arm."""
    if column := _guess(frame, _SCORES):
        return [column]
    arm, *_ = keys
    names = [name for name in frame.columns if name not in keys and pd.api.types.is_numeric_dtype(frame[name])]
    non_scores = [name for name in names if _NO_SCORES.fullmatch(name) or frame.groupby(arm)[name].nunique().max() < 2]
    scores = [name for name in names if name not in non_scores]
    if not scores:
        texts = [name for name in frame.columns if name not in keys and name not in names]
        hint = f"; these are text: {', '.join(texts[:_LIMIT])}" if texts else ""
        raise TableError(
            f"no column of numbers that differ among the seeds of an arm{hint}. Name the scores: score=COLUMN[,COLUMN]"
        )
    spread = frame[scores]
    if len(scores) > 1 and (spread.min().min() < 0 or spread.max().max() > 100):
        raise TableError(
            f"which of these columns are scores? They differ in scale: {', '.join(scores[:12])}. Name them: score=COLUMN[,COLUMN]"
        )
    if non_scores:
        notes.append(f"no scores, by name or since every seed of an arm has the same: {', '.join(non_scores)}")
    return scores


def _last_steps(
    frame: pd.DataFrame, keys: Sequence[str | None], scores: Sequence[str], notes: list[str]
) -> pd.DataFrame:
    """The last step of each run, where there is a column of steps and a run has several."""
    step, names = _guess(frame, _STEPS), [name for name in dict.fromkeys(keys) if name]
    numbers = step is not None and step not in names and pd.api.types.is_numeric_dtype(frame[step])
    if step is None or not numbers or not frame.duplicated(names).any():
        return frame
    scored_rows = frame.dropna(subset=list(scores), how="all")
    last_steps = scored_rows.groupby(names, dropna=False)[step].transform("max")
    last = scored_rows[(scored_rows[step] == last_steps) | last_steps.isna()]  # a run without any step counts as it is
    duplicates = scored_rows[scored_rows.duplicated([*names, step], keep=False)]
    if len(duplicates):  # several runs have this arm and seed, and the last step of one would hide the others
        first = duplicates[(duplicates[[*names, step]] == duplicates[[*names, step]].iloc[0]).all(axis=1)]
        rows = " and ".join(str(row + 2) for row in first.index[:_LIMIT])
        difference = _difference(first, [*names, *scores]) or "are alike"
        raise TableError(f"rows {rows} are one arm, seed and {step}, and {difference}")
    if len(last) < len(frame):
        notes.append(f"the last {step} of each run counts: {len(last)} of {len(frame)} rows")
    if last[step].nunique() > 1:
        notes.append(_uneven_ends(step, last[step].dropna().unique()))
    return last


def _guess_groups(frame: pd.DataFrame, keys: Sequence[str], notes: list[str], step: str | None = None) -> list[str]:
    """The columns of text that tell apart what would be there twice, as few as do; none where nothing is, or no columns can.

    With ``step`` rows of one run may differ in it.
    """
    names = [*keys, *([step] if step and step not in keys else [])]
    texts = [
        name
        for name in frame.columns
        if name not in names
        and not pd.api.types.is_numeric_dtype(frame[name])
        and 1 < frame[name].nunique(dropna=False) < len(frame)
    ]
    if not frame.duplicated(names).any() or frame.duplicated([*names, *texts]).any():
        return []
    for name in list(texts):
        fewer = [other for other in texts if other != name]
        if not frame.duplicated([*names, *fewer]).any():
            texts = fewer
    notes.append(f"seeds repeat, so {', '.join(texts)} {'is' if len(texts) == 1 else 'are'} judged apart")
    return texts


def _tidy_rows(
    frame: pd.DataFrame, arm: str, seed: str, scores: Sequence[str], groups: Sequence[str], benchmark: str | None
) -> pd.DataFrame:
    """Rows of arm, seed, group, benchmark, value and row."""
    for name in filter(None, (arm, benchmark)):
        if frame[name].isna().any():
            raise TableError(f"row {frame.index[frame[name].isna()][0] + 2} has no {name}")
    varying_columns = [name for name in groups if frame[name].nunique(dropna=False) > 1] or list(groups)
    texts = frame[varying_columns].astype(object).where(frame[varying_columns].notna(), "")
    group = [", ".join(part for part in map(str, row) if part) for row in texts.to_numpy()]
    label = pd.DataFrame({"arm": frame[arm].astype(str), "seed": frame[seed], "group": group, "row": frame.index + 2})
    parts = []
    for name in scores:
        title = frame[benchmark].astype(str) if benchmark else name
        title = title + f", {name}" if benchmark and len(scores) > 1 else title
        parts.append(label.assign(benchmark=title, value=_to_numbers(frame, name)))
    return pd.concat(parts, ignore_index=True)


def _to_numbers(frame: pd.DataFrame, name: str) -> pd.Series:
    """A column of scores as numbers, ``86.4 %`` too."""
    if pd.api.types.is_numeric_dtype(frame[name]):
        return frame[name].astype(float)
    numbers = _texts_as_numbers(frame[name].astype("string").str.strip())
    rows = frame[numbers.isna() & frame[name].notna()]
    if len(rows):
        raise TableError(f"row {rows.index[0] + 2}: {name}={rows[name].iloc[0]!r} is no number; {len(rows)} such rows")
    return numbers


def _refuse_duplicates(rows: pd.DataFrame, frame: pd.DataFrame, roles: Sequence[str | None]) -> None:
    """Raises `TableError` where a score is there twice; it names the columns that could tell the rows apart."""
    keys = ["group", "arm", "seed", "benchmark"]
    duplicates = rows[rows.duplicated(keys, keep=False)]
    if not len(duplicates):
        return
    first = duplicates[keys].iloc[0]
    copies = duplicates[(duplicates[keys] == first).all(axis=1)]
    originals = frame.loc[copies["row"].unique() - 2]
    difference = _difference(originals, roles)
    hint = f"they {difference}" if difference else "keep one of them"
    place = ", ".join(filter(None, [first["arm"], f"seed {first['seed']}", first["benchmark"], first["group"]]))
    raise TableError(f"rows {' and '.join(map(str, copies['row'][:_LIMIT]))} both have the score of {place}; {hint}")


def _difference(rows: pd.DataFrame, roles: Sequence[str | None]) -> str:
    """Name the columns without a role that tell rows apart; an empty text where none does."""
    names = [name for name in rows.columns if name not in roles and rows[name].nunique(dropna=False) > 1]
    return f"differ in {', '.join(names[:_LIMIT])}: by= or where= tells them apart" if names else ""


def _drop_unscored(rows: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """The rows that have a finite score; the others are told."""
    has_score = rows["value"].abs() < float("inf")
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


def _written_percent(frame: pd.DataFrame, scores: Sequence[str], percent: set[str], notes: list[str]) -> str:
    """The unit of scores that are written with per cent signs. Raises `TableError` for fractions beside them."""
    if fractions := [name for name in scores if name not in percent and frame[name].between(0, 1).all()]:
        raise TableError(
            f"per cent and fractions are mixed: {fractions[0]} has no per cent sign and no score above 1; make them one, or give "
            "unit=percent"
        )
    notes.append("unit: per cent, as written")
    return "percent"


def _guess_unit(rows: pd.DataFrame, notes: list[str]) -> str:
    """The unit by the size of the scores. Raises `TableError` where fractions and per cent stand in one table."""
    low, high = rows["value"].min(), rows["value"].max()
    if low >= 0 and high <= 1:
        notes.append("unit: fractions of 1, shown in per cent (unit=raw takes them as they are)")
        return "fraction"
    if low < 0 or high > 100 or high <= _LEAST_PERCENT:
        notes.append(f"unit: the table's own, since scores go from {low:g} to {high:g} (unit=percent for points)")
        return "raw"
    largest = {name: rows.groupby(name, sort=False)["value"].max() for name in ("row", "benchmark")}
    small = {name: list(values.index[(values > 0) & (values <= 1)]) for name, values in largest.items()}
    for name, places in small.items():
        if places:
            text = f"{name} {', '.join(map(str, places[:_LIMIT]))}"
            raise TableError(
                f"per cent and fractions are mixed: {text} has no score above 1; make them one, or give unit=percent"
            )
    notes.append("unit: per cent")
    return "percent"


def _baselines(rows: pd.DataFrame, requests: Sequence[str], notes: list[str]) -> dict[str, str]:
    """Group → its baseline. Raises `TableError` for one that is not there."""
    arms = {str(group): list(map(str, part["arm"].unique())) for group, part in rows.groupby("group", sort=False)}
    all_arms = list(dict.fromkeys(arm for names in arms.values() for arm in names))
    if list(requests) == [ABOVE]:
        return dict.fromkeys(arms, ABOVE)
    requests = [arm for name in requests for arm in ([name] if name in all_arms else map(str.strip, name.split(",")))]
    if unknown := [name for name in requests if name not in all_arms]:
        raise TableError(f"no arm is called {unknown[0]!r}; baseline= is one of {', '.join(all_arms[:12])}, or {ABOVE}")
    baselines = {}
    for group, names in arms.items():
        candidates = [name for name in names if name.lower() in _BASELINES] or [
            name for name in names if "baseline" in name.lower()
        ]
        first = next((name for name in requests if name in names), None)
        if requests and first is None:
            raise TableError(
                f"{group} has no arm {' or '.join(requests)}; it has {', '.join(names)}: baseline=A,B names one for each group"
            )
        baselines[group] = first or (candidates[0] if len(candidates) == 1 else names[0])
        hint = "" if requests else " by its name" if len(candidates) == 1 else ", the first arm"
        notes.append(f"compared with {baselines[group]}{hint}{f' in {group}' if group and len(arms) < _LIMIT else ''}")
    notes[:] = dict.fromkeys(notes)
    return baselines


def _describe_columns(arm: str, seed: str, scores: Sequence[str], groups: Sequence[str], benchmark: str | None) -> str:
    parts = {"arm": arm, "seed": seed, "score": ", ".join(scores), "benchmark": benchmark}
    parts["judged apart by"] = ", ".join(groups)
    return f"columns read as {'; '.join(f'{name}: {value}' for name, value in parts.items() if value)}"
