r"""Write an experiment about a model and problems of your own, after a look at what the model answers.

harness new experiment=NAME model=PATH task=FILE.jsonl [folder=.] [heldout=FILE.jsonl] [runtime.results=DIR]

PATH is a Hugging Face id (ORG/NAME@COMMIT), a folder, FILE.gguf or PACKAGE:FILE.gguf; a line of FILE is {"id", "problem", "answer"}.
Without heldout= up to a fifth of the problems, 256 at most, are kept apart. Some problems are asked in every form that fits the model; the
form that it answers best and the cap that lets it end go into FOLDER/experiment/NAME.yaml, which
`harness run --config-dir FOLDER experiment=NAME` takes.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands._arguments import Counter, key_values
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.evaluation.metrics.names import nothing_to_learn
from harness.experiment.declaration import as_file
from harness.problems.problem import Record, write_jsonl
from harness.store import ResultStore
from harness.store.atomic import write_file
from harness.store.layout import is_safe

if TYPE_CHECKING:
    from harness.evaluation.named_models import Model

ARGUMENTS = {"values": {"nargs": "+", "metavar": "key=value", "help": "see above"}}

_FEWEST, _MOST_HELD_OUT = 20, 256
_ASKED, _SAMPLES = 16, 2
_CAPS = {"cpu": (16, 32, 64, 128), "cuda": (16, 32, 64, 128, 256, 512, 1024, 2048)}
_CUT = 0.1  # a cap that cuts off more than this share of the responses is too short, where a longer one was looked at
_FORMS = {
    True: ("boxed", "answer_line", "chat:{problem} Answer with the result alone."),
    False: ("boxed_completion", "{problem} Answer:"),
}
_SMALL_BYTES = 1e9  # of weights, up to which the rate found with 135 million parameters is taken
_MACHINE = {
    "cpu": """\
  - model.precision=mixed
  - algorithm.prompts_per_step=16
  - algorithm.updates_per_step=2
  - runtime.micro_batch_tokens=512
  - runtime.rollout_rows=128""",
    "cuda": """\
  - runtime=one_gpu
  - algorithm.prompts_per_step=128 # with 4 updates, as verl's examples at an eighth of their prompts
  - algorithm.updates_per_step=4""",
}
_COMMENT = (
    f"# Written by `harness new` after {_ASKED} problems; every value is yours to change. See docs/your_model.md."
)
_TEXT = """\
name: {name}
title: "{name}"
question: Does DAPO train this model better than naive GRPO on these problems, at equal rollout steps?
seeds: [0, 1, 2, 3]
benchmark: heldout
overrides:
  - model=pretrained
  - 'model.path="{path}"'{revision}
  - task=gsm8k_train # a file of problems, read by the same module as GSM8K
  - task.name={name}
  - 'task.path="{train}"'
  - 'task.template="{template}"' # {seen}
  - verifier=any
  - sampling=cap_1024
  - sampling.max_response_tokens={cap} # {cut}
  - evaluation=language # samples at temperature 1
  - ~evaluation.benchmarks.plain_words_heldout
  - '+evaluation.benchmarks.heldout={{kind: dataset, name: heldout, path: "{heldout}", template: "{template}"}}'
  - evaluation.samples_per_problem=8
  - training=language # steps, and when to evaluate
  - optimizer.learning_rate={rate} # {why_rate}
  - algorithm.responses_per_prompt=8
{machine}
arms:
  - name: grpo
    label: naive GRPO
    overrides: [algorithm=grpo]
  - name: dapo
    label: DAPO
    parent: grpo
    overrides: [algorithm=dapo]
"""


@dataclasses.dataclass(frozen=True)
class _Seen:
    """What the model did with problems in one form at one cap: shares right, without an answer and cut off."""

    template: str
    cap: int
    right: float
    unanswered: float
    cut: float


def run(options: argparse.Namespace) -> int:
    keys = ("experiment", "model", "task", "heldout", "folder", "runtime.results")
    given = key_values(options.values, keys, "new", texts=("experiment",))
    values = {name: str(value) for name, value in given.items() if value is not None}
    for key in keys[:3]:
        if not values.get(key):
            raise ConfigError("new needs experiment=NAME, model=PATH and task=FILE.jsonl")
    name, folder = values["experiment"], Path(values.get("folder", "."))
    if not (name.isidentifier() and is_safe(name)):
        raise ConfigError(
            f"experiment={name} must be a name of letters from a to z, digits and _, and begin with a letter"
        )
    target = folder / "experiment" / f"{name}.yaml"
    if target.exists():
        raise ConfigError(f"{target} exists already; take another experiment=NAME, or delete it")
    train, heldout = _splits(
        Path(values["task"]), Path(values["heldout"]) if "heldout" in values else None, folder, name
    )
    store = ResultStore(values.get("runtime.results", compose_run([]).runtime.results))
    seen, model = _look(values["model"], heldout, store)
    best = max(_longest(seen), key=lambda answers: (answers.right, -answers.unanswered))
    of_form = [answers for answers in seen if answers.template == best.template]
    fitting = next((answers for answers in of_form if answers.cut <= _CUT), of_form[-1])
    write_file(target, _experiment(name, values["model"], model, train, heldout, fitting).encode())
    for line in _lines(seen, fitting):
        print(line)
    print(f"written: {target}\nnext: harness plan --config-dir {folder} experiment={name}")
    return 0


def _splits(task: Path, given: Path | None, folder: Path, name: str) -> tuple[Path, Path]:
    """Return the files to train on and to evaluate on; problems are kept apart by a hash of their text where no file is given."""
    from harness.problems.benchmarks.dataset import Config, load_records

    records, _ = load_records(Config(path=str(task)))
    if given is not None:
        load_records(Config(path=str(given)))
        return task.resolve(), given.resolve()
    if len(records) < _FEWEST:
        raise ConfigError(
            f"task={task} holds {len(records)} problems; give at least {_FEWEST}, or others to evaluate on as heldout=FILE.jsonl"
        )

    def place(record: Record) -> bytes:
        return hashlib.sha256(record.problem.encode()).digest()

    apart = min(len(records) // 5, _MOST_HELD_OUT)
    held = {record.problem for record in sorted(records, key=place)[:apart]}
    train, heldout = ((folder / "problems" / f"{name}_{part}.jsonl").resolve() for part in ("train", "heldout"))
    write_jsonl(train, [record for record in records if record.problem not in held])
    write_jsonl(heldout, [record for record in records if record.problem in held])
    return train, heldout


def _look(name: str, heldout: Path, store: ResultStore) -> tuple[list[_Seen], Model]:
    """Ask the model some problems in each form that fits it, and grade what it says under every cap."""
    import torch

    from harness.evaluation.named_models import resolve
    from harness.evaluation.side_by_side import evaluate_models
    from harness.model.checkpoint import load_tokenizer
    from harness.model.linear import resolve_kernel
    from harness.problems.benchmarks.dataset import Config

    config = compose_run(["verifier=any"])
    torch.set_num_threads(config.runtime.threads)
    kernel = resolve_kernel(config.runtime.linear_kernel)
    model = resolve(name, store, kernel)
    forms = _FORMS[bool(load_tokenizer(model.folder).chat_template)]
    positions = json.loads((model.folder / "config.json").read_text()).get("max_position_embeddings", math.inf)
    asked = {
        f"form_{place}": Config(name=form, path=str(heldout), template=form, limit=_ASKED)
        for place, form in enumerate(forms)
    }
    protocol = dataclasses.replace(
        config.evaluation,
        benchmarks=asked,
        samples_per_problem=_SAMPLES,
        caps=[cap for cap in _CAPS[_device()] if cap <= positions / 2],
        temperature=1.0,
        top_p=1.0,
    )
    config = dataclasses.replace(config, evaluation=protocol)
    cells = evaluate_models([model], config, store, kernel, [1], Counter)["cells"]
    return [
        _Seen(
            asked[cell["benchmark"]].template,
            cell["cap"],
            cell["avg"],
            cell["no_answer_fraction"],
            cell["truncated_fraction"],
        )
        for cell in cells
    ], model


def _experiment(name: str, path: str, model: Model, train: Path, heldout: Path, seen: _Seen) -> str:
    from harness.model.checkpoint import weight_files

    small = sum(file.stat().st_size for file in weight_files(model.folder)) <= _SMALL_BYTES
    rate, why = ("2e-5", "found by a pilot with SmolLM2 135M") if small else ("1e-6", "as verl's examples")
    stem, _, commit = path.partition("@")
    given = Path(stem).expanduser()
    declared = _TEXT.format(
        name=name,
        path=given.resolve() if given.exists() else stem,
        revision=f"\n  - model.revision={commit}" if commit else "",
        train=train,
        heldout=heldout,
        template=seen.template,
        seen=f"{100 * seen.right:.0f} % right, {100 * seen.unanswered:.0f} % without an answer",
        cap=seen.cap,
        cut=f"{100 * seen.cut:.0f} % of the responses are cut off",
        rate=rate,
        why_rate=why,
        machine=_MACHINE[_device()],
    )
    return as_file(declared, [_COMMENT])


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _longest(seen: Sequence[_Seen]) -> list[_Seen]:
    """Return what was seen at the largest cap, a form each."""
    return [answers for answers in seen if answers.cap == max(other.cap for other in seen)]


def _lines(seen: Sequence[_Seen], taken: _Seen) -> list[str]:
    """Tell what was seen of each form at the largest cap, and what that means for training."""
    shown = [
        f"{answers.template!r}: {100 * answers.right:.0f} % right, {100 * answers.unanswered:.0f} % without an answer, "
        f"{100 * answers.cut:.0f} % cut off at {answers.cap} tokens"
        for answers in _longest(seen)
    ]
    shown.append(f"taken: {taken.template!r} with a cap of {taken.cap} tokens, {100 * taken.right:.0f} % right")
    warning = nothing_to_learn(taken.right, "in that form")
    return [*shown, f"warning: {warning}"] if warning else shown
