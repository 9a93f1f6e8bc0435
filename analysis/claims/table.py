"""The table of claims: what was said of which setting, what was found here, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from analysis.claims.judged import Judged
from analysis.tables.table import Cell, Column, Table, bounds_text, number_text

NOTES = (
    "Each claim was declared with its comparison, direction, margin and most seeds before it was run (`conf/claim`). A verdict is about "
    "this testbed at its declared operating point; a claim that fails here may hold where it was made.",
    "The effect is arm minus reference, paired by seed, with the 95 % interval of the claim's own sequential design: looks at declared "
    "numbers of seeds, error spent over them. Claims are not corrected for one another.",
    "Holds here: the interval has the sign that the claim predicts. Reversed: the other sign. A claim of no harm holds where the interval "
    "ends above minus the margin, and is reversed where all of it lies below; one of equivalence "
    "within the margin, and beyond it. Equivalent to nothing: it contains zero and lies within the margin. Open: none of these yet. Not "
    "engaged: it contains zero, and what the claim is about hardly happened, so nothing follows.",
)


def claims_table(found: Sequence[Judged]) -> Table:
    """One row a claim, in the order given."""
    columns = (
        Column("claim", "claim"),
        Column("source", "source"),
        Column("setting", "source's setting"),
        Column("engaged", "engaged here"),
        Column("effect", "effect (95 % interval)"),
        Column("verdict", "verdict"),
        Column("seeds", "seeds", digits=0),
        Column("tokens", "generated tokens, M", digits=1),
        Column("hours", "core-hours", digits=2),
    )
    rows: list[Mapping[str, Cell]] = [
        {
            "claim": one.title,
            "source": one.claim["source"],
            "setting": one.claim["setting"],
            "engaged": one.engaged or "–",
            "effect": effect_text(one),
            "verdict": one.verdict,
            "seeds": one.seeds,
            "tokens": one.generated_tokens / 1e6,
            "hours": one.hours,
        }
        for one in found
    ]
    return Table("claims", "Claims of the field, judged on the testbed", columns, rows, NOTES)


def effect_text(one: Judged) -> str:
    """``−1.5 [−2.7, −0.2] points``; why there is no value; the value alone where nothing gives it an interval."""
    if one.effect.seeds < 2 or math.isnan(one.effect.value):
        return one.effect.absent or "–"
    value = number_text(one.effect.value, one.digits, signed=True)
    if math.isnan(one.effect.low):
        return f"{value} {one.unit}"
    low, high = bounds_text(one.effect, one.digits, scale=1.0, signed=True)
    return f"{value} [{low}, {high}] {one.unit}"
