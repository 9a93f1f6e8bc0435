"""Answers from the result store: statistics, tables, figures, report, and the Python front (docs/python.md).

May import: configuration, engagement, evaluation, exchange, experiment, statistics, store, verify. Imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.api import NoValueError as NoValueError
    from analysis.api import contrast as contrast
    from analysis.api import difference as difference
    from analysis.api import figure_of as figure_of
    from analysis.api import known_metrics as known_metrics
    from analysis.api import load as load
    from analysis.api import save_figure as save_figure
    from analysis.api import seed_frame as seed_frame
    from analysis.api import tables_of as tables_of
    from analysis.judgement import judge as judge
    from analysis.report import write_answer as write_answer
    from analysis.results import Results as Results
    from analysis.results import on_benchmark as on_benchmark
    from analysis.tables.table import to_frame as to_frame
    from analysis.tables.table import to_latex as to_latex
    from analysis.tables.table import to_markdown as to_markdown
    from harness.evaluation.metrics.names import UnknownMetric as UnknownMetric
    from harness.experiment.plan import PlanError as PlanError
    from harness.statistics.intervals import Estimate as Estimate
    from harness.statistics.intervals import Verdict as Verdict
    from harness.store import StoreError as StoreError

# The front is imported when it is first used: a table needs no figures.
_NAMES = {
    "analysis.api": "NoValueError contrast difference figure_of known_metrics load save_figure seed_frame tables_of",
    "analysis.results": "Results on_benchmark",
    "analysis.judgement": "judge",
    "analysis.report": "write_answer",
    "analysis.tables.table": "to_frame to_latex to_markdown",
    "harness.evaluation.metrics.names": "UnknownMetric",
    "harness.experiment.plan": "PlanError",
    "harness.statistics.intervals": "Estimate Verdict",
    "harness.store": "StoreError",
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_PLACES)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'analysis' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
