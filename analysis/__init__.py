"""Answers from the result store: statistics, tables, figures, report, and the Python front (docs/python.md).

May import: configuration, engagement, evaluation, experiment, statistics, store, verify. Imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.api import (
        NoValueError,
        contrast,
        difference,
        evaluation_frame,
        figure_of,
        known_metrics,
        load,
        save_figure,
        seed_frame,
        step_frame,
        tables_of,
    )
    from analysis.evidence.results import Results, on_benchmark
    from analysis.report import write_answer
    from analysis.tables.latex import to_latex
    from analysis.tables.table import to_frame, to_markdown
    from harness.evaluation.metrics.names import UnknownMetric
    from harness.experiment.plan import PlanError
    from harness.statistics.intervals import Estimate, Verdict
    from harness.store import StoreError

_PLACES = {
    "Estimate": "harness.statistics.intervals",
    "PlanError": "harness.experiment.plan",
    "Results": "analysis.evidence.results",
    "StoreError": "harness.store",
    "UnknownMetric": "harness.evaluation.metrics.names",
    "Verdict": "harness.statistics.intervals",
    "on_benchmark": "analysis.evidence.results",
    "to_frame": "analysis.tables.table",
    "to_latex": "analysis.tables.latex",
    "to_markdown": "analysis.tables.table",
    "write_answer": "analysis.report",
}
__all__ = [
    "Estimate",
    "NoValueError",
    "PlanError",
    "Results",
    "StoreError",
    "UnknownMetric",
    "Verdict",
    "contrast",
    "difference",
    "evaluation_frame",
    "figure_of",
    "known_metrics",
    "load",
    "on_benchmark",
    "save_figure",
    "seed_frame",
    "step_frame",
    "tables_of",
    "to_frame",
    "to_latex",
    "to_markdown",
    "write_answer",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import the front when it is first used: a table needs no figures."""
    if name not in __all__:
        raise AttributeError(f"module 'analysis' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_PLACES.get(name, "analysis.api")), name)
