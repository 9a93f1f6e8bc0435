"""The ladder's stored runs, as the scripts beside this file read them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml

from analysis import PlanError, Results, StoreError
from analysis.one_table import read
from harness.configuration.error import ConfigError
from harness.configuration.schema import load as load_config
from harness.store import ResultStore


def ladder(root: str) -> Results:
    """The ladder of a results root; how many base policies take turns comes from its runs where its plan is older than that entry.

    Raises:
        ConfigError: its runs start from no shipped base policy.
    """
    results = read(Path(root), "dapo_ladder")
    plan = results.experiment.plan
    if plan.base_policies is None:
        run_id = next(iter(plan.arms[0].runs.values()))
        config = load_config(yaml.safe_load(ResultStore(root).run(run_id).config()))
        bases = getattr(config.model, "bases", None)
        if bases is None or bases.set is None:
            raise ConfigError(f"run {run_id} starts from no shipped base policy (model.bases.set)")
        plan = replace(plan, base_policies=bases.count)
    return replace(results, experiment=replace(results.experiment, plan=plan))


def bases_of(results: Results) -> int:
    """How many base policies take turns: seeds s and s + this start from one."""
    count = results.experiment.plan.base_policies
    assert count is not None  # `ladder` has filled it in
    return count


def points(results: Results) -> dict[str, dict[int, float]]:
    """Label of each arm to its score by seed, in points, in the order of the ladder."""
    arms = results.experiment.plan.arms
    return {arm.label: {seed: 100 * x for seed, x in results.scores(arm, "avg").items()} for arm in arms}


def seed_spread(scores: dict[str, dict[int, float]], bases: int) -> tuple[float, int]:
    """Standard deviation of training seeds that start from one base policy, pooled over arms, and its degrees of freedom.

    Raises:
        ValueError: no arm has two seeds from one base policy.
    """
    squares, degrees = 0.0, 0
    for values in scores.values():
        for base in range(bases):
            group = np.array([x for seed, x in values.items() if seed % bases == base])
            if len(group) > 1:
                squares += float(((group - group.mean()) ** 2).sum())
                degrees += len(group) - 1
    if not degrees:
        raise ValueError(
            f"no two seeds of an arm start from one of the {bases} base policies; run more seeds, or fewer base policies"
        )
    return (squares / degrees) ** 0.5, degrees


def command(main: Callable[[list[str]], None], doc: str | None) -> None:
    """Run a script on the results roots of the command line; what it cannot read ends it with one line and status 2."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("roots", nargs="*", default=["results"], help="results roots; without: results")
    try:
        main(parser.parse_args().roots)
    except (StoreError, PlanError, ValueError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
