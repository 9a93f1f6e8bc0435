"""The table of claims: what was said of which setting, what was found here, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from analysis.claims.judged import Judged
from analysis.tables.table import Cell, Column, Table, bounds_text, number_text
from harness.statistics.estimate import Estimate
from harness.statistics.families import FAMILY_LEVEL
from harness.statistics.finding import Finding
from harness.statistics.replication import adjusted

NOTES = (
    "Each claim was declared with its comparison, direction, margin and most seeds before it was run (`conf/claim`). A verdict is about "
    "this testbed at its declared operating point; a claim that fails here may hold where it was made.",
    "The effect is arm minus reference, paired by seed, with the 95 % interval of the claim's own sequential design: looks at declared "
    "numbers of seeds, error spent over them. A second look repeats the declaration on seeds and base policies that the first did not "
    "use. Both looks: one interval over all seeds; it leans to the first look, since only decided claims are looked at again.",
    "Holds here: the interval has the sign that the claim predicts. Reversed: the other sign. A claim of no harm holds where the interval "
    "ends above minus the margin, and is reversed where all of it lies below; one of equivalence "
    "within the margin, and beyond it. Equivalent to nothing: it contains zero and lies within the margin. Open: none of these yet. Not "
    "engaged: it contains zero, and what the claim is about hardly happened, so nothing follows.",
    "Replicated: the second look says the same word. First look only: another one. Contradicted: the opposite one.",
    "Corrected for the page: the verdict where Benjamini and Yekutieli's rule (claims share runs) keeps it at a false discovery rate of "
    "5 % over all claims of the page, else open; p is the adjusted one. The evidence of two looks is that of the weaker one.",
)
ERROR = 1 - FAMILY_LEVEL


def corrected(found: Sequence[Judged]) -> dict[str, float]:
    """Claim to its p-value as the page adjusts it (`harness.statistics.replication.adjusted`)."""
    return dict(zip((one.name for one in found), adjusted([one.p_value for one in found]), strict=True))


def corrected_text(one: Judged, p_value: float) -> str:
    """``holds here (p 0.003)``, ``open (p 0.21)`` where the page does not bear the word; nothing where there is none."""
    if not one.decided:
        return "–"
    word = one.verdict if p_value <= ERROR else Finding.OPEN.value
    return f"{word} (p {p_value:.1g})" if p_value < 0.1 else f"{word} (p {p_value:.2f})"


def wrong_words(found: Sequence[Judged]) -> str:
    """How many words of the page are expected to be wrong at most, before and after the correction, and of those said twice."""
    twice = sum(one.second is not None for one in found)
    stay = sum(p <= ERROR for p in corrected(found).values())
    said = f"Of {len(found)} first words, each at {100 * ERROR:.0f} %, up to {ERROR * len(found):.1f} are expected to be wrong"
    said += f"; of the {stay} that the correction keeps, {ERROR * stay:.1f}"
    return (
        f"{said}; said again though wrong, of {twice} looked at twice: {ERROR**2 * twice:.2f}."
        if twice
        else f"{said}."
    )


def claims_table(found: Sequence[Judged]) -> Table:
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
    p_values = corrected(found)
    rows: list[Mapping[str, Cell]] = [
        {
            "claim": one.title,
            "source": one.claim["source"],
            "setting": one.claim["setting"],
            "engaged": one.engaged or "–",
            "effect": effect_text(one),
            "second": "–" if one.second is None else effect_text(one.second),
            "both": both_text(one),
            "verdict": one.verdict,
            "corrected": corrected_text(one, p_values[one.name]),
            "seeds": "+".join(str(look.seeds) for look in looks_of(one)),
            "tokens": sum(look.generated_tokens for look in looks_of(one)) / 1e6,
            "hours": sum(look.hours for look in looks_of(one)),
        }
        for one in found
    ]
    return Table(
        "claims", "Claims of the field, judged on the testbed", columns, rows, (*NOTES, wrong_words(found))
    )


def looks_of(one: Judged) -> list[Judged]:
    """The first look, and the second where there is one."""
    return [one] if one.second is None else [one, one.second]


def both_text(one: Judged) -> str:
    """The effect over both looks, or why there is none."""
    if one.both is None:
        return one.not_pooled or "–"
    return effect_text(one, one.both)


def effect_text(one: Judged, effect: Estimate | None = None) -> str:
    """``−1.5 [−2.7, −0.2] points``; why there is no value; the value alone where nothing gives it an interval."""
    effect = one.effect if effect is None else effect
    if effect.seeds < 2 or math.isnan(effect.value):
        return effect.absent or "–"
    value = number_text(effect.value, one.metric.digits, signed=True)
    if math.isnan(effect.low):
        return f"{value} {one.unit}"
    low, high = bounds_text(effect, one.metric.digits, scale=1.0, signed=True)
    return f"{value} [{low}, {high}] {one.unit}"
