"""Reasons against an arm as it is written: what its backend cannot express, and what its machine cannot hold."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from harness.configuration.error import ConfigError
from harness.configuration.registry import implementation
from harness.configuration.schema import RunConfig
from harness.experiment.memory import misfits
from harness.experiment.plan import Plan
from harness.model.hub import unnamed
from harness.store import ResultStore


def refusals(config: RunConfig) -> list[str]:
    """List each reason with the key to change; empty where the run can be launched."""
    return [*implementation("harness.backends", config.backend).check(config), *misfits(config)]


def absent(config: RunConfig) -> list[str]:
    """List what is missing to start it: a policy's name, and what this machine lacks unless the launcher takes it to another one."""
    model = config.model
    nameless = unnamed(model.path, model.revision) if model.kind == "pretrained" else ""
    return [*[nameless] * bool(nameless), *_absent_here(config)]


def _absent_here(config: RunConfig) -> list[str]:
    launcher = config.runtime.launcher
    if getattr(launcher, "cluster", launcher.kind) != "local" or config.backend.kind != "builtin":
        return []
    said = []
    name, source = getattr(implementation("harness.rollout.engine", config.engine), "PACKAGE", ("", ""))
    if name and importlib.util.find_spec(name) is None:
        said.append(
            f"engine={config.engine.kind} needs the package {name}, which is not installed here: {source}"
        )
    if config.runtime.device == "cuda" and (torch := version("torch")).endswith("+cpu"):
        said.append(f"runtime.device=cuda needs torch for GPUs, and torch {torch} is for CPUs only")
    return said


def refuse(plan: Plan) -> Plan:
    """The plan without what cannot be launched here: a refused arm keeps only runs that are finished, and its reasons.

    Raises:
        ConfigError: nothing is left (names all arms and the reasons of the first), the arm that others wait for is refused, or a
            cell of crossed factors is empty.
    """
    store = ResultStore(plan.arms[0].config.runtime.results)
    arms = []
    for planned in plan.arms:
        if reasons := [*refusals(planned.config), *absent(planned.config)]:
            finished = {
                seed: run_id
                for seed, run_id in planned.runs.items()
                if store.run(run_id).status == "finished"
            }
            missing = len(finished) < len(planned.runs)
            planned = dataclasses.replace(planned, runs=finished, refused=reasons if missing else ())
        arms.append(planned)
    empty = next((planned for planned in arms if plan.factors and not planned.runs), None)
    if empty is not None and plan.waits_for is None:
        raise ConfigError(
            f"the cell {empty.name} cannot be run, and without it the factors are not crossed: {'; '.join(empty.refused)}; mend it, or "
            "take the level out of experiment.factors"
        )
    needed = [planned for planned in arms if plan.waits_for in (None, planned.name)]
    if any(planned.runs for planned in needed):
        return dataclasses.replace(plan, arms=tuple(arms))
    first, *others = needed
    also = ", ".join(planned.name for planned in others)
    more = f" (also refused: {also}; `harness plan` says why)" if also else ""
    raise ConfigError(f"{first.name} cannot be run: {'; '.join(first.refused)}{more}")


def refusal_lines(refused: Mapping[str, Sequence[str]]) -> list[str]:
    """Each reason once, with the arms that it keeps from being run."""
    arms: dict[str, list[str]] = {}
    for name, reasons in refused.items():
        for reason in reasons:
            arms.setdefault(reason, []).append(name)
    return [f"refused {', '.join(names)}: {reason}" for reason, names in arms.items()]
