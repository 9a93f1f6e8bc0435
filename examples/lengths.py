"""Lengths of right and wrong answers of every arm, their differences, and a figure over training.

python examples/lengths.py RESULTS EXPERIMENT [FOLDER]
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt

from analysis import difference, load, save_figure, seed_frame

METRICS = ("length_right", "length_wrong")


def main(root: str, experiment: str, folder: str = "figures") -> None:
    """Print the lengths and their differences to the first arm, and draw lengths against rollout steps."""
    results = load(root, experiment)
    lengths = seed_frame(results, METRICS)
    print(lengths.groupby("label", sort=False)[list(METRICS)].mean().round(2).to_string())
    first, *others = lengths["arm"].unique()
    for arm in others:
        for metric in METRICS:
            found = difference(results, arm, first, metric)
            print(
                f"{arm} - {first}, {metric}: {found.absent or f'{found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}]'}"
                f" tokens, {found.seeds} seeds, {found.verdict}"
            )
    plan, curves = results.experiment.plan, results.experiment.cells
    at_cap = curves[(curves["cap"] == plan.primary_cap) & (curves["benchmark"] == plan.benchmark)]
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
    for panel, outcome in zip(axes, ("right", "wrong"), strict=True):
        for arm in plan.arms:
            mean = at_cap[at_cap["arm"] == arm.name].groupby("step")[f"tokens_{outcome}_mean"].mean()
            panel.plot(mean.index, mean, label=arm.label)
        panel.set(xlabel="rollout steps", title=f"{outcome} answers")
    axes[0].set_ylabel("mean length, tokens")
    axes[0].legend()
    for path in save_figure(figure, folder, f"{experiment}-lengths", formats=["png"]):
        print(f"written: {path}")


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
