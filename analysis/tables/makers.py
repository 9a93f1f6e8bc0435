"""Rows whose runs were made by other code, other packages or another device than the rest of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from analysis.evidence.load import StoredExperiment
from harness.experiment.plan import PlannedArm

MARK = " †"


def odd_arms(experiment: StoredExperiment) -> Mapping[str, list[int]]:
    """Map arm names to the seeds of finished runs that were not made by what made most runs of the experiment.

    Runs whose manifest does not say (foreign ones, for example) are left out of the comparison.
    """
    made = {row.run_id: (row.code, row.packages, row.device) for row in experiment.makers.itertuples()}
    finished = experiment.states[experiment.states["status"] == "finished"]
    runs = [
        (arm, seed, made[run_id])
        for arm, seed, run_id in zip(finished["arm"], finished["seed"], finished["run_id"], strict=True)
        if any(made.get(run_id, ()))
    ]
    # Ties go to the maker of the first run, so that the same store marks the same rows.
    usual = Counter(maker for _, _, maker in runs).most_common(1)
    odd: dict[str, list[int]] = {}
    for arm, seed, maker in runs:
        if maker != usual[0][0]:
            odd.setdefault(arm, []).append(seed)
    return odd


def marked(arm: PlannedArm, odd: Mapping[str, list[int]]) -> str:
    """Return the arm's label, with a dagger where some of its runs are odd."""
    return arm.label + (MARK if arm.name in odd else "")


def maker_notes(experiment: StoredExperiment, *, short: bool = False) -> list[str]:
    """Write one sentence that explains the daggers, or nothing; ``short``: without the list of runs."""
    odd = odd_arms(experiment)
    if not odd:
        return []
    told = f"{MARK.strip()} made by other code, packages or another device than the other runs of this table"
    if short:
        return [f"{told}."]
    seeds = {name: f"seed{'s' * (len(of) > 1)} {', '.join(map(str, of))}" for name, of in odd.items()}
    listed = "; ".join(f"{name}, {of}" for name, of in seeds.items())
    return [f"{told}: {listed}. `harness show RUN RUN` says what differs."]
