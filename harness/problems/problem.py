r"""Problems, their prompt templates and benchmarks, as the rest of the harness sees them.

`{problem}` stands for the problem in a template; nothing else in it is special. A template of kind `chat` is the user turn of the model's
own chat template; the others are the whole prompt, special tokens included. Names say what a template is; the papers that use it are
named in the presets under `conf/evaluation/`.
"""

import contextlib
import hashlib
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash
from harness.configuration.numbers import format_count
from harness.configuration.registry import BENCHMARK, implementation, member, nearest
from harness.configuration.schema import load_dataclass
from harness.store.atomic import write_file

Chances = Sequence[Sequence[float]]
"""Pairs of a probability that a blind answer is right and the share of the problems where it is that; of the rest it is 0."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: a stable id, the prompt (of a source: without a template), the gold answer as the verifier reads it.

    `chance`: the probability that a blind answer is right (one over the values or options that there are); None: unknown.
    """

    id: str
    prompt: str
    gold: str
    chance: float | None = None


@dataclass(frozen=True)
class Benchmark:
    """Named problems, maybe user turns of a `chat` template behind a `system` turn; `version` changes whenever prompts or golds do."""

    name: str
    version: int
    problems: Sequence[Problem]
    chat: bool = False
    system: str = ""

    @property
    def content(self) -> str:
        """A hash of every problem's id, prompt and gold answer: a file may change at its place."""
        return content_hash([[problem.id, problem.prompt, problem.gold] for problem in self.problems])

    @property
    def chances(self) -> Chances | None:
        """Each probability that a blind answer is right; where problems tell none, that of always answering a gold that is common."""
        chances = Counter(problem.chance for problem in self.problems)
        if None not in chances:
            return [[chance or 0.0, count / len(self.problems)] for chance, count in chances.items()]
        share = commonest_gold(self.problems)[1]
        return None if share is None else [[1.0, share]]


_COMMON = 0.05  # of the problems; a blind answer is a chance to speak of from there on


def commonest_gold(problems: Sequence[Problem]) -> tuple[str, float | None]:
    """The gold that most problems share and its share of them; None where golds are too many for it to be a guess."""
    gold, count = Counter(problem.gold for problem in problems).most_common(1)[0]
    share = count / len(problems)
    return gold, share if count > 1 and len(problems) >= 20 and share >= _COMMON else None


def chances_of(config: Any) -> Chances | None:
    """Return `Benchmark.chances` of a set that can be read here without the network; None where nobody knows it."""
    if config is None or (config.kind == "dataset" and not config.path):
        return None
    try:
        return load_benchmark(config).chances
    except ConfigError:  # it is said elsewhere
        return None


def is_held_out(text: str) -> bool:
    """Return whether the hash of a procedural problem's text puts it into the held-out split, as it does with one in five."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % 5 == 0


def load_benchmark(config: Any) -> Benchmark:
    """Load the benchmark of a member's configuration. Raises `ConfigError` that names the file and the fix."""
    return implementation(BENCHMARK, config).load(config)


def benchmark_config(values: Mapping[str, Any], where: str) -> Any:
    """Return the typed configuration of a benchmark from its mapping; errors begin with `where`."""
    return load_dataclass(member(BENCHMARK, values["kind"]).Config, values, where)


SLOT = "{problem}"


@dataclass(frozen=True)
class Template:
    """Text around a problem, and whether it is a user turn of a chat template."""

    text: str
    chat: bool

    def __call__(self, problem: str) -> str:
        return self.text.replace(SLOT, problem)


_R1 = (
    "A conversation between User and Assistant. The User asks a question, and the Assistant solves it. The Assistant first thinks "
    "about the reasoning process in the mind and then provides the User with the answer. The reasoning process is enclosed within "
    "<think> </think> and answer is enclosed within <answer> </answer> tags, respectively, i.e., <think> reasoning process here "
    "</think> <answer> answer here </answer>.\nUser: {problem}\nAssistant: <think>"
)
_ANSWER_LINE = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: $Answer (without "
    'quotes) where $Answer is the answer to the problem.\n\n{problem}\n\nRemember to put your answer on its own line after "Answer:".'
)
_OLMO_RLZERO = (
    "Solve the following problem step by step. The last line of your response should be the answer to the problem in form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\n{problem}\n\nRemember to put your answer on its own line "
    'after "Answer:"'
)
_QWEN_MATH = (
    "<|im_start|>system\nPlease reason step by step, and put your final answer within \\boxed{}.<|im_end|>\n"
    "<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n"
)
_BOXED = "{problem}\n\nPlease reason step by step, and put your final answer within \\boxed{}."

TEMPLATES = {
    "plain": Template(SLOT, chat=False),
    "plain_chat": Template(SLOT, chat=True),
    "boxed": Template(_BOXED, chat=True),
    "boxed_completion": Template(_BOXED + "\n", chat=False),
    "answer_line": Template(_ANSWER_LINE, chat=True),
    "olmo_rlzero": Template(_OLMO_RLZERO, chat=False),
    "qwen_math": Template(_QWEN_MATH, chat=False),
    "r1": Template(_R1, chat=False),
}


def template(name: str) -> Template:
    """Return a named template, or a text with `{problem}` in it as a whole prompt (`chat:` in front makes it a user turn)."""
    if name in TEMPLATES:
        return TEMPLATES[name]
    if SLOT in name:
        return Template(name.removeprefix("chat:"), chat=name.startswith("chat:"))
    raise ConfigError(f"template={name!r} is no template and has no {SLOT}{nearest(name, list(TEMPLATES))}")


_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUGE_EXPONENT = re.compile(r"[eE][+-]?\d{4,}")  # as a fraction it would fill the memory
_EXAMPLES = 5
_LOCAL = "give a local JSONL file: task.path=FILE, evaluation.benchmarks.NAME.path=FILE or data.path=DIR"


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One solved problem: where it is from, the statement without a template, the gold answer, and the response to imitate."""

    id: str
    problem: str
    answer: str
    response: str


def read_jsonl(path: Path) -> list[Problem]:
    """Lines `{"id", "problem", "answer"}`, maybe `"chance"` (`Problem`); further keys are ignored. Raises ConfigError as `rows_of`."""
    rows = rows_of(path, ("id", "problem", "answer"))
    return [
        Problem(str(row["id"]), str(row["problem"]), str(row["answer"]), _chance(row, where)) for where, row in rows
    ]


def _chance(row: Mapping[str, Any], where: str) -> float | None:
    chance = row.get("chance")
    if chance is None:
        return None
    if isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 <= chance < 1:
        raise ConfigError(f"{where}: chance must be a probability from 0 to below 1, not {json.dumps(chance)[:40]}")
    return float(chance)


def rows_of(path: Path, keys: Sequence[str], warnings: list[str] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield `lines_of` a file whose lines have ids. Raises ConfigError as that, and for an id that is repeated."""
    ids: set[str] = set()
    for where, row in lines_of(path, keys, warnings):
        if str(row["id"]) in ids:
            raise ConfigError(f"{where} repeats the id {row['id']!r}; ids must be distinct")
        ids.add(str(row["id"]))
        yield where, row


def lines_of(
    path: Path, keys: Sequence[str] = (), warnings: list[str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield where each line of a JSONL file stands (`FILE line 3`) and its object; blank lines are skipped.

    `warnings` takes a line of words where the file ends within a line, which is left out; None: such a file is an error. Raises
    `ConfigError` that names the line: no such file, or a line that is no object with these keys.
    """
    try:
        content = path.read_bytes()
        lines = content.decode().removeprefix("\ufeff").split("\n")
    except OSError as error:
        form = f" with {', '.join(keys)}" if keys else ""
        raise ConfigError(f"cannot read {path}: {error.strerror}; give a JSONL file{form}") from error
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path} line {number} is not UTF-8 (offset {error.start}); write it so") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path} line {number}"
            if warnings is not None and 1 < number == len(lines) and not _is_whole(line):
                warnings.append(f"the file ends within line {number}, which is left out")
                return
            yield where, parse_line(line, where, keys)


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def parse_line(line: str, where: str, keys: Sequence[str]) -> dict[str, Any]:
    """Return the object on a line of a JSONL file. Raises `ConfigError` that begins with `where`: it is none, or lacks a key."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        form = f"; a line is one object{' with ' * bool(keys)}{', '.join(keys)}"
        fault = "is CSV, not JSON" if line.lstrip()[:1] not in ("{", "[") and "," in line else f"is not JSON: {error}"
        raise ConfigError(f"{where} {fault}{form}") from error
    if not isinstance(row, dict):
        raise ConfigError(f"{where} is no JSON object; write one object a line, not a list of them")
    if missing := [key for key in keys if key not in row]:
        raise ConfigError(f"{where} has no {', '.join(missing)}; it needs {', '.join(keys)} and has {', '.join(row)}")
    for key in {"id", "problem", "answer"} & set(keys):
        value = row[key]
        infinite = isinstance(value, float) and not math.isfinite(value)  # JSON's NaN, and 1e400
        if isinstance(value, bool) or not isinstance(value, str | int | float) or infinite:
            raise ConfigError(f"{where}: {key} must be a text or a number, not {json.dumps(value)[:40]}")
    refuse_half_characters(row, where)
    return row


def refuse_half_characters(row: Mapping[str, Any], where: str) -> None:
    """Raise ConfigError for half of a surrogate pair in a text: JSON can spell it, no file can hold it."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ConfigError(f"{where} holds half of a surrogate pair ({half!r}); remove it") from error


def write_jsonl(path: Path, problems: Iterable[Problem]) -> None:
    rows = ({"id": each.id, "problem": each.prompt, "answer": each.gold, "chance": each.chance} for each in problems)
    known = ({key: value for key, value in row.items() if value is not None} for row in rows)
    lines = (json.dumps(row, ensure_ascii=False) for row in known)
    write_file(path, "".join(f"{line}\n" for line in lines).encode())


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Return the rows of a parquet file. Raises `ConfigError`: it cannot be read."""
    import pyarrow.parquet

    try:
        yield from pyarrow.parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path} as parquet: {error}; {_LOCAL}") from error


def read_hub(source: str, subset: str | None, split: str, revision: str | None) -> Iterator[dict[str, Any]]:
    """Return the rows of one split at one commit, through the optional package `datasets`. Raises `ConfigError`."""
    if revision is None or _COMMIT.fullmatch(revision) is None:
        raise ConfigError(f"the data of {source} is not pinned: revision={revision!r} is no commit; or {_LOCAL}")
    try:
        import datasets
    except ImportError as error:
        raise ConfigError(f"reading {source} from the Hub needs pip install -e '.[data]'; or {_LOCAL}") from error
    try:
        rows: Iterable[dict[str, Any]] = datasets.load_dataset(source, subset, split=split, revision=revision)
    except (OSError, ValueError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"cannot load {source} ({subset or 'default'}, {split}) at {revision[:12]} from the Hub: {first}. Set revision= to another; "
            f"without network, {_LOCAL}"
        ) from error
    return iter(rows)


def value_at(row: dict[str, Any], field: str) -> Any:
    """Return the value under a dotted path such as `prompt.0.content`. Raises `ConfigError`: the row has no such field."""
    value: Any = row
    for part in field.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            fields = ", ".join(map(str, row))
            raise ConfigError(f"a row has no field {field!r}; its fields are {fields}") from error
    return value


def normalise(text: str) -> str:
    """Return a text with compatibility forms unified, white space collapsed, lower case: what makes two prompts the same prompt."""
    return " ".join(unicodedata.normalize("NFKC", text).lower().split())


@dataclass
class DuplicateReport:
    """The repeats found among `rows` records."""

    rows: int = 0
    copy_counts: dict[str, int] = field(default_factory=dict)  # of prompts that occur more than once
    conflicts: dict[str, list[str]] = field(default_factory=dict)  # prompt → the unequal answers of its copies

    def lines(self) -> list[str]:
        texts = []
        if self.copy_counts:
            extra = sum(self.copy_counts.values()) - len(self.copy_counts)
            most = max(self.copy_counts.values())
            texts.append(
                f"{format_count(len(self.copy_counts), 'repeated prompt')} ({format_count(extra, 'surplus row')} of {self.rows}, "
                f"up to {most} copies; first: {_excerpt(next(iter(self.copy_counts)))})"
            )
        if self.conflicts:
            examples = "; ".join(
                f"{_excerpt(prompt)} → {' / '.join(answers)}"
                for prompt, answers in list(self.conflicts.items())[:_EXAMPLES]
            )
            texts.append(f"{format_count(len(self.conflicts), 'prompt')} with conflicting answers ({examples})")
        return texts


def deduplicate(records: Iterable[Problem]) -> tuple[list[Problem], DuplicateReport]:
    """Return the first record of every prompt, in order, without prompts whose copies conflict. `records` are read once."""
    first: dict[str, Problem] = {}
    copies: dict[str, int] = {}
    answers: dict[str, list[str]] = {}
    key_of: dict[str, str] = {}  # raw text → key: exact copies, the usual case, are normalised once
    rows = 0
    for record in records:
        rows += 1
        key = key_of.get(record.prompt)
        if key is None:
            key = key_of[record.prompt] = normalise(record.prompt)
        copies[key] = copies.get(key, 0) + 1
        original = first.setdefault(key, record)
        if original is record:
            answers[key] = [record.gold]
        elif record.gold not in answers[key] and not any(_same_answer(a, record.gold) for a in answers[key]):
            answers[key].append(record.gold)
    report = DuplicateReport(
        rows=rows,
        copy_counts={key: count for key, count in copies.items() if count > 1},
        conflicts={key: different for key, different in answers.items() if len(different) > 1},
    )
    return [record for key, record in first.items() if key not in report.conflicts], report


def _same_answer(a: str, b: str) -> bool:
    """Equality as exact numbers where both are, else as normalised texts; the same on every machine."""
    with contextlib.suppress(ValueError, ZeroDivisionError):
        if not (_HUGE_EXPONENT.search(a) or _HUGE_EXPONENT.search(b)):
            return Fraction(a.strip()) == Fraction(b.strip())
    return normalise(a) == normalise(b)


def _excerpt(text: str) -> str:
    return f"{text[:60]!r}" + ("…" if len(text) > 60 else "")
