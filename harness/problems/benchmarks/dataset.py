r"""Problems from a dataset: a pinned revision on the Hugging Face Hub, or a local file (`path=`: JSONL with id, problem, answer; parquet).

The benchmarks and training sets under `conf/benchmark/` and `conf/task/` are this module with other settings.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError, require_range
from harness.configuration.registry import neutral, place
from harness.problems.problem import (
    Benchmark,
    DuplicateReport,
    Problem,
    deduplicate,
    lines_of,
    read_hub,
    read_jsonl,
    read_parquet,
    template,
    value_at,
)


@dataclass
class Fields:
    """Places of problem and answer in a row of the Hub's dataset or of a local file, as dotted paths.

    Attributes:
        problem: the statement.
        answer: the gold; of a list of several the parts are joined by commas.
        problem_after: the statement begins after the first occurrence of this text, if it occurs.
        problem_before: the statement ends before the last occurrence of this text, if it occurs.
        answer_after: the gold begins after the last occurrence of this text, which must occur.
    """

    problem: str = "problem"
    answer: str = "answer"
    problem_after: str = ""
    problem_before: str = ""
    answer_after: str = ""


@dataclass
class Config:
    """One split of one dataset.

    Attributes:
        name: the benchmark's name; ids are `<name>/<row>`.
        version: raised whenever prompts or golds change.
        source: dataset id on the Hub.
        subset: its configuration, if it has several.
        split: its split.
        revision: the commit that is read, 40 hexadecimal digits.
        fields: where its rows keep problem and answer.
        path: a local JSONL or parquet file that is read instead of the Hub.
        template: name of a prompt template, or a text with `{problem}` (after `chat:`: a user turn).
        system: the system turn before a user turn; empty: none.
        deduplicate: keep one copy of each prompt and no prompt with conflicting answers.
        limit: the first so many problems only; null: all.
    """

    kind: str = "dataset"
    name: str = ""
    version: int = 1
    source: str = place("")
    subset: str | None = None
    split: str = "test"
    revision: str | None = place(None)
    fields: Fields = field(default_factory=Fields)
    path: str | None = place(None)
    template: str = "boxed"
    system: str = neutral("")
    deduplicate: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        name = self.name or "dataset"
        require_range(f"{name}.version", self.version, 1)
        if self.limit is not None:
            require_range(f"{name}.limit", self.limit, 1)
        if not template(self.template).chat and self.system:
            raise ConfigError(f"{name}.system needs a template of user turns: boxed, plain_chat or chat:TEXT")


def load(config: Config) -> Benchmark:
    """See the family's contract. Raises `ConfigError`: the data is missing, not pinned, malformed or empty."""
    records, _ = load_records(config)
    make = template(config.template)
    return Benchmark(
        name=config.name or Path(config.path or config.source).stem,
        version=config.version,
        problems=[replace(record, prompt=make(record.prompt)) for record in records],
        chat=make.chat,
        system=config.system,
    )


def load_records(config: Config) -> tuple[list[Problem], DuplicateReport]:
    """Return the problems without a template, and what is repeated in the source."""
    source = config.path or config.source
    local = bool(config.path) and not str(config.path).endswith(".parquet")
    is_plain = local and not _has_fields(Path(str(config.path)), config.fields)
    rows = read_jsonl(Path(str(config.path))) if is_plain else _records(config)
    if not config.deduplicate:
        rows = list(rows)
    distinct, report = deduplicate(rows)
    if not report.rows:
        raise ConfigError(f"{source} holds no problems")
    records = distinct if config.deduplicate else list(rows)
    if not records:
        raise ConfigError(f"{source}: the copies of every prompt have different answers; keep one of each")
    for what, attribute in (("problem", "prompt"), ("answer", "gold")):
        if empty := [record.id for record in records if not getattr(record, attribute).strip()]:
            raise ConfigError(f"{source}: the {what} of {empty[0]!r} is empty ({len(empty)} in all); leave them out")
    return records[: config.limit], report


def _records(config: Config) -> Iterator[Problem]:
    if not (config.source or config.path):
        raise ConfigError("a dataset needs `source` (an id on the Hub) or `path` (a local file)")
    rows: Iterable[dict[str, Any]]
    if not config.path:
        rows = read_hub(config.source, config.subset, config.split, config.revision)
    elif config.path.endswith(".parquet"):
        rows = read_parquet(Path(config.path))
    else:
        rows = (row for _, row in lines_of(Path(config.path)))
    for number, row in enumerate(rows):
        yield Problem(f"{config.name}/{number}", _problem(row, config.fields), _answer(row, config.fields))


def _has_fields(path: Path, fields: Fields) -> bool:
    """Say if a JSONL file's first line is a row of the dataset, not `id`, `problem` and `answer`."""
    row = next((row for _, row in lines_of(path)), {})
    try:
        text = _text(value_at(row, fields.problem)) + _text(value_at(row, fields.answer))
    except ConfigError:
        return False
    has_other_names = (fields.problem, fields.answer) != ("problem", "answer")
    return has_other_names or (fields.answer_after != "" and fields.answer_after in text)


def _problem(row: dict[str, object], fields: Fields) -> str:
    text = _text(value_at(row, fields.problem))
    if fields.problem_after and fields.problem_after in text:
        text = text.partition(fields.problem_after)[2]
    if fields.problem_before and fields.problem_before in text:
        text = text.rpartition(fields.problem_before)[0]
    return text.strip()


def _text(value: object) -> str:
    """Return a cell of a table as a text; an absent one and a number that is not finite are empty."""
    return "" if value is None or (isinstance(value, float) and not math.isfinite(value)) else str(value)


def _answer(row: dict[str, object], fields: Fields) -> str:
    value = value_at(row, fields.answer)
    text = ", ".join(map(_text, value)) if isinstance(value, list) else _text(value)
    if not fields.answer_after:
        return text.strip()
    if fields.answer_after not in text:
        raise ConfigError(f"an answer has no {fields.answer_after!r}: {text[:80]!r}")
    return text.rpartition(fields.answer_after)[2].strip()
