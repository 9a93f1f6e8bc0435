"""Records (id, problem, answer) from a JSONL file or from a pinned revision of a dataset on the Hugging Face Hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.store.atomic import write_file

_COMMIT = re.compile(r"[0-9a-f]{40}")
_LOCAL = (
    "give a local JSONL file: task.path=FILE for training problems, evaluation.benchmarks.NAME.path=FILE for a benchmark "
    "(`harness evaluate`: data.path=DIR)"
)


@dataclass(frozen=True, slots=True)
class Record:
    """One problem as its source tells it: no prompt template applied yet."""

    id: str
    problem: str
    answer: str


def read_jsonl(path: Path) -> list[Record]:
    """Lines `{"id", "problem", "answer"}`; blank lines are skipped, further keys are ignored.

    Raises:
        ConfigError: no such file, or a line that is not such an object or repeats an id; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}; give a JSONL file with id, problem, answer"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 (byte at offset {error.start}); write the file as UTF-8"
        ) from error
    records: list[Record] = []
    seen: set[str] = set()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        row = parse_line(line, f"{path} line {number}", ("id", "problem", "answer"))
        record = Record(str(row["id"]), str(row["problem"]), str(row["answer"]))
        if record.id in seen:
            raise ConfigError(f"{path} line {number} repeats the id {record.id!r}; ids must be distinct")
        seen.add(record.id)
        records.append(record)
    return records


def parse_line(line: str, where: str, needs: Sequence[str]) -> dict[str, Any]:
    """Return the object on a line of a JSONL file.

    Raises:
        ConfigError: it is none, or lacks a key of `needs`; the message begins with `where`.
    """
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where} is not JSON: {error}") from error
    missing = [key for key in needs if not isinstance(row, dict) or key not in row]
    if missing:
        raise ConfigError(f"{where} has no {', '.join(missing)}; it needs {', '.join(needs)}")
    for key in {"id", "problem", "answer"} & set(needs):
        value = row[key]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ConfigError(f"{where}: {key} must be a text or a number, not {json.dumps(value)[:40]}")
    _require_unicode(row, where)
    return dict(row)


def _require_unicode(row: Any, where: str) -> None:
    """Raises `ConfigError` for half of a surrogate pair, which JSON can spell and no file can hold."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{where} holds half of a surrogate pair ({error.object[error.start]!r}); remove it"
        ) from error


def write_jsonl(path: Path, records: Iterable[Record]) -> None:
    """Publish records as a file that `read_jsonl` reads."""
    lines = (json.dumps(asdict(record), ensure_ascii=False) for record in records)
    write_file(path, "".join(f"{line}\n" for line in lines).encode())


def read_hub(source: str, subset: str | None, split: str, revision: str | None) -> Iterator[dict[str, Any]]:
    """Return the rows of one split at one commit, through the optional package `datasets` (which caches what it downloads).

    Raises:
        ConfigError: `datasets` is not installed, the revision is no commit, or the Hub cannot be reached.
    """
    if revision is None or _COMMIT.fullmatch(revision) is None:
        raise ConfigError(
            f"the data of {source} is not pinned (revision={revision!r}): set revision= to a commit of 40 hexadecimal digits, "
            f"or {_LOCAL}"
        )
    try:
        import datasets
    except ImportError as error:
        raise ConfigError(
            f"reading {source} from the Hub needs the package `datasets` (pip install -e '.[data]'); "
            f"or {_LOCAL}"
        ) from error
    try:
        rows: Iterable[dict[str, Any]] = datasets.load_dataset(source, subset, split=split, revision=revision)
    except (OSError, ValueError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"cannot load {source} ({subset or 'default'}, {split}) at {revision[:12]} from the Hub: {first}. "
            f"Without network, {_LOCAL}"
        ) from error
    return iter(rows)


def at(row: dict[str, Any], field: str) -> Any:
    """Return the value under a dotted path such as `reward_model.ground_truth` or `prompt.0.content`.

    Raises:
        ConfigError: the row has no such field.
    """
    value: Any = row
    for part in field.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            known = ", ".join(map(str, row))
            raise ConfigError(f"a row has no field {field!r}; its fields are {known}") from error
    return value
