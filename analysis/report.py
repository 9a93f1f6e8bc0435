"""Everything an experiment has to say, written to a folder: tables, figures, answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from matplotlib.figure import Figure

from analysis.answer import answer_sentences
from analysis.evidence.load import load_experiment
from analysis.evidence.metric_values import column_of
from analysis.evidence.results import Results, results_of
from analysis.figures.differences import differences_figure
from analysis.figures.evaluation import (
    accuracy_figure,
    entropy_accuracy_figure,
    grid_figure,
    k_figure,
    metric_figure,
    profile_figure,
    waterfall_figure,
)
from analysis.figures.interactions import interactions_figure
from analysis.figures.multiples import accuracy_multiples
from analysis.figures.paper import write_paper_figures
from analysis.figures.shares import share_figure
from analysis.figures.style import FORMATS, save, styled
from analysis.figures.training import FIGURES, graders_figure, overview_figure, training_figure
from analysis.html.page import write_page
from analysis.methods import write_methods
from analysis.tables.experiment_tables import all_tables
from analysis.tables.files import renderings
from analysis.tables.latex import UnfitColumn
from analysis.tables.numbers import numbers_text
from analysis.tables.of_metric import metric_suffix
from analysis.tables.table import Table
from analysis.written import note_written
from harness.evaluation.metrics.names import BY_SECOND
from harness.store import ResultStore
from harness.store.layout import experiment_dir


def write_answer(
    store_root: Path | str,
    experiment_name: str,
    out_dir: Path | str | None = None,
    *,
    style: str = "paper",
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Write tables and figures of an experiment and return their paths.

    Everything but ``tables/cost.*``, ``figures/cost/``, ``methods/`` and ``report.html`` is a pure function of the
    deterministic content of the store, byte for byte. Failed and missing runs are counted and named in the
    notes.

    Args:
        store_root: results root.
        experiment_name: name of the experiment in the store.
        out_dir: gets ``tables/`` and ``figures/``; by default the experiment's folder in the store.
        style: figure style, ``paper`` or ``screen``.
        formats: figure formats.
    """
    results = results_of(load_experiment(store_root, experiment_name, further=True))
    out = experiment_dir(Path(store_root), experiment_name) if out_dir is None else Path(out_dir)
    return write_parts(results, store_root, out, style=style, formats=formats)


def write_parts(
    results: Results,
    store_root: Path | str,
    out: Path,
    *,
    only: str = "all",
    figures: str = "all",
    style: str = "paper",
    formats: Sequence[str] = FORMATS,
    columns: int = 2,
    also: Sequence[str] = (),
) -> list[Path]:
    """Tables, figures, methods and page, or ``only`` one of them; ``figures="paper"`` redraws published figures instead.

    LaTeX tables are ``columns`` columns of a page wide and take the columns of ``also`` before others.

    What earlier reports of the experiment wrote there and this one, asked for the same part and formats, no longer makes is
    removed (see `analysis.written`).
    """
    paths: list[Path] = []
    if only in ("all", "tables"):
        paths += write_tables(results, all_tables(results), out / "tables", columns=columns, also=also)
    if only in ("all", "figures") and figures == "paper":
        paths += write_paper_figures(results, out / "figures" / "paper", style, formats)
    elif only in ("all", "figures"):
        paths += write_figures(results, store_root, out / "figures", style, formats)
    if only in ("all", "methods"):
        paths += write_methods(results, store_root, out / "methods")
    if only in ("all", "page"):
        paths.append(write_page(results, store_root, out / "report.html"))

    def made_anew(name: PurePosixPath) -> bool:
        if name.parts[0] in ("tables", "methods"):
            return only in ("all", name.parts[0])
        paper = name.parts[:2] == ("figures", "paper")
        asked = only in ("all", "figures") and paper == (figures == "paper")
        return asked and name.parts[0] == "figures" and name.suffix.removeprefix(".") in formats

    note_written(out, results.experiment.plan.name, paths, made_anew)
    return paths


def write_tables(
    results: Results, tables: Sequence[Table], directory: Path, *, columns: int = 2, also: Sequence[str] = ()
) -> list[Path]:
    """Each table as Markdown, LaTeX and CSV; their numbers as LaTeX commands; per-seed results, the answer in words, the run ids."""
    directory.mkdir(parents=True, exist_ok=True)
    known = {column.key for table in tables for column in table.columns}
    if unknown := set(also) - known:
        raise UnfitColumn(
            f"also={','.join(sorted(unknown))}: no table has such a column; known: {', '.join(sorted(known))}"
        )
    texts = {
        f"{table.name}.{suffix}": text
        for table in tables
        for suffix, text in renderings(table, columns=columns, also=also).items()
    }
    plan = results.experiment.plan
    *deterministic, _cost = tables
    further = {"arms": len(plan.arms), "seeds": len(plan.seeds)}
    texts["numbers.tex"] = numbers_text(
        deterministic, {f"{plan.name}-{name}": str(n) for name, n in further.items()}
    )
    # What compares the graders a table of its own tells.
    of_graders = [
        name for name in map(str, results.per_seed) if name.startswith("graders_") or name.endswith(BY_SECOND)
    ]
    not_asked = set(of_graders) - {column_of(metric) for metric in plan.metrics}
    per_seed = results.per_seed.drop(columns=["steps", *not_asked])
    texts["per-seed.csv"] = per_seed.to_csv(index=False, lineterminator="\n")
    texts["answer.md"] = "\n".join(answer_sentences(results)) + "\n"
    runs = {arm.name: {str(seed): run_id for seed, run_id in arm.runs.items()} for arm in plan.arms}
    texts["runs.json"] = json.dumps({"experiment": plan.name, "runs": runs}, indent=1) + "\n"
    paths = []
    for name, text in texts.items():
        path = directory / name
        path.write_text(text, encoding="utf-8", newline="\n")
        paths.append(path)
    return paths


def write_figures(
    results: Results, store_root: Path | str, directory: Path, style: str, formats: Sequence[str]
) -> list[Path]:
    """Every figure the experiment has data for; none without formats."""
    paths: list[Path] = []
    with styled(style):
        for name, build in figure_makers(results, ResultStore(store_root)) if formats else ():
            figure = build()
            if figure is not None:
                folder, _, stem = name.rpartition("/")
                paths += save(figure, directory / folder, stem, formats)
    return paths


def figure_makers(results: Results, store: ResultStore) -> Iterator[tuple[str, Callable[[], Figure | None]]]:
    """File name and maker of every figure; a maker answers None where the experiment has no data for it."""
    experiment = results.experiment
    for view in results.each_metric():
        end = metric_suffix(view)
        yield f"ladder{end}", partial(waterfall_figure, view)
        yield f"differences{end}", partial(differences_figure, view)
        yield f"interactions{end}", partial(interactions_figure, view)
        yield f"metric{end}", partial(metric_figure, view)
        yield f"grid{end}", partial(grid_figure, view)
    yield "accuracy", partial(accuracy_figure, experiment)
    yield "accuracy-by-arm", partial(accuracy_multiples, experiment)
    yield "k-curves", partial(k_figure, results)
    yield "entropy-against-accuracy", partial(entropy_accuracy_figure, experiment)
    yield "graders", partial(graders_figure, experiment)
    yield "profile", partial(profile_figure, results)
    yield "gradient-share", partial(share_figure, results, store)
    for name in FIGURES:
        yield f"training/{name}", partial(training_figure, experiment, name, "step")
    for axis in ("updates", "tokens", "seconds"):  # the step has a figure for every quantity above
        folder = "cost" if axis == "seconds" else "training"
        yield f"{folder}/all-against-{axis}", partial(overview_figure, experiment, axis)
