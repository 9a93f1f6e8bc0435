"""Everything an experiment has to say, written to a folder: tables, figures, page, and the methods paragraph with its sources as BibTeX."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis.answer import answer_markdown
from analysis.declared import INTERACTIONS, MAIN, SHAPLEY
from analysis.effects import all_effects, effects_frame
from analysis.figures import curves
from analysis.figures.drawing import FORMATS, WRITTEN_FORMATS, figure_style, save
from analysis.figures.effects import design_figure, differences_figure, grid_figure
from analysis.frames import SCORES, load_experiment, long
from analysis.html.page import render_page
from analysis.methods import Methods
from analysis.results import Results, results_of
from analysis.samples import column_of, is_computed
from analysis.tables.experiment import all_tables, answer_tables
from analysis.tables.table import numbers_text, renderings, write_texts
from analysis.tables.words import metric_suffix, seeds_text
from harness.store import ResultStore
from harness.store.atomic import publish_file
from harness.store.foreign_text import csv_text, markdown
from harness.store.layout import experiment_dir

_PARTS, _AMOUNTS = ("all", "tables", "figures", "methods", "page"), ("main", "all")
# What a report writes of figures unless all are asked for; an experiment has data for about three of them.
MAIN_FIGURES = ("differences", MAIN, INTERACTIONS, SHAPLEY, "grid", "accuracy", "k-curves")


def write_answer(
    store_root: Path | str,
    experiment_name: str,
    out_dir: Path | str | None = None,
    *,
    only: str = "all",
    figures: str = "main",
    tables: str = "main",
    style: str = "paper",
    formats: Sequence[str] = WRITTEN_FORMATS,
    columns: Sequence[str] = (),
    results: Results | None = None,
    replace: bool = False,
) -> list[Path]:
    """Write tables, figures, methods and page of an experiment, or ``only`` one of them, and return their paths.

    Everything but the seconds in ``tables/answer.md``, ``frames/steps.*``, ``methods/`` and ``report.html`` is a pure
    function of the deterministic content of the store.
    ``out_dir`` is the experiment's folder in the store unless given; ``figures``, ``tables``: ``main`` or ``all``;
    ``columns``: those of LaTeX tables (none: score, difference); ``results``: the experiment where it has been read; ``replace``:
    the tables and figures that an earlier report wrote there, and this one does not, are deleted. Raises `ValueError` for a part or
    an amount that is none of these.
    """
    for key, value, choices in (("only", only, _PARTS), ("figures", figures, _AMOUNTS), ("tables", tables, _AMOUNTS)):
        if value not in choices:
            raise ValueError(f"{key}={value!r} is none of {', '.join(choices)}")
    results = results or results_of(load_experiment(store_root, experiment_name))
    out = Path(out_dir or experiment_dir(Path(store_root), experiment_name))
    paths: list[Path] = []
    if only in ("all", "tables"):
        paths += write_tables(results, out / "tables", everything=tables == "all", columns=columns)
        paths += write_frames(results, out / "frames")
    if only in ("all", "figures"):
        paths += write_figures(results, out / "figures", style, formats, everything=figures == "all")
    if only in ("all", "methods"):
        paths += write_texts(out / "methods", Methods(results, ResultStore(store_root)).files())
    for path in _stale_files(results, out, paths) if replace else ():
        path.unlink()
    if only in ("all", "page"):  # it links what lies beside it
        paths += write_texts(out, {"report.html": render_page(results, store_root)})
    return paths


def _stale_files(results: Results, folder: Path, paths: Sequence[Path]) -> list[Path]:
    """List the tables and figures in the folder that a report makes of this experiment and that are not among ``paths``."""
    names = [f"tables/{table.name}.{suffix}" for table in all_tables(results) for suffix in ("md", "csv", "tex")]
    names += [f"figures/{name}.{suffix}" for name, _ in figure_makers(results) for suffix in FORMATS]
    return [path for path in (folder / name for name in names) if path.is_file() and path not in paths]


def write_tables(
    results: Results, directory: Path, *, everything: bool = False, columns: Sequence[str] = ()
) -> list[Path]:
    """Write tables as Markdown, LaTeX and CSV, all numbers as LaTeX commands, and the answer in words; raises UnknownColumn."""
    plan, tables = results.experiment.plan, all_tables(results)
    written_tables = tables if everything else answer_tables(results)
    texts = renderings(written_tables, columns, tables)
    seeds = seeds_text(plan.seed_counts).partition(" seed")[0]
    counts = {f"{plan.name}-arms": str(len(plan.arms)), f"{plan.name}-seeds": seeds}
    answer = markdown(answer_markdown(results))
    return write_texts(directory, {**texts, "numbers.tex": numbers_text(tables, counts), "answer.md": answer})


def write_frames(results: Results, directory: Path) -> list[Path]:
    """Write scores and steps as Parquet and CSV, and every effect as CSV (docs/python.md); computed metrics stand at the checkpoint."""
    plan, frames = results.experiment.plan, results.experiment
    computed_columns = [column_of(metric) for metric in plan.metrics if is_computed(metric)]
    own_rows = results.per_seed.assign(step=results.per_seed["checkpoint"], benchmark=plan.benchmark)
    stored_scores = [frames.scores, *(further.scores for further in frames.further.values())]
    scores = pd.concat([*stored_scores, long(own_rows[[*SCORES[:-2], *computed_columns]])], ignore_index=True)
    tables = {"scores": scores, "steps": frames.steps}
    texts = {"effects": effects_frame(all_effects(results)), **tables}
    paths = write_texts(directory, {f"{name}.csv": csv_text(table) for name, table in texts.items()})
    for name, table in tables.items():
        paths.append(directory / f"{name}.parquet")
        publish_file(paths[-1], partial(table.to_parquet, index=False), durable=False)
    return paths


def write_figures(
    results: Results, directory: Path, style: str, formats: Sequence[str], *, everything: bool = False
) -> list[Path]:
    """Write the figures that the experiment has data for: those of ``MAIN_FIGURES``, or all; none without formats."""
    paths: list[Path] = []
    with figure_style(style):
        for name, build in figure_makers(results) if formats else ():
            if (everything or name in MAIN_FIGURES) and (figure := build()) is not None:
                paths += save(figure, directory, name, formats)
    return paths


def figure_makers(
    results: Results, views: Sequence[Results] | None = None
) -> Iterator[tuple[str, Callable[[], Figure | None]]]:
    """File name and maker of every figure; a maker answers None where the experiment has no data for it.

    ``views``: the results about one metric each, the first of which has the plain names; None: those that the experiment declares.
    """
    experiment, views = results.experiment, results.each_metric if views is None else views
    for view in views:
        suffix = metric_suffix(view) if len(views) > 1 else ""
        yield f"differences{suffix}", partial(differences_figure, view)
        for kind in view.attributions:
            yield f"{kind}{suffix}", partial(design_figure, view, kind)
        yield f"metric{suffix}", partial(curves.metric_figure, view)
        yield f"difference-curves{suffix}", partial(curves.difference_curves_figure, view)
        yield f"grid{suffix}", partial(grid_figure, view)
    yield "accuracy", partial(curves.accuracy_figure, experiment)
    yield "k-curves", partial(curves.k_figure, results)
    for name in curves.FIGURES:
        yield f"training/{name}", partial(curves.training_figure, experiment, name)
