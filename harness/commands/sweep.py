"""Search configuration keys with Optuna, or run an experiment's grid. Repeat it to go on, with more trials to go further.

harness sweep experiment=clip_lr_grid
harness sweep experiment=clip_lr_search experiment.search.trials=40
harness sweep 'optimizer.learning_rate=tag(log,interval(5e-5,1e-3))' 'algorithm=choice(grpo,dapo)' --trials 12 --seeds 0,1
harness sweep 'sampling.temperature=interval(0.6,1.4)' --objective avg --objective=-generated_tokens_total
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
from typing import Any

from harness.commands._arguments import Exit
from harness.commands._sweep import refuse_imported
from harness.configuration.compose import compose_run, parse_overrides, refuse_second_choice
from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash
from harness.configuration.sections import of_machine, visible_gpus
from harness.execution.progress import progress_on
from harness.execution.supervisor import dispatch_runs, worker_count
from harness.experiment.checks import absent, refusals
from harness.experiment.declaration import Experiment
from harness.experiment.planning import common_overrides, declared_experiment, refuse_seed
from harness.store import ResultStore
from harness.store.layout import experiment_dir

ARGUMENTS = {
    "--trials": {"type": int, "help": "how many trials the study is to have in total"},
    "--sampler": {"help": "tpe, random, grid, cmaes or nsga2"},
    "--objective": {
        "action": "append",
        "help": "avg, seconds or a metrics column; a leading minus: less is better",
    },
    "--seeds": {"help": "training seeds of each trial, for example 0,1,2"},
    "overrides": {
        "nargs": "*",
        "help": "experiment=NAME, overrides with intervals or choices, fixed overrides",
    },
}


def run(options: argparse.Namespace) -> int:
    """Execute the verb. 0: the study has its trials; 1: some failed; 75: stopped, repeat the command."""
    named = any(item.startswith("experiment=") for item in options.overrides)
    if named and declared_experiment(options.overrides).search is None:
        flags = {**_flags(options), **({"seeds": options.seeds} if options.seeds else {})}
        if flags:
            raise ConfigError(
                f"--{', --'.join(flags).replace('objectives', 'objective')}: this experiment lists its arms and searches nothing; "
                "leave it out (other seeds: 'experiment.seeds=[0,1]')"
            )
        from harness.commands._application import main

        return main(options.overrides)
    try:
        from harness.search.ask_and_tell import Sweep, best_lines
        from harness.search.study import search_of
    except ModuleNotFoundError as error:
        raise ConfigError("a search needs Optuna; install it with: pip install -e '.[sweep]'") from error

    refuse_seed(options.overrides, "'experiment.seeds=[0,1]', or --seeds 0,1")
    experiment, fixed = _declared(options) if named else _from_command_line(options)
    search = search_of(experiment)
    assert search is not None
    base = compose_run(fixed)
    if reasons := [*refusals(base), *absent(base)]:
        raise ConfigError(f"{experiment.name} cannot be run: {'; '.join(reasons)}")
    runtime = base.runtime
    store = ResultStore(runtime.results)
    refuse_imported(store, experiment.name)
    command = shlex.join(["harness", "sweep", *sys.argv[2:]])
    sweep = Sweep(experiment, search, fixed, store, command)
    places = worker_count(runtime, len(visible_gpus()) if runtime.device == "cuda" else 0)
    summary = sweep.run(
        lambda specs: dispatch_runs(specs, store, runtime, progress_on(sys.stderr), command, experiment.name),
        places,
    )
    if sweep.plan().arms:
        store.write_plan(experiment.name, sweep.plan().record())
    print("\n".join(best_lines(sweep)))
    folder = experiment_dir(store.root, experiment.name) / "figures"
    if summary.stopped_by is None:
        from harness.search.study import draw

        if draw(sweep.study, [name.lstrip("-") for name in search.objectives], folder):
            print(f"importance and contours: {folder}")
    if summary.failed or sweep.reasons:
        return Exit.FOUND
    enough = sweep.unsettled == 0 and sweep.asked >= sweep.total
    return Exit.DONE if enough and summary.stopped_by is None else Exit.AGAIN


def _declared(options: argparse.Namespace) -> tuple[Experiment, list[str]]:
    experiment = declared_experiment(options.overrides)
    search = {**(experiment.search or {}), **_flags(options)}
    seeds = _seeds(options) or experiment.seeds
    fixed = [*experiment.base, *experiment.overrides, *common_overrides(options.overrides)]
    return dataclasses.replace(experiment, search=search, seeds=seeds), fixed


def _from_command_line(options: argparse.Namespace) -> tuple[Experiment, list[str]]:
    space = [str(item.input_line) for item in parse_overrides(options.overrides) if item.is_sweep_override()]
    fixed = [item for item in options.overrides if item not in space]
    refuse_second_choice(options.overrides)
    if not space:
        raise ConfigError(
            "nothing to search: name an experiment, or give 'KEY=interval(low,high)' or 'KEY=choice(a,b)'"
        )
    flags, seeds, base = _flags(options), _seeds(options) or [0], compose_run(fixed)
    objectives = flags.get("objectives", ["avg"])
    identity = [item for item in fixed if not of_machine(item)]
    name = f"search_{content_hash(sorted(space), sorted(identity), seeds, objectives)[:8]}"
    experiment = Experiment(
        name=name,
        title=" ".join([*space, *identity]),
        seeds=seeds,
        benchmark=next(iter(base.evaluation.benchmarks), ""),
        search={"space": space, **flags},
    )
    return experiment, fixed


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    given = {key: getattr(options, key) for key in ("trials", "sampler")}
    given["objectives"] = options.objective
    return {key: value for key, value in given.items() if value is not None}


def _seeds(options: argparse.Namespace) -> list[int]:
    try:
        return [int(part) for part in (options.seeds or "").split(",") if part.strip()]
    except ValueError as error:
        raise ConfigError(f"--seeds {options.seeds!r}: give whole numbers, for example 0,1,2") from error
