"""Claims of the field: what the experiment that declares one says of it, by one look or two; their table, figure and page.

A verdict is about the testbed at the operating point that the claim's experiment declares, and about nothing else.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.colours import VERDICTS
from analysis.effects import Effect, declared_effects
from analysis.figures.drawing import figure_style, legend_below, new_figure, save
from analysis.frames import load_experiment
from analysis.headline import shorten
from analysis.results import results_of
from analysis.tables.table import ABSENT, Cell, Column, Table, bounds_text, number_text, to_csv, to_terminal
from harness.evaluation.metrics.names import Metric
from harness.experiment.plan import Plan
from harness.statistics.intervals import DECIDED, FAMILY_LEVEL, MISSING, Estimate, Finding, Second, finding, second_look
from harness.statistics.sequential import overlap_text, pool_looks, word_p_value
from harness.store import ResultStore, StoreError, layout
from harness.store.atomic import write_file
from harness.store.foreign_text import csv_text, markdown


@dataclass(frozen=True)
class Look:
    """One look at a claim: the experiment that declares it, and what that found.

    Attributes:
        effect: arm minus reference. share: the largest part of the data that their difference touched.
        tokens, hours: of the runs, those that other experiments share included. late: declared again after the first run.
        policies: the base policy of each seed behind the effect; empty where the plan tells none.
    """

    plan: Plan
    effect: Effect
    finding: Finding
    share: float = math.nan
    tokens: float = 0.0
    hours: float = 0.0
    late: bool = False
    policies: Mapping[int, str] = field(default_factory=dict)

    @property
    def claim(self) -> Mapping[str, Any]:
        """Statement, source, setting, expects and differs, as declared (`harness.experiment.claim.Claim`)."""
        return self.plan.claim or {}

    @property
    def margin(self) -> float:
        """In the shown unit of the metric."""
        return self.plan.margins.get(self.effect.metric.name) or math.nan

    @property
    def seeds(self) -> int:
        return self.effect.estimate.seeds

    @property
    def most_seeds(self) -> int:
        """Seeds at the last look of the design."""
        return max([*self.plan.looks, self.seeds])

    @property
    def word(self) -> str:
        """The finding, with the margin where it belongs to it."""
        margin = f" within {self.margin:g} {self.effect.metric.unit}" if self.finding is Finding.NOTHING else ""
        return f"{self.finding}{margin}"

    @property
    def decided(self) -> bool:
        """Whether the word is one that a second look can repeat."""
        return self.finding in DECIDED

    @property
    def progress(self) -> str:
        """Such as `8 of up to 16 seeds run` where later looks could still decide it, else nothing."""
        can_continue = self.finding is Finding.OPEN and self.seeds < self.most_seeds
        return f"{self.seeds} of up to {self.most_seeds} seeds run" if can_continue else ""


@dataclass(frozen=True)
class JudgedClaim:
    """A claim by its first look, and by its second one unless nobody looked again (None)."""

    first: Look
    second: Look | None = None

    @property
    def name(self) -> str:
        """The claim's name, as in `harness audit claim=NAME`."""
        return self.first.plan.name.removeprefix("claim_")

    @property
    def all_looks(self) -> list[Look]:
        return [self.first] if self.second is None else [self.first, self.second]

    @property
    def late(self) -> bool:
        return any(look.late for look in self.all_looks)

    @property
    def answer(self) -> Second | None:
        """What the second look says of the first one's word; None without one."""
        return None if self.second is None else second_look(self.first.finding, self.second.finding)

    @property
    def verdict(self) -> str:
        """The word of one look or of both, the seeds that are still to come, and whether it was declared after the fact."""
        first, second = self.first, self.second
        if second is None:
            text = ", ".join(filter(None, [first.word, first.progress]))
        elif self.answer is Second.REPLICATED:
            text = f"{first.word.replace(' here', '')}, {self.answer}"
        elif second.progress:
            text = f"{first.word}; second look: {second.progress}"
        else:
            text = f"{self.answer}: {first.word}, then {second.word}"
        return f"{text} (declared after the fact)" if self.late else text

    @cached_property
    def p_value(self) -> float:
        """The evidence for the first look's word, which is 1 where it says nothing.

        A word of two looks is wrong unless both are right, so the larger value counts (partial conjunction: Benjamini & Heller 2008,
        Biometrics 64, 1215).
        """
        word, expects = self.first.finding, self.first.claim["expects"]
        return max(word_p_value(look.effect.shown_estimate, look.plan.looks, word, expects) for look in self.all_looks)

    @cached_property
    def pooled_effect(self) -> Estimate:
        """The effect over both looks, in the shown unit; no value without a second look, or where `absent` says why."""
        if self.second is None:
            return MISSING
        plans = self.first.plan, self.second.plan
        if plans[0].protocol != plans[1].protocol:
            return replace(MISSING, absent="the two looks have different protocols")
        if any(len({*look.policies.values()}) < 2 for look in self.all_looks):
            return replace(MISSING, absent="each look is about one base policy")
        try:
            first, second = (look.effect.shown_estimate for look in self.all_looks)
            return pool_looks(first, second, *(plan.looks for plan in plans))
        except ValueError as error:
            return replace(MISSING, absent=str(error))


def judged_claims(root: Path, names: Sequence[str] = ()) -> tuple[list[JudgedClaim], list[str]]:
    """Judge the claims of these experiments, or all of the store, by name; a line for each that cannot be read."""
    store, looks, errors = ResultStore(root), list[Look](), list[str]()
    for name in sorted({*store.plans(), *names}):
        try:
            record = store.plan(name)
            if record.get("claim") and (not names or {name, record.get("replicates")} & {*names}):
                looks.append(judge_look(root, name))
        except StoreError as error:
            errors += [f"{name}: {error}"] if not names or name in names else []
    claims = {look.plan.name: JudgedClaim(look) for look in looks if not look.plan.second_look_of}
    for look in looks:
        name = look.plan.second_look_of
        if name and (problem := _second_look_problem(claims.get(name), look, name)):
            errors.append(f"{look.plan.name}: {problem}")
        elif name:
            claims[name] = JudgedClaim(claims[name].first, look)
    return list(claims.values()), errors


def _second_look_problem(claim: JudgedClaim | None, second: Look, name: str) -> str:
    """Why a look is not taken for the second one at a claim; empty where it is."""
    if claim is None:
        return f"there is no first look at {name} to hold it against"
    if not second.policies:
        return "no seed of both arms has finished yet; the same command goes on"
    if not claim.first.policies:
        return "no second look, nothing tells which base policies the first one used"
    overlap = overlap_text(claim.first.policies, second.policies)
    return f"no second look, they share {overlap}" if overlap else ""


def judge_look(root: Path, name: str) -> Look:
    """Judge the claim that an experiment declares by its own runs. Raises `StoreError` where its plan cannot be read."""
    results = results_of(load_experiment(root, name, curves=False))
    plan, effect = results.experiment.plan, declared_effects(results)[0]
    engagement = results.experiment.engagements[effect.arm]
    steps = results.experiment.steps.drop_duplicates(["run_id", "step"])
    totals = [float(steps[key].sum()) if key in steps else 0.0 for key in ("generated_tokens", "seconds_total")]
    path = layout.plan_file(root, name).parent / layout.DECLARATION
    record = json.loads(path.read_text()) if path.exists() else {}
    look_seeds = plan.seeds[: effect.estimate.seeds] if plan.looks else plan.seeds
    finished_seeds = [set(results.values(plan.arm(name))) for name in (effect.arm, effect.reference)]
    judged_seeds = set(look_seeds).intersection(*finished_seeds)
    return Look(
        plan,
        replace(effect, engaged=engagement.text()),
        finding(effect.estimate, str(plan.expects), engagement.hardly and engagement.known),
        share=max((value for value in engagement.values if not math.isnan(value)), default=math.nan),
        tokens=totals[0],
        hours=totals[1] / 3600,
        late=record.get("declaration", plan.declaration) != plan.declaration or bool(record.get("changed")),
        policies={seed: policy for seed, policy in plan.starts.items() if seed in judged_seeds},
    )


ERROR = 1 - FAMILY_LEVEL
NOTES = (
    "Each claim was declared with its comparison, direction, margin and most seeds before it was run (`conf/claim`); where a claim's "
    "notes say so, the first look's seeds had been seen. A verdict is about this testbed at the declared operating point; a claim that "
    "fails here may hold where it was made.",
    "The effect is arm minus reference, paired by seed, with the 95 % interval of the claim's own sequential design. A second look repeats "
    "the declaration on seeds and base policies that the first did not use. Both looks have one interval over all seeds; it leans to the "
    "first look, since only decided claims are looked at again.",
    "Holds here: the interval has the predicted sign; where no harm or no effect is predicted, it allows none beyond the margin. Reversed: "
    "the other sign, or all of it beyond the margin. Equivalent to nothing: it contains zero and lies within the margin. Open: none of "
    "these yet. Not engaged: it contains zero, and what the claim is about hardly happened, so nothing follows.",
    "Replicated: the second look says the same word. First look only: another one. Contradicted: the opposite one.",
    "Corrected for the page: the verdict where Benjamini and Yekutieli's rule (claims share runs; Ann. Stat. 29, 1165) keeps it at a false "
    "discovery rate of 5 % over all claims of the page, else open. The p is the adjusted one; that of two looks is the weaker one's.",
)


def adjusted_p_values(claims: Sequence[JudgedClaim]) -> dict[str, float]:
    """Claim to its p-value, adjusted over the page for any dependence (Benjamini & Yekutieli)."""
    from scipy.stats import false_discovery_control  # half a second to load

    if not claims:
        return {}
    p_values = false_discovery_control([claim.p_value for claim in claims], method="by")
    return {claim.name: float(p) for claim, p in zip(claims, p_values, strict=True)}


def wrong_words(claims: Sequence[JudgedClaim]) -> str:
    """How many words of the page may be wrong: before the correction, after it, and of those that two looks say."""
    count = sum(claim.second is not None for claim in claims)
    kept_count = sum(p <= ERROR for p in adjusted_p_values(claims).values())
    text = (
        f"Of {len(claims)} first words, each at {100 * ERROR:.0f} %, up to {ERROR * len(claims):.1f} are expected to be wrong. "
        f"Of the {kept_count} that the correction keeps it is {ERROR * kept_count:.1f}."
    )
    return f"{text} Of {count} looked at twice, {ERROR**2 * count:.2f} are said again though wrong." if count else text


_HEADERS = {
    "claim": "claim", "source": "source", "setting": "source's setting", "engaged": "engaged here", "effect": "effect (95 % interval)",
    "second": "second look", "both": "both looks", "verdict": "verdict", "corrected": "corrected for the page", "seeds": "seeds",
    "tokens": "generated tokens, M", "hours": "core-hours",
}  # fmt: skip


def claims_table(claims: Sequence[JudgedClaim]) -> Table:
    """One row a claim, in the order given."""
    p_values, rows = adjusted_p_values(claims), list[Mapping[str, Cell]]()
    for claim in claims:
        first, looks = claim.first, claim.all_looks
        second = MISSING if claim.second is None else claim.second.effect.shown_estimate
        estimates = first.effect.shown_estimate, second, claim.pooled_effect
        cells: list[Cell] = [first.plan.title, *(first.claim[key] for key in ("source", "setting"))]
        cells += [first.effect.engaged or ABSENT]
        cells += [effect_text(estimate, first.effect.metric) for estimate in estimates]
        cells += [claim.verdict, corrected_text(claim, p_values[claim.name]), "+".join(str(one.seeds) for one in looks)]
        cells += [sum(look.tokens for look in looks) / 1e6, sum(look.hours for look in looks)]
        rows.append(dict(zip(_HEADERS, cells, strict=True)))
    columns = [Column(key, header, digits=2 if key == "hours" else 1) for key, header in _HEADERS.items()]
    return Table("claims", "Claims of the field, judged on the testbed", columns, rows, (*NOTES, wrong_words(claims)))


def corrected_text(claim: JudgedClaim, p_value: float) -> str:
    """``holds here (p 0.003)``, ``open (p 0.21)`` where the page does not bear the word; nothing where there is none."""
    if not claim.first.decided:
        return ABSENT
    word = claim.verdict if p_value <= ERROR else Finding.OPEN.value
    return f"{word} (p {p_value:.1g})" if p_value < 0.1 else f"{word} (p {p_value:.2f})"


def effect_text(estimate: Estimate, metric: Metric) -> str:
    """``−1.5 [−2.7, −0.2] points``; the value alone without an interval; why there is no value."""
    if estimate.seeds < 2 or math.isnan(estimate.value):
        return estimate.absent or ABSENT
    interval = "" if math.isnan(estimate.low) else f" [{', '.join(bounds_text(estimate, metric.digits, scale=1.0))}]"
    return f"{number_text(estimate.value, metric.digits, signed=True)}{interval} {metric.unit}"


def effects_frame(claims: Sequence[JudgedClaim]) -> pd.DataFrame:
    """One row a look as numbers, values as shown (``unit``); what is not known is empty. Lists have spaces between their items."""
    looks = [(claim, *look) for claim in claims for look in zip(("first", "second"), claim.all_looks, strict=False)]
    return pd.DataFrame([_row(*look) for look in looks])


def _row(claim: JudgedClaim, name: str, look: Look) -> dict[str, object]:
    plan, row, policies = look.plan, look.effect.row, look.policies
    presets = [item.partition("=")[2] for item in plan.overrides if item.startswith("preset=")]
    return {
        "experiment": claim.first.plan.name,
        "look": name,
        "title": plan.title,
        "system": plan.arm(look.effect.arm).label,
        "reference": plan.arm(look.effect.reference).label,
        "regime": " ".join(presets) or "default",
        **{key: row[key] for key in ("metric", "unit")},
        "seeds": " ".join(map(str, policies)) or str(look.seeds),
        "starts": " ".join(policies.values()),
        "looks": " ".join(map(str, plan.looks)),
        "effect": row["value"],
        **{key: row[key] for key in ("low", "high", "level", "standard_error", "degrees")},
        "margin": look.margin,
        "expects": look.claim["expects"],
        "words": look.finding.value,
        "engagement": look.effect.engaged,
        **{key: getattr(look, key) for key in ("share", "tokens", "hours")},
        "declared_after": claim.late,
        **{key: getattr(plan, key) for key in ("declaration", "protocol")},
        **{key: look.claim[key] for key in ("statement", "source", "setting", "differs")},
        "notes": " | ".join(plan.notes),
    }


def claims_text(claims: Sequence[JudgedClaim]) -> str:
    """The table for a terminal and the count of each verdict."""
    table = to_terminal(claims_table(claims), 200)
    return f"{table}\n{len(claims)} claims: {counts(claims)}\n{wrong_words(claims)}\n"


def counts(claims: Sequence[JudgedClaim]) -> str:
    """How often each word was said, and how often each word of two looks."""
    findings = Counter(claim.first.finding.value for claim in claims)
    answers = Counter(claim.answer.value for claim in claims if claim.answer)
    text, repeat_text = (", ".join(f"{n} {word}" for word, n in each.most_common()) for each in (findings, answers))
    return f"{text}; looked at again {answers.total()}: {repeat_text}" if repeat_text else text


def write_claims(claims: Sequence[JudgedClaim], out: Path) -> None:
    """Write the page of all claims below `out`, with its list, table, figure and numbers."""
    table = claims_table(claims)
    write_file(out / "README.md", _page(claims).encode())
    write_file(out / "claims.md", _list(claims, table).encode())
    write_file(out / "claims.csv", to_csv(table).encode())
    looks = effects_frame(claims)
    write_file(out / "effects.csv", csv_text(looks).encode())
    with figure_style("paper"):
        save(claims_figure(looks), out / "figures", "claims")


def _page(claims: Sequence[JudgedClaim]) -> str:
    notes = "\n".join(f"- {note}" for note in NOTES)
    return f"""# Claims of the field, judged on the testbed

**Question.** Which published claims about training hold on the testbed?

**{len(claims)} claims: {counts(claims)}.**

![All claims](figures/claims.png)

```console
$ harness audit claim=NAME    # one claim again; claim=all: all that are declared
```

## Details

[claims.md](claims.md) lists them. [claims.csv](claims.csv) has sources, engagement, seeds and cost, [effects.csv](effects.csv) \
the looks as numbers and the claims' own words.

{markdown(wrong_words(claims))}

{notes}
"""


def _list(claims: Sequence[JudgedClaim], table: Table) -> str:
    keys = ("claim", "effect", "second", "both", "verdict")
    head = f"| claim | title | {' | '.join(_HEADERS[key] for key in keys[1:])} |\n|{'---|' * 6}"
    rows = (" | ".join(markdown(str(row[key])) for key in keys) for row in table.rows)
    lines = (f"| `{claim.name}` | {row} |" for claim, row in zip(claims, rows, strict=True))
    return "\n".join(["# All claims", "", head, *lines]) + "\n"


COLOURS = {
    Finding.HOLDS: VERDICTS["higher"].colour,
    Finding.REVERSED: VERDICTS["lower"].colour,
    Finding.NOTHING: VERDICTS["equivalent"].colour,
    Finding.OPEN: "#777777",
    Finding.NOT_ENGAGED: "#bbbbbb",
}
_ARROWS = {"higher": "→", "not_lower": "→|", "lower": "←", "not_higher": "|←", "equivalent": "="}
_WIDEST = 6.0  # margins; longer whiskers are cut at the frame


def claims_figure(looks: pd.DataFrame) -> Figure:
    """One row a claim of `effects_frame`, by verdict and effect in its margins; the arrow after its name is what the source predicts."""
    looks = looks.dropna(subset="low")
    looks = looks.assign(**looks[["effect", "low", "high"]].div(looks["margin"], axis=0))
    firsts, seconds = looks[looks["look"] == "first"], looks[looks["look"] == "second"].set_index("experiment")
    # Verdicts in the order of the legend, the largest effect of each first.
    order = firsts["words"].map([word.value for word in Finding].index)
    firsts = firsts.assign(order=order).sort_values(["order", "effect"], ascending=[True, False], kind="stable")
    figure, axes = new_figure(wide=True, height=0.8 + 0.07 * len(firsts))
    axes.axvspan(-1, 1, color=VERDICTS["equivalent"].colour, alpha=0.10, linewidth=0, zorder=0)
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    farthest = np.abs(firsts[["low", "high"]].to_numpy(dtype=np.float64)).max(initial=1.2)
    reach = min(_WIDEST, 1.05 * float(farthest))
    labels = []
    for y, (_, first) in enumerate(firsts.iterrows()):
        _draw(axes, first, y, reach)
        if first["experiment"] in seconds.index:
            _draw(axes, seconds.loc[first["experiment"]], y + 0.3, reach)
        if y and first["words"] != firsts["words"].iloc[y - 1]:
            axes.axhline(y - 0.5, color="#cccccc", linewidth=0.5, zorder=0)
        labels.append(f"{shorten(first['title'], 42)} {_ARROWS[first['expects']]}")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlim(-reach, reach)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(
        "effect in margins of the claim, 95 % interval (band: within the margin; hollow: the second look)\n"
        "predicted: → higher, ← lower, →| not lower, |← not higher, = none; triangle: beyond the frame"
    )
    words = firsts["words"].unique().tolist()
    legend_below(figure, [axes.scatter([], [], s=22, color=COLOURS[Finding(word)]) for word in words], words)
    return figure


def _draw(axes: Axes, look: pd.Series, y: float, reach: float) -> None:
    """A line with a dot in the colour of the word, beyond ``reach`` an arrow; a second look is thin and hollow."""
    value, colour, is_second = look["effect"], COLOURS[Finding(look["words"])], look["look"] == "second"
    axes.plot([look["low"], look["high"]], [y, y], color=colour, linewidth=0.8 if is_second else 1.3, zorder=2)
    marker = "o" if abs(value) < reach else ">" if value > 0 else "<"
    shape: dict[str, Any] = {"marker": marker, "s": 9 if is_second else 18}
    place, face = min(max(value, -0.97 * reach), 0.97 * reach), "white" if is_second else colour
    axes.scatter([place], [y], facecolors=face, edgecolors=colour, linewidths=0.8, zorder=3, **shape)
