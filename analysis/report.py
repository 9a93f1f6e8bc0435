"""Everything an experiment has to say, written to a folder: tables, figures, page, and the methods paragraph with its sources as BibTeX."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import resources
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from analysis.answer import answer_sentences
from analysis.designs import key_label, setting_label
from analysis.effects import differences_to_reference
from analysis.figures.curves import (
    FIGURES,
    accuracy_figure,
    k_figure,
    metric_figure,
    training_figure,
)
from analysis.figures.drawing import WRITTEN_FORMATS, save, styled
from analysis.figures.effects import differences_figure, grid_figure, interactions_figure, waterfall_figure
from analysis.frames import load_experiment
from analysis.html.page import write_page
from analysis.results import Results, results_of
from analysis.samples import column_of
from analysis.tables.differences import family_size, metric_name, metric_suffix, power_notes, samples
from analysis.tables.experiment import all_tables, answer_tables
from analysis.tables.table import UnknownColumn, latex_escape, numbers_text, renderings
from harness.configuration.identity import flatten
from harness.evaluation.metrics.names import BY_SECOND
from harness.experiment.plan import PlannedArm
from harness.store import ResultStore
from harness.store.layout import experiment_dir

# What a report writes of figures unless all are asked for; an experiment has data for about four of them.
MAIN_FIGURES = ("ladder", "differences", "interactions", "grid", "accuracy", "k-curves")


def write_answer(
    store_root: Path | str,
    experiment_name: str,
    out_dir: Path | str | None = None,
    *,
    figures: str = "main",
    tables: str = "main",
    style: str = "paper",
    formats: Sequence[str] = WRITTEN_FORMATS,
) -> list[Path]:
    """Write tables, figures, methods and page of an experiment and return their paths.

    Everything but ``tables/cost.*``, ``methods/`` and ``report.html`` is a pure function of the deterministic content of the store, byte
    for byte. ``out_dir`` is the experiment's folder in the store unless given; ``figures``, ``tables``: ``main`` or ``all``.
    """
    results = results_of(load_experiment(store_root, experiment_name, further=True))
    out = experiment_dir(Path(store_root), experiment_name) if out_dir is None else Path(out_dir)
    return write_parts(results, store_root, out, figures=figures, tables=tables, style=style, formats=formats)


def write_parts(
    results: Results,
    store_root: Path | str,
    out: Path,
    *,
    only: str = "all",
    figures: str = "main",
    tables: str = "main",
    style: str = "paper",
    formats: Sequence[str] = WRITTEN_FORMATS,
    columns: Sequence[str] = (),
) -> list[Path]:
    """Write tables, figures, methods and page, or ``only`` one of them; ``columns`` are those of LaTeX tables (none: all)."""
    paths: list[Path] = []
    if only in ("all", "tables"):
        paths += write_tables(results, out / "tables", everything=tables == "all", columns=columns)
    if only in ("all", "figures"):
        paths += write_figures(results, out / "figures", style, formats, everything=figures == "all")
    if only in ("all", "methods"):
        paths += write_methods(results, store_root, out / "methods")
    if only in ("all", "page"):
        paths.append(write_page(results, store_root, out / "report.html"))
    return paths


def write_tables(
    results: Results, directory: Path, *, everything: bool = False, columns: Sequence[str] = ()
) -> list[Path]:
    """Write tables as Markdown, LaTeX and CSV; all numbers as LaTeX commands; per-seed results, the answer in words, the run ids.

    Raises:
        UnknownColumn: no table has one of ``columns``.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tables = all_tables(results)
    known = {column.key for table in tables for column in table.columns}
    if unknown := set(columns) - known:
        raise UnknownColumn(
            f"columns={','.join(sorted(unknown))}: no table has such a column; known: {', '.join(sorted(known))}"
        )
    texts = {
        f"{table.name}.{suffix}": text
        for table in (tables if everything else answer_tables(results))
        for suffix, text in renderings(table, columns).items()
    }
    plan = results.experiment.plan
    *deterministic, _cost = tables
    counts = {f"{plan.name}-arms": str(len(plan.arms)), f"{plan.name}-seeds": str(len(plan.seeds))}
    texts["numbers.tex"] = numbers_text(deterministic, counts)
    # The table of the two graders has what compares them.
    of_graders = [
        name for name in map(str, results.per_seed) if name.startswith("graders_") or name.endswith(BY_SECOND)
    ]
    undeclared = set(of_graders) - {column_of(metric) for metric in plan.metrics}
    per_seed = results.per_seed.drop(columns=["checkpoint", *undeclared])
    texts["per-seed.csv"] = per_seed.to_csv(index=False, lineterminator="\n")
    texts["answer.md"] = "\n".join(answer_sentences(results)) + "\n"
    runs = {arm.name: {str(seed): run_id for seed, run_id in arm.runs.items()} for arm in plan.arms}
    texts["runs.json"] = json.dumps({"experiment": plan.name, "runs": runs}, indent=1) + "\n"
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8", newline="\n")
    return [directory / name for name in texts]


def write_figures(
    results: Results, directory: Path, style: str, formats: Sequence[str], *, everything: bool = False
) -> list[Path]:
    """Write the figures that the experiment has data for: those of ``MAIN_FIGURES``, or all; none without formats."""
    paths: list[Path] = []
    with styled(style):
        for name, build in figure_makers(results) if formats else ():
            if not everything and name not in MAIN_FIGURES:
                continue
            figure = build()
            if figure is not None:
                folder, _, stem = name.rpartition("/")
                paths += save(figure, directory / folder, stem, formats)
    return paths


def figure_makers(results: Results) -> Iterator[tuple[str, Callable[[], Figure | None]]]:
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
    yield "k-curves", partial(k_figure, results)
    for name in FIGURES:
        yield f"training/{name}", partial(training_figure, experiment, name)


_DESIGNS = {
    "cumulative": "each adds one change to the one before it",
    "leave_one_out": "each leaves one part out of the full recipe",
    "one_factor": "each makes one change to the base",
    "factorial": "they cross the factors",
    "shapley": "they add the parts in several orders",
    "arms": "each has settings of its own",
}
_EXTRACTIONS = {
    "boxed": "the last box",
    "answer_line": "the last answer line",
    "any": "the last box, else the last answer line, else the last number",
}
_CITED = re.compile(r"^((?:[\w.]+: \S*\n)+)(@\w+\{(\w+),.*?\n\}\n)", flags=re.MULTILINE | re.DOTALL)
_LISTED = 12  # arms
_VERSIONS = ("torch", "transformers", "vllm", "verl", "math-verify")


@dataclass(frozen=True)
class Methods:
    """An account of an experiment, from its plan, its runs' configurations and their manifests."""

    results: Results
    store: ResultStore

    @cached_property
    def configurations(self) -> list[dict[str, Any]]:
        """Each distinct configuration that has run, flat: one a finished arm."""
        arms = self.results.experiment.plan.arms
        firsts = [(arm, seeds[0]) for arm in arms if (seeds := self.results.experiment.finished_seeds(arm))]
        return [flatten(self.store.run(arm.runs[seed]).settings()) for arm, seed in firsts]

    @cached_property
    def provenance(self) -> list[dict[str, Any]]:
        """What the finished runs recorded of code, packages and machine; nothing of those logged elsewhere."""
        states = self.results.experiment.runs
        finished = dict.fromkeys(states.loc[states["status"] == "finished", "run_id"])
        manifests = (self.store.run(run_id).manifest() or {} for run_id in finished)
        return [provenance for manifest in manifests if (provenance := manifest.get("provenance"))]

    def shared(self, key: str) -> str:
        """Write the value of a setting that all arms share, else all of its values."""
        values = dict.fromkeys(str(configuration[key]) for configuration in self.configurations if key in configuration)
        return " or ".join(values)

    @cached_property
    def sentences(self) -> list[str]:
        """The paragraph; what the store does not say is left out."""
        plan = self.results.experiment.plan
        texts = (
            self._arms(), self._seeds(), self._training(), self._tokens(), self._protocol(), self._verifier(), self._intervals(),
            self._margin(), self._stopping(), self._hardware(), self._versions(),
            " ".join(f"{note.removesuffix('.')}." for note in (*plan.notes, *self.results.experiment.notes)),
        )  # fmt: skip
        return [text for text in texts if text]

    def _arms(self) -> str:
        plan = self.results.experiment.plan
        text = f"We compare {_count(len(plan.arms), 'arm')}; {_DESIGNS[plan.design]}"
        return f"{text}." if len(plan.arms) > _LISTED else f"{text}: {'; '.join(map(_arm, plan.arms))}."

    def _seeds(self) -> str:
        experiment = self.results.experiment
        plan = experiment.plan
        runs, finished = len(experiment.runs), int((experiment.runs["status"] == "finished").sum())
        done = "all of which finished" if runs == finished else f"of which {finished} finished"
        bases = f" Seed s starts from base policy s mod {plan.base_policies}." if plan.base_policies else ""
        return f"Every arm is trained with {_count(len(plan.seeds), 'seed')}: {_count(runs, 'run')}, {done}.{bases}"

    def _training(self) -> str:
        if not self.configurations:
            return ""
        share = self.shared
        return (
            f"Training takes {share('training.steps')} rollout steps of {share('algorithm.prompts_per_step')} prompts with "
            f"{share('algorithm.responses_per_prompt')} responses each and {share('algorithm.updates_per_step')} updates a step by Adam "
            f"(learning rate {share('optimizer.learning_rate').replace('e-0', 'e-')}, gradient norm at most "
            f"{share('optimizer.max_gradient_norm')}). Responses have at most {share('sampling.max_response_tokens')} tokens and are "
            f"sampled at temperature {share('sampling.temperature')}."
        )

    def _tokens(self) -> str:
        steps = _of_finished(self.results)
        if "generated_tokens" not in steps or not len(steps):
            return ""
        runs = steps.groupby("run_id")["generated_tokens"].sum()
        least, most = tokens_text(runs.min()), tokens_text(runs.max())
        return (
            f"A run generates {least if least == most else f'{least} to {most}'} tokens, discarded groups included; all runs together "
            f"generate {tokens_text(runs.sum())}."
        )

    def _protocol(self) -> str:
        plan, n = self.results.experiment.plan, samples(self.results)
        problems = len(self.results.experiment.problem_ids)
        sampled = ""
        if n and problems:
            sampled = f", over {_count(n, 'sample')} of each of {_count(problems, 'problem')}"
            if temperature := self.shared("evaluation.temperature"):
                sampled += f" at temperature {temperature} and top-p {self.shared('evaluation.top_p')}"
        names = " and ".join(metric_name(view) for view in self.results.each_metric())
        benchmark = plan.benchmark.replace("_", " ").replace("heldout", "held-out problems")
        return f"We report {names} on {benchmark}{plan.cap_text}{sampled}, after the last step of every run."

    def _verifier(self) -> str:
        extraction = self.shared("verifier.extraction")
        if not extraction:
            return ""
        version = self._packages().get("math-verify")
        by = f" with Math-Verify {version}" if version else ""
        end = ", which has to end the response" if self.shared("verifier.answer_must_end") == "True" else ""
        return f"Answers are graded by rule{by}: the answer is {_EXTRACTIONS.get(extraction, extraction)}{end}."

    def _intervals(self) -> str:
        plan = self.results.experiment.plan
        unit = "base policies" if plan.shares_bases else "training seeds"
        test = "paired by seed" if plan.paired else "of independent seeds (Welch)"
        views = self.results.each_metric()
        size = max((family_size(differences_to_reference(view).values()) for view in views), default=1)
        together = f" The intervals of the {size} declared differences hold together at 95 % (Šidák)."
        return (
            f"Intervals are 95 % Student's t over {unit}, problems fixed; differences are {test}."
            f"{together if size > 1 and not plan.looks else ''} No interval is taken over samples or problems."
        )

    def _margin(self) -> str:
        margins = self.results.experiment.plan.margins
        if not margins:
            return "No margin of equivalence was declared, so nothing is called equivalent."
        views = {view.metric.name: view for view in self.results.each_metric()}
        sizes = ", ".join(
            f"{size:g} {views[name].metric.unit} of {metric_name(views[name])}"
            for name, size in margins.items()
            if name in views
        )
        return (
            "A difference whose interval contains zero is equivalent where all of the interval lies within the declared margin "
            f"({sizes}), and otherwise not resolved."
        )

    def _stopping(self) -> str:
        plan = self.results.experiment.plan
        if plan.looks:
            looks = ", ".join(map(str, plan.looks))
            return (
                f"Seeds are added until a difference is decided, at declared looks ({looks} seeds); intervals hold together over all "
                "looks."
            )
        power = power_notes(differences_to_reference(self.results).values(), self.results)
        return " ".join(["The design has a fixed number of seeds.", *power])

    def _hardware(self) -> str:
        machines = dict.fromkeys(_machine(provenance) for provenance in self.provenance)
        steps = _of_finished(self.results)
        seconds = float(steps["seconds_total"].sum()) if "seconds_total" in steps else 0.0
        time = f"; all runs together took {_duration(seconds)} of training and evaluation" if seconds else ""
        return f"Hardware: {'; '.join(machines)}{time}." if machines else ""

    def _versions(self) -> str:
        if not self.provenance:
            return ""
        commits = dict.fromkeys(str(provenance.get("git_commit"))[:10] for provenance in self.provenance)
        pythons = dict.fromkeys(str(provenance.get("python")) for provenance in self.provenance)
        packages = ", ".join(f"{name} {version}" for name, version in self._packages().items())
        return f"Code: rlvr-harness, commit {', '.join(commits)}; Python {', '.join(pythons)}; {packages}."

    def _packages(self) -> dict[str, str]:
        """Versions of the packages that numbers depend on; several where runs had several."""
        packages: dict[str, dict[str, None]] = {}
        for provenance in self.provenance:
            for name, version in (provenance.get("packages") or {}).items():
                if name in _VERSIONS and version:
                    packages.setdefault(name, {})[str(version)] = None
        return {name: " and ".join(versions) for name, versions in packages.items()}

    @cached_property
    def sources(self) -> dict[str, str]:
        """BibTeX key to entry of the papers that the settings of these arms come from, and those of the published numbers."""
        arms = self.results.experiment.plan.arms
        published = " ".join(arm.published.source for arm in arms if arm.published)
        text = resources.files("analysis").joinpath("sources.bib").read_text(encoding="utf-8")
        return {
            key: entry
            for conditions, entry, key in _CITED.findall(text)
            if any(map(self._holds, conditions.splitlines()))
            or any(i in published for i in re.findall(r"arXiv:[\d.]+\d", entry))
        }

    def _holds(self, condition: str) -> bool:
        key, _, wanted = condition.partition(": ")
        values = [str(configuration[key]) for configuration in self.configurations if key in configuration]
        if wanted.startswith("!"):
            return any(value != wanted[1:] for value in values)
        return any(value in wanted.split("|") for value in values)

    def files(self) -> dict[str, str]:
        """The files of the folder ``methods``."""
        paragraph = " ".join(map(latex_escape, self.sentences))
        cited = f" Systems and settings come from~\\cite{{{','.join(self.sources)}}}." if self.sources else ""
        return {
            "methods.tex": f"{paragraph}{cited}\n",
            "methods.md": "\n\n".join(self.sentences) + "\n",
            "sources.bib": "\n".join(self.sources.values()),
        }


def write_methods(results: Results, store_root: Path | str, directory: Path) -> list[Path]:
    """Write the paragraph (LaTeX and Markdown) and its BibTeX into the folder; returns their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    files = Methods(results, ResultStore(store_root)).files()
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8", newline="\n")
    return [directory / name for name in files]


def _of_finished(results: Results) -> Any:
    """The step metrics of finished runs; a run that two arms share counts once."""
    states, steps = results.experiment.runs, results.experiment.steps
    finished = states.loc[states["status"] == "finished", "run_id"]
    return steps[steps["run_id"].isin(finished)].drop_duplicates(["run_id", "step"])


def _arm(arm: PlannedArm) -> str:
    """Its label, with what it changes where that is little."""
    changes = [change for change in arm.changes.items() if isinstance(change[1], list)]
    if not 1 <= len(changes) <= 2:
        return arm.label
    texts = (
        f"{key_label(key)}: {setting_label(key, values[-1])} instead of {setting_label(key, values[0])}"
        for key, values in changes
    )
    return f"{arm.label} ({', '.join(texts)})"


def _machine(provenance: Mapping[str, Any]) -> str:
    hardware = provenance.get("hardware") or {}
    if gpus := hardware.get("gpus"):
        return f"{len(gpus)} × {gpus[0]}"
    return f"{hardware.get('cpu', 'CPU')}, {_count(int(hardware.get('cores', 0)), 'core')}, no GPU"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def tokens_text(number: float) -> str:
    """``1.9 million``, ``310 thousand`` or ``840``."""
    if number >= 1e6:
        return f"{number / 1e6:.1f} million"
    return f"{number / 1000:.0f} thousand" if number >= 10_000 else f"{number:.0f}"


def _duration(seconds: float) -> str:
    """``3.2 hours``, ``12 minutes`` or ``8 seconds``."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
