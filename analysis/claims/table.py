"""The table of claims: what was said of which setting, what was found here, how sure that is; and the files of `harness audit`."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import false_discovery_control

from analysis.claims.judged import JudgedClaim, Look
from analysis.figures.drawing import legend_below, new_figure, save, styled
from analysis.tables.table import Cell, Column, Table, bounds_text, number_text, to_csv, to_terminal
from harness.statistics.intervals import FAMILY_LEVEL, Estimate, Finding
from harness.store.atomic import write_file

ERROR = 1 - FAMILY_LEVEL
NOTES = (
    "Each claim was declared with its comparison, direction, margin and most seeds before it was run (`conf/claim`). A verdict is about "
    "this testbed at the declared operating point; a claim that fails here may hold where it was made.",
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


def corrected(claims: Sequence[JudgedClaim]) -> dict[str, float]:
    """Claim to its p-value, adjusted over the page for any dependence (Benjamini & Yekutieli)."""
    if not claims:
        return {}
    adjusted = false_discovery_control([claim.p_value for claim in claims], method="by")
    return {claim.name: float(p) for claim, p in zip(claims, adjusted, strict=True)}


def wrong_words(claims: Sequence[JudgedClaim]) -> str:
    """How many words of the page may be wrong: before the correction, after it, and of those that two looks say."""
    twice = sum(claim.second is not None for claim in claims)
    stay = sum(p <= ERROR for p in corrected(claims).values())
    text = (
        f"Of {len(claims)} first words, each at {100 * ERROR:.0f} %, up to {ERROR * len(claims):.1f} are expected to be wrong. "
        f"Of the {stay} that the correction keeps it is {ERROR * stay:.1f}."
    )
    return f"{text} Of {twice} looked at twice, {ERROR**2 * twice:.2f} are said again though wrong." if twice else text


def claims_table(claims: Sequence[JudgedClaim]) -> Table:
    """One row a claim, in the order given."""
    columns = (
        Column("claim", "claim"),
        Column("source", "source"),
        Column("setting", "source's setting"),
        Column("engaged", "engaged here"),
        Column("effect", "effect (95 % interval)"),
        Column("second", "second look"),
        Column("both", "both looks"),
        Column("verdict", "verdict"),
        Column("corrected", "corrected for the page"),
        Column("seeds", "seeds"),
        Column("tokens", "generated tokens, M", digits=1),
        Column("hours", "core-hours", digits=2),
    )
    p_values = corrected(claims)
    rows: list[Mapping[str, Cell]] = [
        {
            "claim": claim.first.title,
            "source": claim.first.claim["source"],
            "setting": claim.first.claim["setting"],
            "engaged": claim.first.engaged or "–",
            "effect": effect_text(claim.first),
            "second": "–" if claim.second is None else effect_text(claim.second),
            "both": pooled_text(claim),
            "verdict": claim.verdict,
            "corrected": corrected_text(claim, p_values[claim.name]),
            "seeds": "+".join(str(look.seeds) for look in claim.all_looks),
            "tokens": sum(look.tokens for look in claim.all_looks) / 1e6,
            "hours": sum(look.hours for look in claim.all_looks),
        }
        for claim in claims
    ]
    notes = (*NOTES, wrong_words(claims))
    return Table("claims", "Claims of the field, judged on the testbed", columns, rows, notes)


def corrected_text(claim: JudgedClaim, p_value: float) -> str:
    """``holds here (p 0.003)``, ``open (p 0.21)`` where the page does not bear the word; nothing where there is none."""
    if not claim.first.decided:
        return "–"
    word = claim.verdict if p_value <= ERROR else Finding.OPEN.value
    return f"{word} (p {p_value:.1g})" if p_value < 0.1 else f"{word} (p {p_value:.2f})"


def pooled_text(claim: JudgedClaim) -> str:
    """The effect over both looks, or why there is none."""
    return claim.not_pooled or "–" if claim.pooled is None else effect_text(claim.first, claim.pooled)


def effect_text(look: Look, pooled: Estimate | None = None) -> str:
    """``−1.5 [−2.7, −0.2] points`` of a look, or of both; the value alone without an interval; why there is no value."""
    effect, metric = pooled or look.effect, look.metric
    if effect.seeds < 2 or math.isnan(effect.value):
        return effect.absent or "–"
    value = number_text(effect.value, metric.digits, signed=True)
    if math.isnan(effect.low):
        return f"{value} {metric.unit}"
    low, high = bounds_text(effect, metric.digits, scale=1.0, signed=True)
    return f"{value} [{low}, {high}] {metric.unit}"


def effects_frame(claims: Sequence[JudgedClaim]) -> pd.DataFrame:
    """One row a look as numbers, values as shown (``unit``); what is not known is empty. Lists have spaces between their items."""
    numbers = ("value", "low", "high", "level", "standard_error", "degrees")
    return pd.DataFrame(
        {
            "experiment": claim.first.experiment,
            "look": name,
            **{key: getattr(look, key) for key in ("title", "system", "reference", "regime")},
            "metric": look.metric.name,
            "unit": look.metric.unit,
            "seeds": " ".join(map(str, look.policies)) or str(look.seeds),
            "starts": " ".join(look.policies.values()),
            "looks": " ".join(map(str, look.looks)),
            **{key.replace("value", "effect"): getattr(look.effect, key) for key in numbers},
            "margin": look.margin,
            "expects": look.claim["expects"],
            "words": look.finding.value,
            "engagement": look.engaged,
            **{key: getattr(look, key) for key in ("share", "tokens", "hours")},
            "declared_after": claim.late,
            **{key: getattr(look, key) for key in ("declaration", "protocol")},
            **{key: look.claim[key] for key in ("statement", "source", "setting", "differs")},
            "notes": " | ".join(look.notes),
        }
        for claim in claims
        for name, look in zip(("first", "second"), claim.all_looks, strict=False)
    )


def in_words(claims: Sequence[JudgedClaim]) -> str:
    """The table for a terminal and the count of each verdict."""
    table = to_terminal(claims_table(claims), 200)
    return f"{table}\n{len(claims)} claims: {counts(claims)}\n{wrong_words(claims)}\n"


def counts(claims: Sequence[JudgedClaim]) -> str:
    """How often each word was said, and how often each word of two looks."""
    findings = Counter(claim.first.finding.value for claim in claims)
    answers = Counter(claim.answer.value for claim in claims if claim.answer)
    text, again = (", ".join(f"{n} {word}" for word, n in each.most_common()) for each in (findings, answers))
    return f"{text}; looked at again {answers.total()}: {again}" if again else text


def write_claims(claims: Sequence[JudgedClaim], out: Path) -> None:
    """Write the page of all claims below `out`, with its table, figure and numbers."""
    write_file(out / "README.md", _page(claims).encode())
    write_file(out / "claims.md", _list(claims).encode())
    write_file(out / "claims.csv", to_csv(claims_table(claims)).encode())
    write_file(out / "effects.csv", effects_frame(claims).to_csv(index=False, lineterminator="\n").encode())
    with styled("paper"):
        save(claims_figure(claims), out / "figures", "claims")


def _page(claims: Sequence[JudgedClaim]) -> str:
    lines = [
        "# Claims of the field, judged on the testbed",
        "",
        f"{len(claims)} claims: {counts(claims)}. `harness audit claim=NAME` makes each again; `claim=all` runs all that are declared.",
        "",
        wrong_words(claims),
        "",
        "![All claims](figures/claims.png)",
        "",
        "[claims.md](claims.md) lists them. [claims.csv](claims.csv) has sources, engagement, seeds and cost, "
        "[effects.csv](effects.csv) the looks as numbers and the claims' own words.",
        "",
        *(f"- {note}" for note in NOTES),
    ]
    return "\n".join(lines) + "\n"


def _list(claims: Sequence[JudgedClaim]) -> str:
    head = (
        "| claim | title | effect (95 % interval) | second look | both looks | verdict |",
        "|---|---|---|---|---|---|",
    )
    lines = ["# All claims", "", *head]
    for claim in claims:
        second = "–" if claim.second is None else effect_text(claim.second)
        effects = (effect_text(claim.first), second, pooled_text(claim))
        lines.append(f"| `{claim.name}` | {' | '.join([claim.first.title, *effects, claim.verdict])} |")
    return "\n".join(lines) + "\n"


COLOURS = {
    Finding.HOLDS: "#009E73",
    Finding.REVERSED: "#D55E00",
    Finding.NOTHING: "#0072B2",
    Finding.OPEN: "#777777",
    Finding.NOT_ENGAGED: "#bbbbbb",
}
_ARROWS = {"higher": "→", "not_lower": "→|", "lower": "←", "not_higher": "|←", "equivalent": "="}
_WIDEST = 6.0  # margins; longer whiskers are cut at the frame


def claims_figure(claims: Sequence[JudgedClaim]) -> Figure:
    """One row a claim with an interval, by verdict and effect; the arrow after its name is what the source predicts."""
    known = [claim for claim in claims if not math.isnan(claim.first.effect.low)]
    # Verdicts in the order of the legend, the largest effect of each first.
    order = list(Finding)
    known.sort(key=lambda claim: (order.index(claim.first.finding), -_in_margins(claim.first)[0]))
    figure, axes = new_figure(wide=True, height=0.8 + 0.07 * len(known))
    axes.axvspan(-1, 1, color="#009E73", alpha=0.10, linewidth=0, zorder=0)
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    ends = [abs(end) for claim in known for end in _in_margins(claim.first)[1:]]
    reach = min(_WIDEST, 1.05 * max([1.2, *ends]))
    for y, claim in enumerate(known):
        _first_look(axes, claim.first, y, reach)
        if claim.second is not None and not math.isnan(claim.second.effect.low):
            _second_look(axes, claim.second, y + 0.3)
        if y and claim.first.finding is not known[y - 1].first.finding:
            axes.axhline(y - 0.5, color="#cccccc", linewidth=0.5, zorder=0)
    looks = [claim.first for claim in known]
    titles = [textwrap.shorten(look.title, 42, placeholder=" …") for look in looks]
    labels = [f"{title} {_ARROWS[look.claim['expects']]}" for title, look in zip(titles, looks, strict=True)]
    axes.set_yticks(range(len(known)), labels)
    axes.set_ylim(len(known) - 0.4, -0.6)
    axes.set_xlim(-reach, reach)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(
        "effect in margins of the claim, 95 % interval (band: within the margin)\n"
        "larger dot: more engaged; hollow dot: the second look\n"
        "predicted: → higher, ← lower, →| not lower, |← not higher, = none"
    )
    words = [word for word in Finding if any(look.finding is word for look in looks)]
    handles = [axes.scatter([], [], s=22, color=COLOURS[word]) for word in words]
    legend_below(figure, handles, [word.value for word in words])
    return figure


def _in_margins(look: Look) -> tuple[float, float, float]:
    """Value and ends of the interval, in margins of the claim."""
    effect = look.effect
    return effect.value / look.margin, effect.low / look.margin, effect.high / look.margin


def _first_look(axes: Axes, look: Look, y: float, reach: float) -> None:
    value, low, high = _in_margins(look)
    colour = COLOURS[look.finding]
    axes.plot([low, high], [y, y], color=colour, linewidth=1.3, zorder=2)
    if abs(value) < reach:
        # The dot's area says how much of the data the mechanism touched; where nothing measures it, it is of middle size.
        area = 18.0 if math.isnan(look.share) else 8.0 + 32.0 * math.sqrt(min(1.0, look.share))
        axes.scatter([value], [y], s=area, color=colour, zorder=3, linewidths=0)
        return
    side = math.copysign(1.0, value)  # beyond the frame: an arrow at its edge, and the number
    axes.scatter([0.97 * side * reach], [y], s=20, marker=">" if side > 0 else "<", color=colour, zorder=3)
    number, end = f"{value:+.0f}".replace("-", "−"), "right" if side > 0 else "left"
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    axes.text(0.94 * side * reach, y, number, ha=end, va="center", fontsize="small", bbox=box)


def _second_look(axes: Axes, look: Look, y: float) -> None:
    """A thin line with a hollow dot, in the colour of its own word."""
    value, low, high = _in_margins(look)
    colour = COLOURS[look.finding]
    axes.plot([low, high], [y, y], color=colour, linewidth=0.8, zorder=2)
    axes.scatter([value], [y], s=9, facecolors="white", edgecolors=colour, linewidths=0.8, zorder=3)
