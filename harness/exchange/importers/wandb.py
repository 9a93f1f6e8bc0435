"""wandb: an exported history, CSV (`_step` or `Step` and one column per metric, or `run - metric`) or JSON (a list or lines).

The metrics are those of the trainer that logged them: verl's names, or TRL's with the Trainer's `train/` and `eval/`.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

from harness.exchange.importers import trl, verl
from harness.exchange.importers._log import ForeignLogError, Logged, json_lines, merge, numbers, read_text

METRICS = verl.METRICS | trl.METRICS
SCORES = [*verl.SCORES, *trl.SCORES]
REMARKS = [*verl.REMARKS, *trl.REMARKS]
_STEPS = (
    "training/global_step", "train/global_step", "global_step", "trainer/global_step", "_step", "Step", "step",
)  # fmt: skip


def read(path: Path, run: str | None = None) -> list[Logged]:
    """The steps of one run; `run` chooses among several in one export. Raises `ForeignLogError`."""
    rows = _csv_rows(path, run) if path.suffix.lower() in (".csv", ".tsv") else json_lines(path)
    entries = []
    for row in rows:
        values = {_trl_name(name): value for name, value in numbers(row).items()}
        step = next((values[name] for name in _STEPS if name in values), None)
        if step is None:
            continue
        known = {name: value for name, value in values.items() if name not in _STEPS and name[0] != "_"}
        if known:  # runs of one export end at different steps
            entries.append(Logged(int(step), verl.with_tokens(known)))
    if not entries:
        raise ForeignLogError(f"{path} has no step column; expected one of: {', '.join(_STEPS)}")
    return merge(entries)


def _csv_rows(path: Path, run: str | None) -> list[dict[str, Any]]:
    """Rows of an exported table; `name - metric` headers are one run's, `__MIN` and `__MAX` are the chart's envelope."""
    text = read_text(path)
    reader = csv.DictReader(io.StringIO(text), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    headers = [name for name in reader.fieldnames or [] if not re.search(r"__(MIN|MAX)$", name or "")]
    runs = list(dict.fromkeys(name.partition(" - ")[0] for name in headers if " - " in name))
    if len(runs) > 1 and run not in runs:
        raise ForeignLogError(f"{path} holds {len(runs)} runs; choose one with run=: {', '.join(runs)}")
    chosen = run if run is not None else (runs[0] if runs else None)
    if run is not None and run not in runs:
        raise ForeignLogError(f"{path} has no run {run!r}; runs: {', '.join(runs) or 'one, without a name'}")
    names = {name: name.removeprefix(f"{chosen} - ") for name in headers}
    kept = {name: own for name, own in names.items() if " - " not in name or name.startswith(f"{chosen} - ")}
    return [{own: row[name] for name, own in kept.items() if row.get(name)} for row in reader]


def _trl_name(name: str) -> str:
    """`train/reward` and `eval/reward` as the Trainer calls them before it hands them to wandb."""
    if name in _STEPS or name == "train/num_gen_batches":
        return name
    if name.startswith("train/"):
        return name.removeprefix("train/")
    return f"eval_{name.removeprefix('eval/')}" if name.startswith("eval/") else name
