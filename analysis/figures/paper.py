"""Published figures drawn again from our runs: DAPO's Figures 1-7, DeepSeekMath's Maj@K / Pass@K, Dr.GRPO's lengths.

A figure is drawn where the experiment has the arms that it compares: the arm that adds a technique, and the one
without it. ``captions.md`` says what each corresponds to and what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.evidence.results import Results
from analysis.figures.drawing import COUNTS, FEW, draw_series, score_label
from analysis.figures.evaluation import k_figure
from analysis.figures.series import AXES, Panel, accuracy_series, logged
from analysis.figures.style import appearances, legend_below, new_figure, save, styled
from analysis.figures.training import panels_figure
from harness.experiment.plan import PlannedArm

ACCURACY = Panel("avg", "", evaluated=True)
ENTROPY = Panel("entropy_nats", "entropy, nats per token", zero=True)
LENGTH = Panel("response_tokens_mean", "response length, tokens")
ALL_RIGHT = Panel("all_right_groups", "all-right groups, %", per="groups", scale=100.0, zero=True)
UP_CLIPPED = Panel("up_clipped_old_probability_mean", "old prob. of up-clipped tokens", zero=True)
REWARD = Panel("reward_mean", "mean reward")
PROBABILITY = Panel("token_probability", "mean token probability", evaluated=True)
RIGHT = Panel("response_tokens_mean_right", "tokens, right")
WRONG = Panel("response_tokens_mean_wrong", "tokens, wrong")


@dataclass(frozen=True)
class PaperFigure:
    """One published figure: its panels, the arms it compares, and what it is in the paper.

    ``arms`` finds them: the arm with a technique and the one without, the whole recipe, or all.
    """

    name: str
    paper: str
    shows: str
    panels: tuple[Panel, ...]
    arms: Callable[[Results], list[PlannedArm]]
    axis: str = "updates"


def with_and_without(patch: str) -> Callable[[Results], list[PlannedArm]]:
    """Find the arm that adds the patch (by the beginning of its name) to its parent, and that parent; parent first."""

    def found(results: Results) -> list[PlannedArm]:
        plan = results.experiment.plan
        for arm in plan.arms:
            if arm.parent is not None and (arm.patch or "").startswith(patch):
                return [plan.arm(arm.parent), arm]
        for arm in plan.arms:
            own = frozenset(name for name in arm.patches if name.startswith(patch))
            rest = frozenset(arm.patches) - own
            other = next((b for b in plan.arms if own and frozenset(b.patches) == rest), None)
            if other is not None:
                return [other, arm]
        return []

    return found


def without(patch: str) -> Callable[[Results], list[PlannedArm]]:
    """Find the arm that the patch is added to."""
    return lambda results: with_and_without(patch)(results)[:1]


def whole_recipe(results: Results) -> list[PlannedArm]:
    """Find the last rung of a ladder."""
    plan = results.experiment.plan
    return [plan.arms[-1]] if plan.design == "cumulative" else []


def every_arm(results: Results) -> list[PlannedArm]:
    """Return all arms."""
    return list(results.experiment.plan.arms)


_DAPO, _DR_GRPO = "DAPO (arXiv:2503.14476)", "Dr.GRPO (arXiv:2503.20783)"
FIGURES = (
    PaperFigure("dapo-figure-1", f"{_DAPO} Figure 1", "avg@n, Pass@n and Maj@n (their cons@32) of the whole recipe",
                (ACCURACY,), whole_recipe),
    PaperFigure("dapo-figure-2", f"{_DAPO} Figure 2", "accuracy and entropy with and without clip-higher",
                (ACCURACY, ENTROPY), with_and_without("clip_higher")),
    PaperFigure("dapo-figure-3a", f"{_DAPO} Figure 3a", "mean probability of up-clipped tokens, before clip-higher",
                (UP_CLIPPED,), without("clip_higher")),
    PaperFigure("dapo-figure-3b", f"{_DAPO} Figure 3b", "share of prompts whose samples are all right",
                (ALL_RIGHT,), without("dynamic_sampling")),
    PaperFigure("dapo-figure-4", f"{_DAPO} Figure 4", "entropy and length with and without token-level loss",
                (ENTROPY, LENGTH), with_and_without("token_level_loss")),
    PaperFigure("dapo-figure-5", f"{_DAPO} Figure 5", "accuracy and entropy with and without overlong filtering",
                (ACCURACY, ENTROPY), with_and_without("overlong_filter")),
    PaperFigure("dapo-figure-6", f"{_DAPO} Figure 6", "accuracy with and without dynamic sampling",
                (ACCURACY,), with_and_without("dynamic_sampling"), "step"),
    PaperFigure("dapo-figure-7", f"{_DAPO} Figure 7", "length, reward, entropy and mean probability of the whole recipe",
                (LENGTH, REWARD, ENTROPY, PROBABILITY), whole_recipe),
    PaperFigure("dr-grpo-length", f"{_DR_GRPO} Figure 5", "length over training: all, right and wrong responses",
                (LENGTH, RIGHT, WRONG), every_arm, "step"),
)  # fmt: skip
K_CURVES = "DeepSeekMath (arXiv:2402.03300), the Maj@K / Pass@K figure"


def write_paper_figures(results: Results, directory: Path, style: str, formats: Sequence[str]) -> list[Path]:
    """Draw every figure the experiment has the arms for, and ``captions.md``, which also names those it has not."""
    paths: list[Path] = []
    captions: list[str] = []
    with styled(style):
        for entry in FIGURES:
            figure = paper_figure(results, entry)
            if figure is None:
                missing = f"not drawn, no run of this experiment shows {entry.shows}."
                captions.append(f"- `{entry.name}` ({entry.paper}): {missing}")
                continue
            paths += save(figure, directory, entry.name, formats)
            captions.append(f"- `{entry.name}`: {caption(results, entry)}")
        figure = k_figure(results)
        if figure is not None:
            paths += save(figure, directory, "deepseekmath-maj-pass", formats)
            captions.append(
                f"- `deepseekmath-maj-pass`: corresponds to {K_CURVES}: Maj@k and Pass@k before RL (dashed) and after. {_ours(results)}"
            )
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "captions.md"
    path.write_text("\n".join(captions) + "\n", encoding="utf-8", newline="\n")
    return [*paths, path]


def caption(results: Results, entry: PaperFigure) -> str:
    """Say what the figure corresponds to, which arms stand in it, and what is different here."""
    arms = entry.arms(results)
    labels = ", ".join(arm.label for arm in arms)
    seeds = min(len(results.experiment.finished_seeds(arm)) for arm in arms)
    extra, spread = "", " with 95 % t band, thin lines are seeds" if len(arms) <= FEW else ""
    if PROBABILITY in entry.panels:
        extra = " Mean probability is the geometric mean over response tokens at the evaluations (theirs: over training rollouts)."
    if len(arms) == 2:
        extra += " The two arms are neighbours of this experiment's design; the paper does not say which other techniques its pair has."
    return (
        f"corresponds to {entry.paper}: {entry.shows}. Arms: {labels}; against {AXES[entry.axis]}; mean of {seeds} "
        f"seed{'s' if seeds != 1 else ''}{spread} (the paper has one run).{extra} {_ours(results)}"
    )


def _ours(results: Results) -> str:
    plan = results.experiment.plan
    return f"Ours: {plan.benchmark}{plan.cap_text}, experiment {plan.name}."


def paper_figure(results: Results, entry: PaperFigure) -> Figure | None:
    """Draw one figure; None where no panel has data or no arm is in it."""
    experiment, arms = results.experiment, entry.arms(results)
    if entry.name == "dapo-figure-1" and arms and logged(experiment, ACCURACY):
        return _k_metrics_figure(results, arms[0], entry.axis)
    return panels_figure(experiment, arms, entry.panels, entry.axis)


def _k_metrics_figure(results: Results, arm: PlannedArm, axis: str) -> Figure:
    """Draw Pass@n and Maj@n beside avg@n; the same arm, so the lines differ in colour."""
    cells = results.experiment.cells
    known = [
        str(name) for kind in ("pass", "maj") for name in cells.columns
        if str(name).startswith(f"{kind}@") and cells[name].notna().mean() > 0.9
    ]  # fmt: skip
    figure, axes = new_figure()
    drawn = appearances(["avg", *known])
    for name, appearance in drawn.items():
        draw_series(axes, accuracy_series(results.experiment, arm.name, axis, name), appearance)
    axes.set_ylabel(score_label(results.experiment.plan))
    axes.set_xlabel(AXES[axis])
    axes.xaxis.set_major_formatter(COUNTS)
    n = next((name.partition("@")[2] for name in known), "n")
    handles = [Line2D([], [], **appearance.pen()) for appearance in drawn.values()]
    legend_below(figure, handles, [f"avg@{n}", *(name.capitalize() for name in known)])
    return figure
