"""What comparisons say, as a person would say it: who is shown to help or to hurt, and what is not shown. No sentence has over 25 words."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.tables.table import bounds_text, number_text
from harness.evaluation.metrics.names import HIGHER, LOWER, Metric
from harness.statistics.intervals import Estimate, Verdict

UP, DOWN = (Verdict.HIGHER, Verdict.HIGHER_INSIDE), (Verdict.LOWER, Verdict.LOWER_INSIDE)
MOST_WORDS = 25
_LISTED = 3  # comparisons that one sentence names; of more of them it names the largest
_NAME, _NAME_WORDS = 60, 8  # characters and words of a name in a sentence
_NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


@dataclass(frozen=True)
class Row:
    """One comparison: its name in a sentence, and its estimate in the stored unit of the metric."""

    name: str
    estimate: Estimate
    metric: Metric

    @property
    def known(self) -> bool:
        """True where there is a value."""
        return not math.isnan(self.estimate.value)

    @property
    def points(self) -> str:
        """``+3.6``, or a dash."""
        metric = self.metric
        return number_text(metric.scale * self.estimate.value, metric.digits, signed=True) if self.known else "–"

    @property
    def with_unit(self) -> str:
        """``+3.6 points``."""
        return f"{self.points} {self.metric.unit}".rstrip()

    @property
    def interval(self) -> str:
        """``+2.3 to +4.9``; empty where there is none."""
        if math.isnan(self.estimate.low):
            return ""
        return " to ".join(bounds_text(self.estimate, self.metric.digits, scale=self.metric.scale))

    @property
    def verdict(self) -> str:
        """``equivalent within 3``, or why there is no comparison."""
        return self.estimate.words(self.metric.scale) if self.known else self.estimate.absent or "no comparison"

    @property
    def bound(self) -> str:
        """The margin as shown where the difference is shown to lie inside it: ``less than 3``."""
        estimate = self.estimate
        inside = estimate.margin is not None and estimate.verdict in (Verdict.HIGHER_INSIDE, Verdict.LOWER_INSIDE)
        return f"less than {self.metric.scale * (estimate.margin or 0.0):g}" if inside else ""


@dataclass(frozen=True)
class Wording:
    """How comparisons are spoken of.

    ``noun`` is what a row is (step, arm), ``against`` what all of them are compared with, if one arm is; ``identifiers``: names stay as
    they are at the beginning of a sentence.
    """

    noun: str = "arm"
    against: str = ""
    identifiers: bool = False

    def begin(self, name: str) -> str:
        """A name at the beginning of a sentence."""
        return name if self.identifiers else capital(name)

    def verbs(self, metric: Metric) -> tuple[str, str, str]:
        """What a difference above, below and on any side of zero does; without a better direction only that it raises or lowers."""
        if metric.better in (HIGHER, LOWER):
            verbs = (
                ("do better", "do worse", "do better or worse") if self.against else ("help", "hurt", "help or hurt")
            )
        elif self.against:
            verbs = ("be higher", "be lower", "be higher or lower")
        else:
            verbs = ("raise it", "lower it", "raise or lower it")
        up, down, either = (verbs[1], verbs[0], verbs[2]) if metric.better == LOWER else verbs
        than = f" than {self.against}" if self.against else ""
        return up + than, down + than, either + than


def count_word(number: int) -> str:
    """``five``; digits above twelve."""
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


def capital(text: str) -> str:
    """The text with a capital at its beginning, unless its first word has one of its own or is no word (``avg@32``)."""
    first = text.partition(" ")[0].rstrip(",:")
    return text[:1].upper() + text[1:] if first.replace("-", "").isalpha() and first == first.lower() else text


def shorten(text: str, width: int) -> str:
    """The text in so many characters: cut between words, or inside the first one where that is longer."""
    whole_words = textwrap.shorten(text, width, placeholder=" …")
    return f"{text[: width - 1]}…" if whole_words == "…" else whole_words


def short_name(name: str) -> str:
    """A name without the plus of a rung, short enough for a sentence."""
    words = shorten(name.removeprefix("+ "), _NAME).split(" ")
    return " ".join(words if len(words) <= _NAME_WORDS else [*words[: _NAME_WORDS - 1], "…"])


def named_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows that `sentences` names: those shown to differ, the largest difference first; of many on one side only that."""
    sides = [_side(rows, verdicts) for verdicts in (UP, DOWN)]
    return [row for side in sides for row in (side if _list(side) else side[:1])]


def sentences(rows: Sequence[Row], wording: Wording) -> list[str]:
    """Say which of the rows are shown to differ from zero; where none is, what is equivalent and what is not resolved."""
    rows = [row for row in rows if row.known]
    if not rows:
        return []
    verbs = wording.verbs(rows[0].metric)
    sides = [(_side(rows, UP), verbs[0]), (_side(rows, DOWN), verbs[1])]
    texts = [_side_sentence(side, verb, rows, wording) for side, verb in sides if side]
    return texts or _no_difference_sentences(rows, wording, verbs[2])


def _side(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> list[Row]:
    side = [row for row in rows if row.known and row.estimate.verdict in verdicts]
    return sorted(side, key=lambda row: -abs(row.estimate.value))


def _side_sentence(side: Sequence[Row], verb: str, rows: Sequence[Row], wording: Wording) -> str:
    first, unit, count = side[0], side[0].metric.unit, len(rows)
    if len(side) == 1:
        only = f"the only {wording.noun} " * (count > 1)
        bound = f", but by {first.bound} {unit}".rstrip() * bool(first.bound)
        name = wording.begin(short_name(first.name))
        sentence = f"{name} is {only}shown to {verb}{bound}: {first.with_unit}."
        short_sentence = f"{name} is {only}shown to {verb.partition(' than ')[0]}: {first.with_unit}."
        return sentence if len(sentence.split()) <= MOST_WORDS else short_sentence
    if text := _list(side):
        return f"{wording.begin(text)} are shown to {verb}."
    largest = f"{short_name(first.name)}: {first.with_unit}"
    return f"{len(side)} of {count} {_plural(wording.noun)} are shown to {verb}, most of all {largest}."


def _list(side: Sequence[Row]) -> str:
    """``A (+3.1 points) and B (+0.9, less than 3)``; empty where they are too many or their names too long for a sentence."""
    numbers = [", ".join(filter(None, [row.with_unit if row is side[0] else row.points, row.bound])) for row in side]
    texts = [f"{short_name(row.name)} ({number})" for row, number in zip(side, numbers, strict=True)]
    text = " and ".join([", ".join(texts[:-1]), *texts[-1:]] if len(texts) > 1 else texts)
    return text if len(side) <= _LISTED and len(text.split()) <= MOST_WORDS - 12 else ""


def _no_difference_sentences(rows: Sequence[Row], wording: Wording, either: str) -> list[str]:
    count, noun = len(rows), wording.noun
    same = [row for row in rows if row.estimate.verdict is Verdict.EQUIVALENT]
    margin = (
        f"within {same[0].metric.scale * (same[0].estimate.margin or 0.0):g} {rows[0].metric.unit}".rstrip()
        if same
        else ""
    )
    if all(row.estimate.seeds < 2 for row in rows):
        return [f"One seed cannot show what {'this' if count == 1 else 'any'} {noun} does: at least two are needed."]
    if count == 1:
        name, points = wording.begin(short_name(rows[0].name)), rows[0].with_unit
        target = f" to {wording.against}" * bool(wording.against)
        outcome = f"equivalent{target} {margin}: {points}" if same else f"not shown to {either}: {points}, not resolved"
        return [f"{name} is {outcome}."]
    if len(same) == count:
        return [f"{'Both' if count == 2 else f'All {count_word(count)}'} {_plural(noun)} are equivalent {margin}."]
    rest = count - len(same)
    are = ["is" if number == 1 else "are" for number in (len(same), rest)]
    parts = f"{capital(count_word(len(same)))} {are[0]} equivalent {margin}, {count_word(rest)} {are[1]} not resolved."
    subject = "Neither" if count == 2 else f"None of the {count_word(count)}"
    return [f"No {noun} is shown to {either}.", parts if same else f"{subject} is resolved."]


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"
