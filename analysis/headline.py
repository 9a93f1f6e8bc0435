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
        return f"less than {self.margin}" if estimate.resolved and estimate.inside_margin else ""

    @property
    def margin(self) -> str:
        """The margin as shown; 0 where there is none."""
        return f"{self.metric.scale * (self.estimate.margin or 0.0):g}"


@dataclass(frozen=True)
class Wording:
    """How comparisons are spoken of.

    ``noun`` is what a row is (step, arm), ``against`` what all of them are compared with, if one arm is; ``identifiers``: names stay as
    they are at the beginning of a sentence.
    """

    noun: str = "arm"
    against: str = ""
    identifiers: bool = False

    @property
    def plural(self) -> str:
        """The noun for several rows."""
        return f"{self.noun}es" if self.noun.endswith("ch") else f"{self.noun}s"

    def begin(self, name: str) -> str:
        """A name at the beginning of a sentence."""
        return name if self.identifiers else capital(name)

    def verbs(self, metric: Metric) -> tuple[str, str, str]:
        """What a difference above, below and on any side of zero does; without a better direction only that it raises or lowers."""
        than = f" than {self.against}" if self.against else ""
        if metric.better not in (HIGHER, LOWER):
            return (
                ("be higher", "be lower", "be higher or lower")
                if than
                else ("raise it", "lower it", "raise or lower it")
            )
        good, bad = ("do better", "do worse") if than else ("help", "hurt")
        up, down = (good, bad) if metric.better == HIGHER else (bad, good)
        return up + than, down + than, ("do better or worse" if than else "help or hurt") + than


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
    up, down, either = wording.verbs(rows[0].metric)
    texts = [
        _side_sentence(_side(rows, verdicts), verb, len(rows), wording) for verdicts, verb in ((UP, up), (DOWN, down))
    ]
    return [text for text in texts if text] or _no_difference_sentences(rows, wording, either)


def _side(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> list[Row]:
    side = [row for row in rows if row.known and row.estimate.verdict in verdicts]
    return sorted(side, key=lambda row: -abs(row.estimate.value))


def _side_sentence(side: Sequence[Row], verb: str, count: int, wording: Wording) -> str:
    if len(side) > 1 and (text := _list(side)):
        return f"{wording.begin(text)} are shown to {verb}."
    if not side:
        return ""
    first = side[0]
    name = short_name(first.name)
    if len(side) > 1:
        return f"{len(side)} of {count} {wording.plural} are shown to {verb}, most of all {name}: {first.with_unit}."
    begin = f"{wording.begin(name)} is {f'the only {wording.noun} ' * (count > 1)}shown to"
    bound = f", but by {first.bound} {first.metric.unit}".rstrip() * bool(first.bound)
    sentence = f"{begin} {verb}{bound}: {first.with_unit}."
    return (
        sentence
        if len(sentence.split()) <= MOST_WORDS
        else f"{begin} {verb.partition(' than ')[0]}: {first.with_unit}."
    )


def _list(side: Sequence[Row]) -> str:
    """``A (+3.1 points) and B (+0.9, less than 3)``; empty where they are too many or their names too long for a sentence."""
    numbers = [", ".join(filter(None, [row.with_unit if row is side[0] else row.points, row.bound])) for row in side]
    *texts, last = [f"{short_name(row.name)} ({number})" for row, number in zip(side, numbers, strict=True)] or [""]
    text = f"{', '.join(texts)} and {last}" if texts else last
    return text if len(side) <= _LISTED and len(text.split()) <= MOST_WORDS - 12 else ""


def _no_difference_sentences(rows: Sequence[Row], wording: Wording, either: str) -> list[str]:
    count, noun, first = len(rows), wording.noun, rows[0]
    same = sum(row.estimate.verdict is Verdict.EQUIVALENT for row in rows)
    margin = f"within {first.margin} {first.metric.unit}".rstrip()
    if all(row.estimate.seeds < 2 for row in rows):
        return [f"One seed cannot show what {'this' if count == 1 else 'any'} {noun} does: at least two are needed."]
    if count == 1:
        target = f" to {wording.against}" * bool(wording.against)
        outcome = f"equivalent{target} {margin}: {first.with_unit}"
        unclear = f"not shown to {either}: {first.with_unit}, not resolved"
        return [f"{wording.begin(short_name(first.name))} is {outcome if same else unclear}."]
    if same == count:
        return [f"{'Both' if count == 2 else f'All {count_word(count)}'} {wording.plural} are equivalent {margin}."]
    if not same:
        subject = "Neither" if count == 2 else f"None of the {count_word(count)}"
        return [f"No {noun} is shown to {either}.", f"{subject} is resolved."]
    parts = [f"{count_word(number)} {'is' if number == 1 else 'are'}" for number in (same, count - same)]
    return [f"No {noun} is shown to {either}.", f"{capital(parts[0])} equivalent {margin}, {parts[1]} not resolved."]
