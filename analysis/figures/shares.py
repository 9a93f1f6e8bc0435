"""Gradient share by response length and by the group's success rate, before RL and at the end."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from analysis.evidence.gradient_share import Floats, NotCovered, Responses, run_shares
from analysis.evidence.results import Results
from analysis.figures.drawing import arm_appearances, draw_series, few_arms, name_lines
from analysis.figures.series import Series
from analysis.figures.style import new_figure
from harness.experiment.plan import PlannedArm
from harness.store import ResultStore, StoreError

LENGTH_BINS = 8


def share_figure(results: Results, store: ResultStore) -> Figure | None:
    """Draw two rows of two panels, before RL and at the end; None without data.

    Before RL the policies of all arms are the same, so only the algorithms differ.
    Arms whose algorithm is not covered have neither a line nor an entry in the legend.
    Where group sizes differ, shares by success are per level of the smallest group: larger ones divide the same gradient among more.
    """
    plan = results.experiment.plan
    appearance = arm_appearances(results.experiment)
    shares = {
        (when, arm.name): arm_shares(results, store, arm, when) for when in (0, -1) for arm in plan.arms
    }
    lines = {key: found for key, found in shares.items() if found}
    if not lines:
        return None
    few, sizes = few_arms(results.experiment), {group_size(found) for found in lines.values()}
    figure, axes = new_figure(wide=True, height=1.7, nrows=2, ncols=2, sharex="col")
    for row, when, title in ((0, 0, "before RL"), (1, -1, "end of training")):
        for arm in plan.arms:
            own = lines.get((when, arm.name), [])
            panels = (by_length(own, plan.primary_cap), by_success(own, min(sizes))) if own else ()
            for axes_, series in zip(axes[row], panels, strict=False):
                draw_series(axes_, series, appearance[arm.name], spread=few)
        axes[row][0].set_ylabel("share of gradient, %")
        if len(sizes) > 1:
            axes[row][1].set_ylabel(f"% per {100 / min(sizes):.3g} points")
        axes[row][0].set_title(title, loc="left")
        for axes_ in axes[row]:
            axes_.set_ylim(bottom=0)
    axes[1][0].set_xlabel("response length, tokens")
    axes[1][1].set_xlabel("right responses in the group, %")
    drawn = list(dict.fromkeys(name for _, name in lines))
    name_lines(figure, results.experiment, drawn, spread=few)
    return figure


def arm_shares(results: Results, store: ResultStore, arm: PlannedArm, when: int) -> list[Responses]:
    """Compute one entry per finished seed at its first (0) or last (-1) evaluation; none where it cannot be computed."""
    plan, found = results.experiment.plan, []
    for seed in results.experiment.finished_seeds(arm):
        steps = store.run(arm.runs[seed]).sample_steps(plan.benchmark)
        if not steps or (when == 0 and steps[0] != 0):
            continue
        try:
            found.append(run_shares(store, results, arm, seed, steps[when]))
        except (NotCovered, StoreError):
            return []
    return found


def by_length(found: list[Responses], cap: int) -> Series:
    """Compute the share in % per bin of lengths up to the cap, at the bins' middles."""
    edges = np.linspace(0, cap, LENGTH_BINS + 1)
    seeds = [np.histogram(r.lengths_PG.ravel(), edges, weights=r.share_PG.ravel())[0] for r in found]
    return Series.of((edges[:-1] + edges[1:]) / 2, 100 * np.array(seeds))


def by_success(found: list[Responses], levels: int) -> Series:
    """Compute the share in % at every number of right responses in the group, per 1/`levels` of success rate.

    With `levels` the group's size that is the share itself; else a density, so that groups of several sizes lie on one curve.
    """
    size = group_size(found)
    seeds: list[Floats] = []
    for one in found:
        right_P = np.rint(one.accuracy_P * size).astype(int)
        seeds.append(
            np.bincount(right_P, weights=one.share_PG.sum(axis=1), minlength=size + 1).astype(np.float64)
        )
    return Series.of(100 * np.arange(size + 1) / size, 100 * size / levels * np.array(seeds))


def group_size(found: list[Responses]) -> int:
    """Return the responses in a group."""
    return int(found[0].share_PG.shape[1])
