"""The methods paragraph of a paper: what plan, configurations and manifests say, and the sources of the settings as BibTeX."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

import pandas as pd

from analysis.declared import INTERACTIONS, MAIN
from analysis.designs import key_label, setting_label
from analysis.headline import shorten
from analysis.results import Results
from analysis.tables.spending import equal_what
from analysis.tables.table import latex_escape
from analysis.tables.tuning import point_label, tuning_sentences
from analysis.tables.words import declared_notes, interval_notes, metric_name, power_notes, samples, seeds_text
from harness.configuration.identity import flatten
from harness.configuration.numbers import format_amount, format_count
from harness.evaluation.stored import problem_texts
from harness.experiment.memory import size_text
from harness.experiment.plan import PlannedArm
from harness.store import ResultStore, StoreError
from harness.store.foreign_text import markdown

_TRAINING = (
    "Training takes {training.steps} rollout steps of {algorithm.prompts_per_step} prompts with {algorithm.responses_per_prompt} responses "
    "each and {algorithm.updates_per_step} updates a step by AdamW (learning rate {optimizer.learning_rate}, betas "
    "{optimizer.beta1} and {optimizer.beta2}, weight decay {optimizer.weight_decay}, gradient norm at most "
    "{optimizer.max_gradient_norm}). Responses have at most {sampling.max_response_tokens} tokens and are sampled at temperature "
    "{sampling.temperature}."
)
_TESTBED = (
    "The policy is a Llama-shaped transformer of {model.architecture.layers} layers of width {model.architecture.hidden} ({model.size}), "
    "warmed up on demonstrations with errors."
)
_COLD_START = (
    " after {model.cold_start.steps} steps of supervised training on {model.cold_start.demonstrations} demonstrations"
)
_BASELINE = (
    "algorithm.advantage.scale",
    "algorithm.surrogate.clip_high",
    "algorithm.aggregation.kind",
    "algorithm.kl.coefficient",
)
_GRADED = {
    "boxed": "what the last box holds",
    "answer_line": "the last answer line",
    "any": "a box, an answer line or the last value",
}
_CITED = re.compile(r"^((?:[\w.]+: \S*\n)+)(@\w+\{(\w+),.*?\n\}\n)", flags=re.MULTILINE | re.DOTALL)
_LISTED = 12  # arms
_EXAMPLE_LETTERS = 200
_PACKAGES = ("torch", "transformers", "vllm", "trl", "peft", "math-verify")


@dataclass(frozen=True)
class Methods:
    """An account of an experiment; what the store does not say is left out."""

    results: Results
    store: ResultStore

    @cached_property
    def finished_runs(self) -> pd.DataFrame:
        """The finished runs; one that two arms share counts once."""
        return self.results.experiment.finished_runs.drop_duplicates("run_id")

    @cached_property
    def configurations(self) -> dict[str, dict[str, Any]]:
        """Arm to the configuration of one of its finished runs, flat, with the size of its model as ``model.size``."""
        runs, found = self.results.experiment.finished_runs.drop_duplicates("arm").set_index("arm")["run_id"], {}
        for arm, settings in self.results.experiment.settings.items():
            provenance = (self.store.run(runs[arm]).manifest() or {}).get("provenance")
            found[arm] = {**flatten(settings), "model.size": size_text(provenance)}
        return found

    def shared_value(self, key: str) -> str:
        """The value of a setting that all arms share, else all of its values."""
        return _join((settings[key] for settings in self.configurations.values() if key in settings), " or ")

    def fill(self, text: str) -> str:
        """The text with the settings that it names in braces, drawn ones with four digits; nothing where no run tells one of them."""
        values = {key: self.shared_value(key) for key in re.findall(r"\{([\w.]+)\}", text)}
        for key, value in values.items():
            text = text.replace(f"{{{key}}}", value.replace("e-0", "e-"))
        return re.sub(r"\d+\.\d{8,}", lambda drawn: f"{float(drawn[0]):.4g}", text) * all(values.values())

    @cached_property
    def sentences(self) -> list[str]:
        """The paragraph."""
        experiment = self.results.experiment
        notes = " ".join(f"{note.removesuffix('.')}." for note in (*experiment.plan.notes, *experiment.notes))
        texts = [
            *self.setting,
            *self._runs(),
            *self._tuning(),
            self._protocol(),
            self._grading(),
            *self._statistics(),
            *self._machines(),
            notes,
        ]
        return [text for text in texts if text]

    @property
    def setting(self) -> list[str]:
        """What is trained, and on what."""
        return [self._policy(), self._task()]

    def _policy(self) -> str:
        path, settings = self.shared_value("model.path"), self.configurations.values()
        if not path:
            return self.fill(_TESTBED)
        revision = _join((str(one["model.revision"])[:12] for one in settings if one.get("model.revision")), " or ")
        commit = f", revision {revision}" * bool(revision)
        started = self.fill(_COLD_START) * all(one.get("model.cold_start.steps") for one in settings)
        size, precision = self.shared_value("model.size"), self.shared_value("model.precision")
        return f"The policy is {path}{commit} ({size}, precision {precision}){started}."

    def _grading(self) -> str:
        ends = " It must end the response." * (self.shared_value("verifier.answer_must_end") == "True")
        answer = _GRADED.get(self.shared_value("verifier.extraction"))
        return f"An answer is {answer}; a rule compares it with the gold answer.{ends}" if answer else ""

    def _task(self) -> str:
        """A problem of the benchmark as the policy saw it, with its answer, from the samples of a run."""
        with suppress(StoreError, StopIteration):
            run = self.store.run(next(iter(self.finished_runs["run_id"])))
            problem = next(iter(problem_texts(run, self.results.experiment.plan.benchmark).values()))
            prompt = shorten(" ".join(problem.prompt.split()), _EXAMPLE_LETTERS)
            names = ("task.name", "task.path", "task.source", "task.kind")
            name = next(filter(lambda text: text not in ("", "None"), map(self.shared_value, names)), "its task")
            if name == "arithmetic":
                name = (
                    f"chains of operations, worked from left to right modulo {self.shared_value('task.modulus') or 10}"
                )
            return f'Policies train on {name}. A problem is "{prompt}"; its answer is {problem.gold}.'
        return ""

    def _runs(self) -> Iterator[str]:
        plan, runs = self.results.experiment.plan, self.results.experiment.runs
        tokens = self.results.experiment.spent.drop_duplicates("run_id")["tokens"]
        arms_text = f": {'; '.join(map(_arm, plan.arms))}" if len(plan.arms) <= _LISTED else ""
        yield f"We compare {format_count(len(plan.arms), 'arm')} (design: {plan.design.replace('_', ' ')}){arms_text}."
        base = self.configurations.get(plan.arms[0].name, {})
        settings = [f"{key_label(key)} {setting_label(key, base[key])}" for key in _BASELINE if key in base]
        yield f"Settings of {plan.arms[0].plain_label}: {', '.join(settings)}." if settings else ""
        finished_count = len(self.results.experiment.finished_runs)
        bases = f" Seed s starts from base policy s mod {plan.base_policies}." if plan.base_policies else ""
        seeds = sorted(
            {seed for arm in plan.arms for seed in plan.seeds_of(arm)}
        )  # declared ones where a trial decides
        named = f"{seeds[0]} to {seeds[-1]}" if seeds[-1] - seeds[0] + 1 == len(seeds) > 2 else _join(seeds, ", ")
        finished = f"{finished_count} of {format_count(len(runs))} finished"
        yield f"Every arm is trained with {seeds_text(plan.seed_counts)} ({named}); {finished}.{bases}"
        yield from self._training()
        refilled = [one for one in self.configurations.values() if one.get("algorithm.dead_groups.policy") == "refill"]
        refilled = [one for one in refilled if "unbounded_refill" not in (one.get("backend.accept") or ())]
        rounds = _join((n for one in refilled if (n := one.get("algorithm.dead_groups.max_rounds"))), " or ")
        yield f"Dynamic sampling takes at most {rounds} rounds of prompts a step." * bool(rounds)
        if tokens.notna().any():
            token_range = _join((f"{end:,.0f}" for end in (tokens.min(), tokens.max())), " to ")
            yield f"A run generates {token_range} tokens, discarded groups included; all runs together {tokens.sum():,.0f}."

    def _tuning(self) -> Iterator[str]:
        """How the arms of a tuned comparison came to their settings."""
        part = self.results.experiment.plan.tuning
        if part is not None and part.scores:
            yield from tuning_sentences(self.results.experiment.plan)
            tried = _join((point_label(point) for points in part.scores.values() for point in points), ", ")
            yield f"Every arm tried {tried}, on seeds {_join(part.seeds, ', ')}; it takes the highest mean score."

    def _training(self) -> Iterator[str]:
        """What a run is trained on and for how long; a budget ends it before its last step."""
        steps = {arm: settings.get("training.steps") for arm, settings in self.configurations.items()}
        tokens = {arm: settings.get("training.generated_tokens") for arm, settings in self.configurations.items()}
        budgets = {arm: f"{count:,.0f} generated tokens" for arm, count in tokens.items() if count}
        several = self.shared_value("algorithm.epochs_per_step") not in ("", "1")
        passes = "updates in each of {algorithm.epochs_per_step} passes over a step" if several else "updates a step"
        text = _TRAINING.replace("updates a step", passes)
        if not budgets:
            yield self.fill(text)
            return
        most_steps = _join((steps[arm] for arm in budgets), " or ")
        yield self.fill(text.replace("{training.steps}", f"at most {most_steps}"))
        others = [arm for arm in steps if arm not in budgets]
        labels = _join((self.results.experiment.plan.arm(arm).label for arm in others), " or ")
        rest = f"; one of {labels} takes {_join((steps[arm] for arm in others), ' or ')} steps" if others else ""
        yield f"A run ends after the step that reaches {_join(budgets.values(), ' or ')}{rest}."

    def _protocol(self) -> str:
        experiment, n = self.results.experiment, samples(self.results)
        plan, problems, samples_text = experiment.plan, len(experiment.problem_ids), ""
        if n and problems:
            samples_text = f", over {format_count(n, 'sample')} of each of {format_count(problems, 'problem')}"
            samples_text += self.fill(" at temperature {evaluation.temperature} and top-p {evaluation.top_p}")
        names = " and ".join(map(metric_name, self.results.each_metric))
        benchmark = plan.benchmark.replace("_", " ").replace("heldout", "held-out problems")
        equal = equal_what(self.results)
        compared = f"; arms are compared {equal}" * bool(equal)
        return f"We report {names} on {benchmark}{plan.cap_text}{samples_text}, after the last step of every run{compared}."

    def _statistics(self) -> Iterator[str]:
        plan, views = self.results.experiment.plan, self.results.each_metric
        yield from declared_notes(self.results.experiment)
        kinds = [(view, kind) for view in views for kind in (MAIN, INTERACTIONS) if kind in view.attributions]
        effects = [[*view.attributions[kind].effects] for view, kind in kinds]
        columns = effects or [[*view.declared.values()] for view in views]
        yield from interval_notes(self.results, columns, "a kind of effects" if effects else "the declared differences")
        margin_views = [view for view in views if view.shown_margin is not None]
        amounts = [format_amount(view.shown_margin or 0, view.metric.unit) for view in margin_views]
        sizes = ", ".join(
            f"{amount} of {metric_name(view)}" for amount, view in zip(amounts, margin_views, strict=True)
        )
        verdict = f"equivalent if all of it lies within the margin ({sizes}), else not resolved, or not tested if what differs hardly acted"
        no_margin = "No margin of equivalence was declared, so nothing is called equivalent."
        yield f"A difference whose interval contains zero is {verdict}." if margin_views else no_margin
        if not plan.looks:
            power = power_notes(columns[0], self.results)
            yield " ".join(["The design has a fixed number of seeds.", *power])

    def _machines(self) -> Iterator[str]:
        manifests = [self.store.run(name).manifest() or {} for name in self.finished_runs["run_id"]]
        # Runs from elsewhere have not logged it.
        provenances = [provenance for each in manifests if (provenance := each.get("provenance") or {}).get("hardware")]
        if not provenances:
            return
        hardware = _join((_machine(each) for each in manifests if (each.get("provenance") or {}).get("hardware")), "; ")
        yield f"Hardware: {hardware}."
        installs = [each.get("packages") or {} for each in provenances]
        versions = {name: _join((each[name] for each in installs if each.get(name)), " and ") for name in _PACKAGES}
        packages = "".join(f", {name} {version}" for name, version in versions.items() if version)
        # A wheel has no commit.
        commits = _join((each["git_commit"][:10] for each in provenances if each.get("git_commit")), ", ")
        python = _join((each.get("python") for each in provenances), ", ")
        yield f"Code: rlvr-harness{f', commit {commits}' * bool(commits)}; Python {python}{packages}."

    @cached_property
    def sources(self) -> dict[str, str]:
        """BibTeX key to entry of the papers that the settings of these arms come from, and those of the published numbers."""
        arms = self.results.experiment.plan.arms
        published_sources = " ".join(arm.published.source for arm in arms if arm.published)
        text = resources.files("analysis").joinpath("sources.bib").read_text(encoding="utf-8")
        return {
            key: entry
            for conditions, entry, key in _CITED.findall(text)
            if any(map(self._holds, conditions.splitlines()))
            or any(i in published_sources for i in re.findall(r"arXiv:[\d.]+\d", entry))
        }

    def _holds(self, condition: str) -> bool:
        key, _, pattern = condition.partition(": ")
        values = {str(settings[key]) for settings in self.configurations.values() if key in settings}
        return bool(values - {pattern[1:]} if pattern.startswith("!") else values & {*pattern.split("|")})

    def files(self) -> dict[str, str]:
        """The files of the folder ``methods``."""
        paragraph = " ".join(map(latex_escape, self.sentences))
        citation = f" Systems and settings come from~\\cite{{{','.join(self.sources)}}}." if self.sources else ""
        return {
            "methods.tex": f"{paragraph}{citation}\n",
            "methods.md": "\n\n".join(map(markdown, self.sentences)) + "\n",
            "sources.bib": "\n".join(self.sources.values()),
        }


def _join(values: Iterable[object], joint: str) -> str:
    """Every value once, in their order."""
    return joint.join(dict.fromkeys(map(str, values)))


def _arm(arm: PlannedArm) -> str:
    """Its label, with what it changes where that is little."""
    changes = [
        f"{key_label(key)}: {setting_label(key, values[-1])} instead of {setting_label(key, values[0])}"
        for key, values in arm.changes.items()
        if isinstance(values, list)
    ]
    return f"{arm.label} ({', '.join(changes)})" if 1 <= len(changes) <= 2 else arm.label


def _machine(manifest: dict[str, Any]) -> str:
    """The GPUs that the newest attempt had, which are no all of the machine; else its processor."""
    newest, hardware = (manifest.get("attempts") or [{}])[-1], manifest["provenance"]["hardware"]
    if count := newest.get("gpus"):
        return f"{count} × {newest.get('device')}"
    return f"{hardware.get('cpu', 'CPU')}, {format_count(int(hardware.get('cores', 0)), 'core')}, no GPU"
