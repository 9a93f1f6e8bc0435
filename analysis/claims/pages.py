"""Pages that `harness audit` writes: one of all claims with figure and table, and a page for each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from analysis.claims.figure import claims_figure
from analysis.claims.judged import Judged, effects_of
from analysis.claims.record import write_effects
from analysis.claims.table import both_text, claims_table, effect_text, wrong_words
from analysis.figures.style import save, styled
from analysis.tables.files import write_table
from analysis.tables.table import to_terminal
from harness.statistics.finding import Finding
from harness.store.atomic import write_file

_EXPECTS = {
    "higher": "the arm is higher",
    "lower": "the arm is lower",
    "equivalent": "the two are equivalent within the margin",
    "not_higher": "the arm is not higher by the margin or more",
    "not_lower": "the arm is not lower by the margin or more",
}


def in_words(found: Sequence[Judged]) -> str:
    """The table for a terminal and the count of each verdict."""
    return f"{to_terminal(claims_table(found), 200)}\n{len(found)} claims: {_counts(found)}\n{wrong_words(found)}\n"


def write_pages(found: Sequence[Judged], out: Path) -> None:
    """Write the page of each claim below `out`."""
    for one in found:
        write_file(out / f"{one.name}.md", page(one).encode())


def write_overview(found: Sequence[Judged], out: Path) -> None:
    """Write what is about all claims below `out`: table, record of effects, figure, README."""
    write_table(claims_table(found), out, "claims")
    write_effects(effects_of(found), out / "effects")
    with styled("paper"):
        save(claims_figure(found), out / "figures", "claims")
    write_file(out / "README.md", _overview(found, _counts(found)).encode())


def _counts(found: Sequence[Judged]) -> str:
    counts = Counter(one.finding.value for one in found)
    said = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    answers = Counter(one.answer.value for one in found if one.answer)
    again = ", ".join(f"{count} {word}" for word, count in answers.most_common())
    return f"{said}; looked at again {answers.total()}: {again}" if again else said


def _overview(found: Sequence[Judged], said: str) -> str:
    lines = ["# Claims of the field, judged on the testbed", ""]
    lines += [
        f"{len(found)} claims: {said}. Made again by `harness audit claim=NAME` for each (the names of the pages); `claim=all` also runs "
        "what has not been judged yet.",
        "",
        wrong_words(found),
        "",
        "![All claims](figures/claims.png)",
        "",
    ]
    lines += ["| claim | effect (95 % interval) | second look | both | verdict |", "|---|---|---|---|---|"]
    for one in found:
        second = "–" if one.second is None else effect_text(one.second)
        lines.append(
            f"| [{one.title}]({one.name}.md) | {effect_text(one)} | {second} | {both_text(one)} | {one.verdict} |"
        )
    errata = "../../docs/claims.md#what-declarations-say-wrongly"
    lines += [
        "",
        "The whole table: [claims.md](claims.md), [claims.csv](claims.csv); one row a look: [effects.csv](effects.csv). "
        f"[What declarations say wrongly]({errata}).",
        "",
    ]
    lines += [f"- {note}" for note in claims_table(found).notes]
    return "\n".join(lines) + "\n"


def page(one: Judged) -> str:
    """Statement, source, design, finding and what would overturn it, as Markdown."""
    claim = one.claim
    engaged = one.engaged or "no measure covers what differs between the two arms"
    lines = [
        f"# {one.title}: {one.verdict}",
        "",
        f"**Claim.** {claim['statement']} ({claim['source']}; {claim['setting']})",
        "",
        f"**Command.** `harness audit claim={one.name}` ([declaration](../../conf/claim/{one.name}.yaml))",
        "",
        f"**Prediction.** {_EXPECTS[claim['expects']].capitalize()}; differences below {one.margin:g} {one.unit} do not matter.",
        "",
        f"**Found.** {one.sentence}.",
        "",
        *_second_look(one),
        f"**Engaged.** {engaged}.",
        "",
        f"**Cost.** {one.generated_tokens / 1e6:.1f} million generated tokens, {one.hours:.2f} core-hours (runs shared with other "
        "experiments included).",
        "",
        f"**What could explain another result elsewhere.** {claim['differs']}",
        "",
        "**What would overturn it.** " + _overturn(one),
    ]
    lines += ["", *(f"- {note}" for note in one.notes)] if one.notes else []
    return "\n".join(lines) + "\n"


def _second_look(one: Judged) -> list[str]:
    second = one.second
    if second is None:
        return []
    chance = ""
    if not math.isnan(second.chance):
        chance = f" If the first effect is true, it had {100 * second.chance:.0f} % to say the same word."
    both = f"Both looks: {both_text(one)}." if one.both else f"No common interval: {one.not_pooled}."
    seeds = [*second.starts]
    still = f" {_undecided(second)}" if second.finding is Finding.OPEN else ""
    return [
        f"**Second look.** {second.sentence}: {second.word}, on seeds {seeds[0]} to {seeds[-1]} and base policies that the first look "
        f"did not use.{chance} {both}{still}",
        "",
        f"**Command.** `harness audit claim={one.name} replicate=true`",
        "",
    ]


def _undecided(one: Judged) -> str:
    left = f"{one.unfinished}. " if one.unfinished else ""
    more = f" If the effect is what was found, about {one.seeds_to_decide} seeds would decide it, each on a base policy of its own."
    return f"{left}Nothing is decided.{more if one.seeds_to_decide else ''}"


def _overturn(one: Judged) -> str:
    if one.seeds < 2:
        return "Nothing has been found yet."
    if one.effect.absent:
        return f"Nothing can be compared ({one.effect.absent}): a longer run, or a target that every seed reaches."
    fresh = "over fresh seeds and other base policies"
    return {
        Finding.HOLDS: f"An interval {fresh} that the claim does not allow: the other sign, or for a predicted sign one within the margin.",
        Finding.REVERSED: f"The predicted sign {fresh}, or where the mechanism is engaged more strongly.",
        Finding.NOTHING: f"An interval {fresh} beyond the margin, or the predicted sign where the mechanism is engaged more strongly.",
        Finding.OPEN: _undecided(one),
        Finding.NOT_ENGAGED: "Nothing follows from it: an operating point where the mechanism acts.",
    }[one.finding]
