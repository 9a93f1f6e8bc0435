"""Read runs that another trainer logged into the store, so that tables, intervals and figures serve them.

harness import_runs folder=outputs experiment=mine                  all runs below a folder: arms by what differs in their configurations
harness import_runs folder=outputs experiment=mine by=name          arms and seeds by the names, such as grpo_seed0
harness import_runs folder=wandb:ENTITY/PROJECT experiment=mine     all runs of a project on wandb's server
harness import_runs path=outputs/run7 experiment=mine arm=grpo seed=0
harness import_runs path=export.csv run=grpo-7b experiment=mine arm=grpo seed=0 score=reward_mean unit=reward

Reads TRL's trainer_state.json and printed logs, verl's file logger and console, prime-rl's metrics.jsonl, wandb (its files, exports,
server) and TensorBoard; format= names one where the file does not tell, trainer= whose names wandb or TensorBoard hold.
The first arm is what the others are compared with (else parent=). Scores are fractions of 1 unless unit=percent or unit=reward.
A second log for an arm and a seed is refused unless replace=true.
Then: harness report experiment=mine. Further keys: label, title, cap (tokens), responses_per_step, paired, runtime.results.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.commands._arguments import key_values
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.loader import load_dataclass
from harness.exchange.importers._folder import import_folder
from harness.exchange.importers._store import Import, Imported, import_run
from harness.store import ResultStore
from harness.store.layout import safe_name

_ONE = ("path", "experiment", "arm", "seed")
_MANY = ("folder", "experiment")
_OF_ONE_RUN = ("path", "arm", "seed", "label", "run", "format")
_KEYS = tuple(item.name for item in dataclasses.fields(Import))
_TEXTS = (
    *(item.name for item in dataclasses.fields(Import) if "str" in str(item.type)),
    "path",
    "runtime.results",
    "folder",
    "by",
)


ARGUMENTS = {
    "values": {
        "nargs": "+",
        "metavar": "key=value",
        "help": f"{', '.join(_ONE)}, or folder, experiment; and options",
    }
}


def run(options: argparse.Namespace) -> int:
    """Execute the verb. 1 where runs of a folder are left out, 2 where all are."""
    values = key_values(
        options.values, (*_KEYS, "runtime.results", "folder", "by"), "import_runs", texts=_TEXTS
    )
    store = ResultStore(str(values.pop("runtime.results", None) or compose_run([]).runtime.results))
    if values.get("folder") is not None:
        return _folder(store, values)
    if values.pop("by", None) is not None:
        raise ConfigError("by= goes with folder=; one run has the arm and the seed that you give")
    values.pop("folder", None)
    request = request_of(values, _ONE)
    found = import_run(store, request)
    place = f", in the place of run {found.replaced}" if found.replaced else ""
    known = "" if found.new else " (already in the store)"
    print(f"run {found.run_id}: {found.steps} steps, score {found.score}{known}{place}")
    _say(request, [found])
    return 0


def _folder(store: ResultStore, values: dict[str, Any]) -> int:
    folder, by = (
        str(values.pop("folder")),
        [key for key in str(values.pop("by", None) or "").split(",") if key],
    )
    given = [key for key in _OF_ONE_RUN if values.get(key) is not None]
    if given:
        raise ConfigError(
            f"folder= takes all runs below it, {given[0]}= is of one run; leave one of them out"
        )
    request = request_of({**values, "path": ".", "arm": "", "seed": 0}, _MANY[1:])
    found = import_folder(store, folder, request, by)
    arms: dict[str, list[str]] = {}
    for name, arm, seed, one in found.imported:
        arms.setdefault(arm, []).append(
            f"{seed} ({name}, {one.steps} steps{'' if one.new else ', already here'})"
        )
    for arm, seeds in arms.items():
        print(f"arm {arm}: seeds {', '.join(seeds)}")
    for line in dict.fromkeys(found.said):
        print(f"  {line}")
    _say(request, [one for *_, one in found.imported])
    for line in found.left:
        print(f"harness import_runs: left out: {line}", file=sys.stderr)
    return 0 if not found.left else 1 if found.imported else 2


def _say(request: Import, found: list[Imported]) -> None:
    """Print how the logs were read, and what had no effect."""
    for line in dict.fromkeys(line for one in found for line in one.said):
        print(f"  {line}")
    if request.responses_per_step and not all(one.responses_used for one in found):
        print(
            f"responses_per_step={request.responses_per_step} had no effect: the log tells its tokens itself, or no length of responses"
        )
    scores = sorted({score for one in found for score in one.scores})
    if len(scores) > 1:
        print(f"evaluation scores in the log: {', '.join(scores)}")


def request_of(values: dict[str, Any], required: Sequence[str]) -> Import:
    """Return the typed request. Raises `ConfigError` naming the key."""
    missing = [key for key in required if values.get(key) is None]
    if missing:
        raise ConfigError(
            f"import_runs needs {', '.join(f'{key}=' for key in missing)}, or folder= for all runs below one"
        )
    try:
        safe_name(str(values["experiment"]), "experiment")
    except ValueError as error:
        raise ConfigError(f"import_runs: {error}; it names a folder") from error
    request = load_dataclass(Import, {**values, "path": Path(values["path"])}, "import_runs")
    if request.cap < 0 or (request.responses_per_step is not None and request.responses_per_step < 1):
        raise ConfigError("import_runs: cap= is at least 0, responses_per_step= at least 1")
    return request
