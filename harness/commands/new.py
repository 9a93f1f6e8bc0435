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
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands._arguments import Counter, key_values
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.evaluation.metrics.names import nothing_to_learn
from harness.experiment.declaration import as_file
from harness.problems.problem import write_jsonl
from harness.store import ResultStore
from harness.store.atomic import write_file
from harness.store.layout import is_safe

if TYPE_CHECKING:
    from harness.evaluation.named_models import Model

ARGUMENTS = {"values": {"nargs": "+", "metavar": "key=value", "help": "see above"}}

_FEWEST, _MOST_HELD_OUT = 20, 256
_PROBLEMS, _SAMPLES = 16, 2
_CAPS = {"cpu": (16, 32, 64, 128), "cuda": (16, 32, 64, 128, 256, 512, 1024, 2048)}
_MOST_CUT_SHARE = 0.1  # a cap that cuts off more of the responses is too short, where a longer one was looked at
_FORMS = {
    True: ("boxed", "answer_line", "chat:{problem} Answer with the result alone."),
    False: ("boxed_completion", "{problem} Answer:"),
}
_SMALL_BYTES = 1e9  # of weights, up to which the rate found with 135 million parameters is taken
_COMMENT = "# Written by `harness new` after {} problems; every value is yours to change. See docs/your_model.md."


def run(options: argparse.Namespace) -> int:
    keys = ("experiment", "model", "task", "heldout", "folder", "runtime.results")
    arguments = key_values(options.values, keys, "new", texts=("experiment",))
    values = {name: str(value) for name, value in arguments.items() if value is not None}
    for key in keys[:3]:
        if not values.get(key):
            raise ConfigError("new needs experiment=NAME, model=PATH and task=FILE.jsonl")
    name, folder = values["experiment"], Path(values.get("folder", "."))
    if not (name.isidentifier() and is_safe(name)):
        raise ConfigError(f"experiment={name} must be a name of letters from a to z, digits and _, not a digit first")
    target = folder / "experiment" / f"{name}.yaml"
    if target.exists():
        raise ConfigError(f"{target} exists already; take another experiment=NAME, or delete it")
    train, heldout = _splits(
        Path(values["task"]), Path(values["heldout"]) if "heldout" in values else None, folder, name
    )
    store = ResultStore(values.get("runtime.results", compose_run([]).runtime.results))
    cells, model = _look(values["model"], train, store)
    longest = [cell for cell in cells if cell["cap"] == max(other["cap"] for other in cells)]
    best = max(longest, key=lambda cell: (cell["avg"], -cell["truncated_fraction"], -cell["no_answer_fraction"]))
    of_best = [cell for cell in cells if cell["form"] == best["form"]]
    choice = next((cell for cell in of_best if cell["truncated_fraction"] <= _MOST_CUT_SHARE), of_best[-1])
    write_file(target, _experiment(name, values["model"], model, train, heldout, choice).encode())
    for cell in longest:
        print(f"{cell['form']!r}: {_shares(cell)} at {cell['cap']} tokens")
    print(f"taken: {choice['form']!r} with a cap of {choice['cap']} tokens: {_shares(choice)}")
    if warning := nothing_to_learn(choice["avg"], "in that form"):
        responses = f"{choice['n_samples']} responses ({store.root / choice['samples']})"
        print(f"warning: {warning}")
        print(f"So say {responses}; up to {_percent(1 - 0.05 ** (1 / choice['n_samples']))} of all may be otherwise")
    print(f"written: {target}\nnext: harness plan --config-dir {folder} experiment={name}")
    return 0


def _splits(task: Path, heldout_file: Path | None, folder: Path, name: str) -> tuple[Path, Path]:
    """Return the files to train on and to evaluate on; problems are kept apart by a hash of their text where no file is given."""
    from harness.problems.benchmarks.dataset import Config, load_records

    records, _ = load_records(Config(path=str(task)))
    if heldout_file is not None:
        load_records(Config(path=str(heldout_file)))
        return task.resolve(), heldout_file.resolve()
    if len(records) < _FEWEST:
        raise ConfigError(
            f"task={task} holds {len(records)} problems; give at least {_FEWEST}, or others to evaluate on as heldout=FILE.jsonl"
        )

    texts = sorted((record.prompt for record in records), key=lambda text: hashlib.sha256(text.encode()).digest())
    heldout_texts = set(texts[: min(len(records) // 5, _MOST_HELD_OUT)])
    train, heldout = ((folder / "problems" / f"{name}_{part}.jsonl").resolve() for part in ("train", "heldout"))
    write_jsonl(train, [record for record in records if record.prompt not in heldout_texts])
    write_jsonl(heldout, [record for record in records if record.prompt in heldout_texts])
    return train, heldout


def _look(name: str, problems: Path, store: ResultStore) -> tuple[list[dict[str, Any]], Model]:
    """Ask the model some problems in each form that fits it; the summary of each `form` and cap, and the model."""
    import torch

    from harness.evaluation.checkpoints import evaluate_models
    from harness.evaluation.named_models import resolve
    from harness.model.checkpoint import load_tokenizer
    from harness.model.linear import resolve_kernel
    from harness.problems.benchmarks.dataset import Config

    config = compose_run(["verifier=any"])
    torch.set_num_threads(config.runtime.threads)
    kernel = resolve_kernel(config.runtime.linear_kernel)
    model = resolve(name, store, kernel)
    forms = _FORMS[bool(load_tokenizer(model.folder).chat_template)]
    positions = json.loads((model.folder / "config.json").read_text()).get("max_position_embeddings", math.inf)
    benchmarks = {
        f"form_{index}": Config(name=form, path=str(problems), template=form, limit=_PROBLEMS)
        for index, form in enumerate(forms)
    }
    protocol = dataclasses.replace(
        config.evaluation,
        benchmarks=benchmarks,
        samples_per_problem=_SAMPLES,
        caps=[cap for cap in _CAPS[_device()] if cap <= positions / 2],
        temperature=1.0,
        top_p=1.0,
    )
    config = dataclasses.replace(config, evaluation=protocol)
    cells = evaluate_models([model], config, store, kernel, [1], Counter)["cells"]
    return [{**cell, "form": benchmarks[cell["benchmark"]].template} for cell in cells], model


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _shares(cell: dict[str, Any]) -> str:
    names = {"avg": "right", "no_answer_fraction": "without an answer", "truncated_fraction": "cut off"}
    return ", ".join(f"{_percent(cell[key])} {name}" for key, name in names.items())


def _experiment(name: str, path: str, model: Model, train: Path, heldout: Path, cell: dict[str, Any]) -> str:
    from harness.model.checkpoint import weight_files

    small = sum(file.stat().st_size for file in weight_files(model.folder)) <= _SMALL_BYTES
    rate, reason = ("2e-5", "found by a pilot with SmolLM2 135M") if small else ("1e-6", "as verl's examples")
    stem, _, commit = path.partition("@")
    local_path = Path(stem).expanduser()
    text = _template("new").format(
        name=name,
        path=_quoted(local_path.resolve() if local_path.exists() else stem),
        revision=f"\n  - model.revision={commit}" if commit else "",
        train=_quoted(train),
        heldout=_quoted(heldout),
        template=cell["form"],
        seen=_shares(cell),
        cap=cell["cap"],
        cut=f"{_percent(cell['truncated_fraction'])} of the responses are cut off",
        rate=rate,
        why_rate=reason,
        machine=_template(f"new_{_device()}").rstrip(),
    )
    return as_file(text, [_COMMENT.format(cell["n_problems"])])


def _quoted(path: object) -> str:
    """For YAML's text in single quotes."""
    return str(path).replace("'", "''")


def _template(name: str) -> str:
    return resources.files("harness.commands").joinpath(f"{name}.template").read_text(encoding="utf-8")


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
