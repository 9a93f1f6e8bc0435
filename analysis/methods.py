"""The methods paragraph of an experiment, its sources as BibTeX and a reproducibility checklist, all read from the store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from analysis.evidence.keys import key_label
from analysis.evidence.results import Results
from analysis.tables.differences import differences_to_reference, family_size, power_notes
from analysis.tables.latex import latex_escape
from analysis.tables.of_metric import metric_name, samples
from harness.experiment.plan import PlannedArm
from harness.store import ResultStore

_DESIGNS = {
    "cumulative": "each adds one change to the one before it",
    "leave_one_out": "each leaves one part out of the full recipe",
    "one_factor": "each makes one change to the base",
    "factorial": "they cross the factors",
    "shapley": "they add the parts in several orders",
    "arms": "each has settings of its own",
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
        return [_flat(self.store.run(arm.runs[seed]).settings()) for arm, seed in firsts]

    @cached_property
    def provenance(self) -> list[dict[str, Any]]:
        """Read what the finished runs recorded of code, packages and machine; nothing of those logged elsewhere."""
        states = self.results.experiment.states
        finished = dict.fromkeys(states.loc[states["status"] == "finished", "run_id"])
        manifests = (self.store.run(run_id).manifest() or {} for run_id in finished)
        return [found for manifest in manifests if (found := manifest.get("provenance"))]

    def shared(self, key: str) -> str:
        """Write the value of a setting that all arms share, else all of its values."""
        values = dict.fromkeys(str(found[key]) for found in self.configurations if key in found)
        return " or ".join(values)

    @cached_property
    def facts(self) -> dict[str, str]:
        """Sentences by what they answer, in the order of the paragraph; those that the store does not say are left out."""
        plan = self.results.experiment.plan
        found = {
            "arms": self._arms(),
            "seeds": self._seeds(),
            "training": self._training(),
            "tokens": self._tokens(),
            "protocol": self._protocol(),
            "verifier": self._verifier(),
            "intervals": self._intervals(),
            "margin": self._margin(),
            "stopping rule": self._stopping(),
            "hardware": self._hardware(),
            "versions": self._versions(),
            "notes": " ".join(_sentence(note) for note in (*plan.notes, *self.results.experiment.notes)),
        }
        return {name: text for name, text in found.items() if text}

    def _arms(self) -> str:
        plan = self.results.experiment.plan
        text = f"We compare {_count(len(plan.arms), 'arm')}; {_DESIGNS[plan.design]}"
        if len(plan.arms) > _LISTED:
            return f"{text}."
        return f"{text}: {'; '.join(map(_arm, plan.arms))}."

    def _seeds(self) -> str:
        experiment = self.results.experiment
        plan = experiment.plan
        runs, finished = len(experiment.states), int((experiment.states["status"] == "finished").sum())
        done = "all of which finished" if runs == finished else f"of which {finished} finished"
        bases = f" Seed s starts from base policy s mod {plan.base_policies}." if plan.base_policies else ""
        return f"Every arm is trained with {_count(len(plan.seeds), 'seed')}: {_count(runs, 'run')}, {done}.{bases}"

    def _training(self) -> str:
        if not self.configurations:
            return ""
        said = [
            f"Training takes {self.shared('training.steps')} rollout steps of {self.shared('algorithm.prompts_per_step')} prompts with "
            f"{self.shared('algorithm.responses_per_prompt')} responses each and {self.shared('algorithm.updates_per_step')} updates a "
            f"step by Adam (learning rate {self.shared('optimizer.learning_rate').replace('e-0', 'e-')}, gradient norm at most "
            f"{self.shared('optimizer.max_gradient_norm')}).",
            f"Responses have at most {self.shared('sampling.max_response_tokens')} tokens and are sampled at temperature "
            f"{self.shared('sampling.temperature')}.",
        ]
        return " ".join(said)

    def _tokens(self) -> str:
        experiment = self.results.experiment
        finished = experiment.states.loc[experiment.states["status"] == "finished", "run_id"]
        steps = experiment.steps[experiment.steps["run_id"].isin(finished)]
        if "generated_tokens" not in steps or not len(steps):
            return ""
        runs = steps.drop_duplicates(["run_id", "step"]).groupby("run_id")["generated_tokens"].sum()
        least, most = _thousands(runs.min()), _thousands(runs.max())
        return (
            f"A run generates {least if least == most else f'{least} to {most}'} thousand tokens, groups that were discarded included, "
            f"all runs together {runs.sum() / 1e6:.1f} million."
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
        rule = plan.checkpoint_rule if plan.checkpoint_rule != "last" else "that after the last step"
        return f"We report {names} on {plan.benchmark}{plan.cap_text}{sampled}. The checkpoint is {rule}, the same rule for all arms."

    def _verifier(self) -> str:
        if not self.shared("verifier.extraction"):
            return ""
        version = self._packages().get("math-verify")
        by = f" with Math-Verify {version}" if version else ""
        end = ", which has to end the response" if self.shared("verifier.answer_must_end") == "True" else ""
        return (
            f"Answers are graded by rule{by}: the answer is read by the rule `{self.shared('verifier.extraction')}`{end}, and its form "
            f"is `{self.shared('verifier.form')}`."
        )

    def _intervals(self) -> str:
        plan = self.results.experiment.plan
        unit = "base policies" if plan.shares_bases else "training seeds"
        test = "paired by seed" if plan.paired else "of independent seeds (Welch)"
        size = max(
            (family_size(differences_to_reference(view).values()) for view in self.results.each_metric()),
            default=1,
        )
        together = ""
        if size > 1 and not plan.looks:
            together = f" The intervals of the {size} declared differences hold together at 95 % (Šidák)."
        return (
            f"Intervals are 95 % Student's t over {unit}, problems fixed; differences are {test}.{together} No interval is taken over "
            "samples or problems."
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
        machines = dict.fromkeys(_machine(one) for one in self.provenance)
        steps = self.results.experiment.steps
        hours = float(steps["seconds_total"].sum()) / 3600 if "seconds_total" in steps else 0.0
        time = f"; all runs together took {hours:.1f} hours of training and evaluation" if hours else ""
        return f"Hardware: {'; '.join(machines)}{time}." if machines else ""

    def _versions(self) -> str:
        if not self.provenance:
            return ""
        commits = dict.fromkeys(str(one.get("git_commit"))[:10] for one in self.provenance)
        pythons = dict.fromkeys(str(one.get("python")) for one in self.provenance)
        packages = ", ".join(f"{name} {version}" for name, version in self._packages().items())
        return f"Code: rlvr-harness, commit {', '.join(commits)}; Python {', '.join(pythons)}; {packages}."

    def _packages(self) -> dict[str, str]:
        """Versions of the packages that numbers depend on; several where runs had several."""
        found: dict[str, dict[str, None]] = {}
        for one in self.provenance:
            for name, version in (one.get("packages") or {}).items():
                if name in _VERSIONS and version:
                    found.setdefault(name, {})[str(version)] = None
        return {name: " and ".join(versions) for name, versions in found.items()}

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
        values = [str(found[key]) for found in self.configurations if key in found]
        if wanted.startswith("!"):
            return any(value != wanted[1:] for value in values)
        return any(value in wanted.split("|") for value in values)

    def files(self) -> dict[str, str]:
        """The files of the folder ``methods``."""
        paragraph = " ".join(latex_escape(text) for text in self.facts.values())
        cited = f" Systems and settings come from~\\cite{{{','.join(self.sources)}}}." if self.sources else ""
        return {
            "methods.tex": f"{paragraph}{cited}\n",
            "methods.md": "\n\n".join(self.facts.values()) + "\n",
            "sources.bib": "\n".join(self.sources.values()),
            "checklist.md": self._checklist(),
        }

    def _checklist(self) -> str:
        experiment = self.results.experiment
        plan = experiment.plan
        answers = {
            "Are all arms and what each changes stated?": self.facts["arms"],
            "How many independent runs stand behind a number?": self.facts["seeds"],
            "Are hyperparameters stated, and were they the same for all arms?": self.facts.get("training"),
            "Is the compute comparable between arms, and is it said?": self.facts.get("tokens"),
            "Are benchmark, samples, sampling and checkpoint stated?": self.facts["protocol"],
            "How is an answer graded?": self.facts.get("verifier"),
            "What are intervals taken over, and are many comparisons allowed for?": self.facts["intervals"],
            "What is called no difference?": self.facts["margin"],
            "Was the number of runs chosen by results?": self.facts["stopping rule"],
            "Which machines, and for how long?": self.facts.get("hardware"),
            "Which code and packages?": self.facts.get("versions"),
            "Are failed and missing runs named?": "; ".join(experiment.notes)
            or "None failed, none is missing.",
            "Are the samples behind every score kept?": "Yes, each with its verdict, in the results root."
            if experiment.problem_ids
            else None,
            "Which command makes it again?": f"`{plan.command}`" if plan.command else None,
        }
        lines = [
            f"- [{'x' if answer else ' '}] **{question}** {answer or 'The store does not say.'}"
            for question, answer in answers.items()
        ]
        return "\n".join(["# Reproducibility checklist", "", *lines]) + "\n"


def write_methods(results: Results, store_root: Path | str, directory: Path) -> list[Path]:
    """Write the paragraph (LaTeX and Markdown), its BibTeX and the checklist into the folder; returns their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in Methods(results, ResultStore(store_root)).files().items():
        paths.append(directory / name)
        paths[-1].write_text(text, encoding="utf-8", newline="\n")
    return paths


def _arm(arm: PlannedArm) -> str:
    """Its label, with what it changes where that is little."""
    changes = [change for change in arm.changes.items() if isinstance(change[1], list)]
    if not 1 <= len(changes) <= 2:
        return arm.label
    said = (f"{key_label(key)} {values[-1]} instead of {values[0]}" for key, values in changes)
    return f"{arm.label} ({', '.join(said)})"


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _machine(provenance: Mapping[str, Any]) -> str:
    hardware = provenance.get("hardware") or {}
    if gpus := hardware.get("gpus"):
        return f"{len(gpus)} × {gpus[0]}"
    return f"{hardware.get('cpu', 'CPU')}, {_count(int(hardware.get('cores', 0)), 'core')}, no GPU"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _thousands(number: float) -> str:
    return f"{number / 1000:.0f}"
