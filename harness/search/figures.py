"""Figures of a search: which keys matter, and where the good region lies."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import optuna
import optuna.visualization.matplotlib

_FORMATS = ("pdf", "png")
_LEAST = 2  # complete trials


def draw(study: optuna.Study, objectives: Sequence[str], folder: Path) -> list[Path]:
    """Write `importance_<objective>` and `contour_<objective>_<key>_<key>` where the trials allow it; returns the files."""
    complete = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
    keys = sorted(
        {key for trial in complete for key in trial.params if len({t.params.get(key) for t in complete}) > 1}
    )
    if len(complete) < _LEAST or not keys:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for index, name in enumerate(objectives):
        importances = importance(study, index, keys)
        files += _save(_importance_figure(importances, name), folder / f"importance_{name}")
        best_pairs = itertools.combinations(sorted(keys, key=lambda key: -importances.get(key, 0.0))[:3], 2)
        for first, second in best_pairs:
            figure = _contour(study, index, name, first, second)
            files += _save(figure, folder / f"contour_{name}_{_leaf(first)}_{_leaf(second)}")
    return files


def importance(study: optuna.Study, objective: int, keys: Sequence[str]) -> dict[str, float]:
    """Compute how much each key makes trials good (PED-ANOVA, arXiv:2304.10255), summing to one; zeros where trials do not tell."""
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    target: Callable[[Any], float] | None = None
    if len(study.directions) > 1:
        sign = 1.0 if study.directions[objective] == optuna.study.StudyDirection.MINIMIZE else -1.0
        target = lambda trial: sign * trial.values[objective]  # noqa: E731 (PED-ANOVA takes small targets as good)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            shares = optuna.importance.get_param_importances(study, evaluator=evaluator, target=target)
        except (RuntimeError, ValueError):
            shares = {}
    return {key: float(shares.get(key, 0.0)) for key in keys}


def _importance_figure(importances: dict[str, float], name: str) -> Any:
    ordered = sorted(importances.items(), key=lambda pair: pair[1])
    figure, axes = plt.subplots(figsize=(5, 0.6 + 0.35 * len(ordered)), layout="constrained")
    axes.barh([key for key, _ in ordered], [value for _, value in ordered], color="#4c72b0")
    axes.set_xlabel(f"importance for {name}")
    axes.set_xlim(left=0)
    return figure


def _contour(study: optuna.Study, objective: int, name: str, first: str, second: str) -> Any:
    """Draw trials as points over two keys, with interpolated levels between them."""
    with matplotlib.rc_context(), warnings.catch_warnings():  # optuna sets a style for good
        warnings.simplefilter("ignore")  # optuna calls its figures experimental
        axes = optuna.visualization.matplotlib.plot_contour(
            study, params=[first, second], target=lambda trial: trial.values[objective], target_name=name
        )
    axes.set_title("")
    return axes.figure


def _save(figure: Any, stem: Path) -> list[Path]:
    files = [stem.with_name(f"{stem.name}.{suffix}") for suffix in _FORMATS]
    for file in files:
        figure.savefig(file, metadata={"CreationDate": None} if file.suffix == ".pdf" else None, dpi=150)
    plt.close(figure)
    return files


def _leaf(key: str) -> str:
    return key.replace("/", ".").rpartition(".")[2]
