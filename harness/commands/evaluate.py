r"""avg@n, Pass@k and Maj@k of models, of runs, or of recorded generations.

harness evaluate model=Qwen/Qwen2.5-Math-1.5B benchmark=aime24,math500 [evaluation=dapo] [template=r1] [data.path=DIR]
harness evaluate model=RUN_ID@0,RUN_ID                a run before and after RL, under the run's given protocol
harness evaluate samples=FILE out=DIR [verifier=any] [ks=[1,4,16]] [golds=FILE.jsonl]   also other tools' (docs/evaluation.md)
harness evaluate regrade=RESULT verifier=any          grade stored samples again and print what changed
harness evaluate check benchmark=aime24 task=gsm8k_train              golds, duplicates, overlap

Models are Hugging Face ids (ORG/NAME[@REVISION]), folders, or runs (RUN_ID, RUN_ID@0). Presets of the protocol: evaluation=dapo (default),
dr_grpo, olmo3, sober_reasoning, deepseekmath, open_r1; any key can be overridden (evaluation.samples_per_problem=8
evaluation.caps=[3000] verifier.extraction=boxed engine=vllm runtime.results=DIR). Repeat an interrupted command to go
on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from harness.commands._arguments import Counter, Exit, key_values, listed_names, stored_name, take_values
from harness.configuration.compose import compose_run, file_of, options
from harness.configuration.error import ConfigError, require
from harness.configuration.numbers import format_count
from harness.configuration.schema import load_dataclass
from harness.rollout.types import EngineDied
from harness.store import ResultStore
from harness.store.atomic import write_file
from harness.store.foreign_text import csv_text
from harness.verify import MathVerifier, VerifierConfig

if TYPE_CHECKING:
    from harness.evaluation.protocol import Request

RULES = ("verifier", *(f"verifier.{item.name}" for item in dataclasses.fields(VerifierConfig)))
_CHECKED = ("benchmark", "data.path", "template")


ARGUMENTS = {"values": {"nargs": "+", "metavar": "key=value", "help": "see above"}}


def run(options: argparse.Namespace) -> int:
    items = list(options.values)
    keys = {item.partition("=")[0] for item in items}
    try:
        if "check" in items:
            items.remove("check")
            return check(items)
        if "samples" in keys:
            return evaluate_recorded(items)
        if "regrade" in keys:
            return evaluate_again(items)
        if "model" in keys:
            return evaluate_models(items)
    except KeyboardInterrupt:
        print("stopped; repeat the command to go on from here", file=sys.stderr)
        return Exit.AGAIN
    except EngineDied as error:
        print(f"harness evaluate: {error}\nrepeat the command to go on from here", file=sys.stderr)
        return Exit.FOUND
    raise ConfigError("evaluate needs model=, samples=, regrade= or check")


def verifier_config(values: Mapping[str, object]) -> VerifierConfig:
    """Return the verifier's settings: those of the member `verifier`, then `verifier.KEY`. Raises `ConfigError`."""
    settings: dict[str, object] = {}
    if "verifier" in values:
        require("verifier", values["verifier"], options("verifier"))
        settings = yaml.safe_load(file_of("verifier", str(values["verifier"])).read_text())
    settings |= {key.removeprefix("verifier."): value for key, value in values.items() if key != "verifier"}
    try:
        return load_dataclass(VerifierConfig, settings, "verifier")
    except ValueError as error:  # of the verifier's room, which knows no `ConfigError`
        raise ConfigError(str(error)) from error


def evaluate_recorded(items: Sequence[str]) -> int:
    """`samples=FILE.jsonl out=DIR`."""
    from analysis.tables.evaluation import evaluation_table
    from analysis.tables.table import to_terminal
    from harness.evaluation import recorded
    from harness.evaluation.result import require_ks

    values = key_values(items, ("samples", "golds", "out", "ks", *RULES), "evaluate samples=")
    if "out" not in values:
        raise ConfigError("evaluate samples= needs out=DIR")
    source, out = Path(str(values.pop("samples"))), Path(str(values.pop("out")))
    ks = ks_of(values.pop("ks", None))
    golds = Path(str(values.pop("golds"))) if "golds" in values else None
    config = verifier_config({"verifier": "any", **values})
    recording = recorded.read_recorded(source, golds)
    print("\n".join(recording.lines()))
    require_ks(ks or (), 1 + max(row["sample_index"] for row in recording.samples))
    with MathVerifier(config) as verifier:
        table = recorded.grade_recorded(recording.samples, verifier, Counter("verify"))
        summary = recorded.summarise_recorded(table, verifier, ks)
    recorded.write_results(out, table, {"source": source.name, **summary})
    print(to_terminal(evaluation_table([summary])), end="")
    print("\n".join([*recorded.describe(summary), f"written: {out}"]))
    return 0


def evaluate_again(items: Sequence[str]) -> int:
    """`regrade=RESULT verifier=NAME`, `verifier.KEY=`, `out=DIR` for a table of the changes."""
    from harness.evaluation.stored import changed_lines, regrade

    values = key_values(items, ("regrade", "out", "runtime.results", *RULES), "evaluate regrade=")
    result, out = str(values.pop("regrade")), values.pop("out", None)
    store = ResultStore(str(values.pop("runtime.results", compose_run([]).runtime.results)))
    if "verifier" not in values:
        names = " | ".join(options("verifier"))
        raise ConfigError(f"evaluate regrade= needs new rules: verifier={names}; verifier.KEY= changes single ones")
    with MathVerifier(verifier_config(values)) as verifier:
        frame = regrade(stored_name(store, result), store, verifier)
    print("\n".join(changed_lines(frame)))
    if out is not None:
        changes = frame[frame["verdict"] != frame["old_verdict"]]
        write_file(Path(str(out)), csv_text(changes.drop(columns="response")).encode())
        print(f"changed verdicts: {out}")
    return 0


def evaluate_models(items: Sequence[str]) -> int:
    """`model=A,B [benchmark=x,y] [overrides]`."""
    import torch

    from analysis.tables.evaluation import evaluation_table
    from analysis.tables.table import renderings, to_terminal, write_texts
    from harness.evaluation.checkpoints import evaluate_models as evaluated
    from harness.evaluation.named_models import resolve
    from harness.evaluation.protocol import protocol_config
    from harness.model.linear import resolve_kernel

    values, request = _request(items, (*_CHECKED, "model", "out", "ks"), "evaluate model=")
    runtime = compose_run(request.machine).runtime
    torch.set_num_threads(runtime.threads)
    store = ResultStore(runtime.results)
    kernel = resolve_kernel(runtime.linear_kernel)
    names = [stored_name(store, name) for name in listed_names(values["model"])]
    models = [resolve(name, store, kernel) for name in names]
    config = protocol_config(request, [model.run for model in models if model.run is not None])
    result = evaluated(models, config, store, kernel, ks_of(values.get("ks")), Counter)
    out = Path(str(values["out"])) if "out" in values else store.root / "evaluations" / result["id"]
    table = evaluation_table(result["cells"])
    write_texts(out, renderings([table]))
    write_file(out / "evaluation.json", json.dumps(result, indent=1, allow_nan=False).encode() + b"\n")
    print(to_terminal(table), end="")
    print(f"written: {out}")
    return 0


def check(items: Sequence[str]) -> int:
    """`check [benchmark=x,y] [task=NAME] [data.path=DIR] [verifier=NAME]`: exit code 1 where something was found."""
    from harness.evaluation.protocol import protocol_config, task_config
    from harness.problems.hygiene import report

    values, request = _request(items, (*_CHECKED, *RULES), "evaluate check")
    task = task_config(request)
    only_task = task is not None and not request.names_a_protocol
    sets = {} if only_task else protocol_config(request, []).evaluation.benchmarks
    rules = verifier_config({key: value for key, value in values.items() if key in RULES})
    findings = report(sets, task, rules)
    for finding in findings:
        print(finding)
    print(f"{format_count(len(findings), 'finding')} in {', '.join([*sets, *(['the training task'] if task else [])])}")
    return Exit.FOUND if findings else Exit.DONE


def _request(items: Sequence[str], keys: Sequence[str], verb: str) -> tuple[dict[str, Any], Request]:
    """Return the verb's own arguments, and the protocol that they and the overrides ask for."""
    from harness.evaluation.protocol import Request

    values, overrides = take_values(items, keys, verb, texts=("template",))
    data = Path(str(values["data.path"])) if "data.path" in values else None
    return values, Request(listed_names(values.get("benchmark")), data, values.get("template"), overrides)


def ks_of(value: Any) -> list[int] | None:
    """Return the k of Pass@k and Maj@k that `ks=` asks for, None where it is not given. Raises `ConfigError`."""
    if value is None:
        return None
    ks = value if isinstance(value, list) else [value]
    if not ks or not all(isinstance(k, int) and k > 0 for k in ks):
        raise ConfigError(f"ks={value} must be a list of positive integers such as [1,4,16]")
    return sorted(set(ks))
