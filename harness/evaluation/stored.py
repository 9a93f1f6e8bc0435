"""Samples that are stored, of runs, of evaluations and of recorded generations, with their golds: read, and graded again.

Whoever samples writes the problems beside the samples, so that nothing outside of the store says what was asked.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from harness.configuration.error import ConfigError
from harness.evaluation.formats._sample import LOST
from harness.evaluation.recorded import SAMPLES_FILE, SUMMARY_FILE, verdicts_of
from harness.problems.problem import Benchmark, Problem, read_jsonl, write_jsonl
from harness.store import ResultStore, RunDir
from harness.store.error import TornFile
from harness.store.layout import MANIFEST, PROBLEMS, RUN_ID, part_paths, problems_file, read_object
from harness.store.samples import read_parts
from harness.store.seal import folder_fault
from harness.verify import MathVerifier

ABOUT = "about.json"
_EXAMPLES = 20


def write_problems(path: Path, benchmark: Benchmark) -> None:
    """Write the problems as the policy saw them beside their samples, unless they are there."""
    if not path.exists():
        write_jsonl(path, [replace(problem, chance=None) for problem in benchmark.problems])


def problem_texts(run: RunDir, benchmark: str) -> dict[str, Problem]:
    """Return the problems of a run by id, with the prompts that the policy saw; none where the run has no samples."""
    path = problems_file(run.path, benchmark)
    return _problems(path) if path.exists() else {}


def _problems(path: Path) -> dict[str, Problem]:
    return {problem.id: problem for problem in read_jsonl(path)}


def changed_lines(frame: pd.DataFrame) -> list[str]:
    """Say what changed in a frame of `regrade`: per set the averages, the transitions of verdicts, the first samples that flipped."""
    lines, changes = [], frame[frame["verdict"] != frame["old_verdict"]]
    for name, rows in frame.groupby("set", sort=False):
        old, new = 100 * rows["old_correct"].mean(), 100 * rows["correct"].mean()
        count = int((rows["verdict"] != rows["old_verdict"]).sum())
        lines.append(f"{name}: {count} of {len(rows)} verdicts changed; avg {old:.2f} % → {new:.2f} %")
    moves = Counter(zip(changes["old_verdict"], changes["verdict"], strict=True))
    lines += [f"  {old} → {new}: {count}" for (old, new), count in moves.most_common()]
    flips = frame[frame["correct"] != frame["old_correct"]]
    for row in flips.head(_EXAMPLES).to_dict("records"):
        lines.append(
            f"  {row['problem_id']} sample {row['sample_index']}: {row['old_verdict']} ({_answer_text(row['old_answer'])}) → "
            f"{row['verdict']} ({_answer_text(row['answer'])}), gold {row['gold']!r}"
        )
    if len(flips) > _EXAMPLES:
        lines.append(f"  ... and {len(flips) - _EXAMPLES} more that count differently now")
    return lines


def regrade(result: str, store: ResultStore, verifier: MathVerifier) -> pd.DataFrame:
    """Grade the samples of a result again: a folder of `harness evaluate`, or a run (RUN_ID@STEP). Raises `ConfigError` without samples.

    A row a sample, with verdict, answer and correct as they were (`old_`) and as they are now.
    """
    frame = stored_samples(result, store)
    old_frame = frame.rename(columns={name: f"old_{name}" for name in ("verdict", "answer", "correct")})
    return graded_frame(old_frame, verifier)


def graded_frame(
    frame: pd.DataFrame, verifier: MathVerifier, progress: Callable[[int, int], None] | None = None
) -> pd.DataFrame:
    """Return stored samples with verdict, answer and correct by this verifier."""
    lost_R = frame["finish_reason"] == LOST
    responses = [None if is_lost else text for text, is_lost in zip(frame["response"], lost_R, strict=True)]
    problems = frame["problem"] if "problem" in frame else [None] * len(frame)
    texts = [text if isinstance(text, str) else None for text in problems]
    verdicts = verdicts_of(
        responses, frame["gold"].tolist(), texts, frame["finish_reason"].tolist(), verifier, progress
    )
    return frame.assign(
        verdict=[verdict.verdict for verdict in verdicts],
        answer=pd.Series([verdict.answer for verdict in verdicts], dtype=object, index=frame.index),
        correct=[verdict.correct for verdict in verdicts],
    )


def stored_samples(result: str, store: ResultStore) -> pd.DataFrame:
    """Return the stored samples of a result with their golds, before new verdicts (`regrade`); and their model and benchmark."""
    path = Path(result)
    if (path / SAMPLES_FILE).exists():
        frame = pq.read_table(path / SAMPLES_FILE).to_pandas()
        about = read_object(path / SUMMARY_FILE, "grade the samples again") or {}
        return frame.assign(set=path.name, model=path.name, benchmark="", rules=_rules(about.get("verifier", {})))
    if (path / ABOUT).exists() and part_paths(path):
        return _model_samples(path)
    if (path / "evaluation.json").exists():
        return pd.concat(list(_evaluated_samples(path, store)), ignore_index=True)
    stem, _, mark = result.rpartition("@") if "@" in result else (result, "", "")
    run = RunDir(Path(stem).resolve()) if (Path(stem) / MANIFEST).exists() else None
    if run is None and RUN_ID.fullmatch(stem):
        run = store.run(stem)
    if run is None or not run.benchmarks():
        raise ConfigError(f"{result}: no stored samples {'there' if run is None else 'of this run'}; name another")
    return pd.concat([_run_samples(run, name, mark) for name in run.benchmarks()], ignore_index=True)


def _evaluated_samples(evaluation: Path, store: ResultStore) -> Iterator[pd.DataFrame]:
    """The samples of each cell of an evaluation, under the results root that holds it, else (`out=`) the store's.

    A folder is one checkpoint's on one benchmark: it has all caps, samples of larger evaluations, and may be several models'.
    """
    roots = (evaluation.resolve().parent.parent, store.root)
    for cell in json.loads((evaluation / "evaluation.json").read_bytes())["cells"]:
        matches = [root / cell["samples"] for root in roots if (root / cell["samples"] / ABOUT).exists()]
        if not matches:
            raise ConfigError(f"its samples ({cell['samples']}) are not under {store.root}; give runtime.results=DIR")
        frame = _model_samples(matches[0], cell["model"])
        in_cell = (frame["sample_index"] < cell["samples_per_problem"]) & (frame["max_response_tokens"] == cell["cap"])
        yield frame[in_cell]


def _answer_text(answer: object) -> str:
    return repr(answer) if isinstance(answer, str) else "no answer"


def _model_samples(folder: Path, model: str | None = None) -> pd.DataFrame:
    again = "delete the folder, then evaluate again"
    if fault := folder_fault(folder):
        raise TornFile(f"{fault}; {again}")
    about = read_object(folder / ABOUT, again) or {}
    if not about.keys() >= {"benchmark", "names"}:
        raise TornFile(f"{folder / ABOUT} is not of an evaluation; {again}")
    name, benchmark = model or about["names"][0], about["benchmark"]["name"]
    frame = _join_golds(read_parts(folder).to_pandas(), folder / PROBLEMS, name, benchmark)
    return frame.assign(rules=_rules(about["verifier"][0] if "verifier" in about else {}))


def _run_samples(run: RunDir, benchmark: str, mark: str) -> pd.DataFrame:
    steps = run.sample_steps(benchmark)
    if mark and mark not in map(str, steps):
        raise ConfigError(f"{run.run_id}@{mark}: {benchmark} was evaluated at steps {', '.join(map(str, steps))}")
    step = int(mark) if mark else run.last_evaluation(benchmark)
    file = problems_file(run.path, benchmark)
    frame = _join_golds(run.samples(benchmark, step), file, run.run_id, benchmark, f" at step {step}")
    return frame.assign(rules=_rules(run.settings().get("verifier") or {}))


def _rules(verifier: Mapping[str, Any]) -> str:
    """What decides the verdicts that a verifier with these settings has stored; empty where it is not known."""
    keys = [key for key in ("extraction", "answer_must_end", "form") if key in verifier]
    if verifier.get("percent", "either") != "either":  # older results do not say it
        keys.append("percent")
    return ", ".join(f"{key}={verifier[key]}" for key in keys)


def _join_golds(frame: pd.DataFrame, file: Path, model: str, benchmark: str, step: str = "") -> pd.DataFrame:
    name, problems = f"{model} on {benchmark}{step}", _problems(file)
    if unknown := sorted(set(frame["problem_id"]) - set(problems)):
        raise ConfigError(f"{name}: {file} lacks the problem {unknown[0]!r}; put the file back, or evaluate again")
    caps = frame["max_response_tokens"]
    sets = [f"{name}, cap {cap}" for cap in caps] if caps.nunique() > 1 else name
    rows = [problems[identifier] for identifier in frame["problem_id"]]
    return frame.assign(
        gold=[p.gold for p in rows], problem=[p.prompt for p in rows], set=sets, model=model, benchmark=benchmark
    )
