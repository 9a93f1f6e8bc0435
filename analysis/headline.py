"""What comparisons say, as a person would say it: who is shown to help or to hurt, and what is not shown. No sentence has over 25 words."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.line import Line
from harness.configuration.numbers import format_amount
from harness.evaluation.metrics.names import HIGHER, LOWER, Metric
from harness.statistics.intervals import Verdict

UP, DOWN = (Verdict.HIGHER, Verdict.HIGHER_INSIDE), (Verdict.LOWER, Verdict.LOWER_INSIDE)
MOST_WORDS = 25
_LISTED = 3  # comparisons that one sentence names; of more of them it names the largest
_LISTED_WORDS = 13
_NAME, _NAME_WORDS = 60, 8  # characters and words of a name in a sentence
_NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_OWN_WORDS = (*_NUMBERS, "all", "both", "none", "neither", "nothing", "not")  # that begin a sentence and are no name


@dataclass(frozen=True)
class Wording:
    """How comparisons are spoken of.

    ``noun`` is what a row is (step, arm), ``against`` what all of them are compared with, if one arm is; ``identifiers``: names stay as
    they are at the beginning of a sentence; ``opening`` stands before the first one: ``avg@32: at equal steps``.
    """

    noun: str = "arm"
    against: str = ""
    identifiers: bool = False
    opening: str = ""

    @property
    def plural(self) -> str:
        """The noun for several rows."""
        return f"{self.noun}es" if self.noun.endswith("ch") else f"{self.noun}s"

    def begin(self, text: str) -> str:
        """A text at the beginning of a sentence."""
        return text if self.identifiers and text.partition(" ")[0] not in _OWN_WORDS else capital(text)

    def first(self, text: str) -> str:
        """A text as the first sentence, behind the opening."""
        return f"{capital(self.opening)} {text}" if self.opening else self.begin(text)

    def verbs(self, metric: Metric) -> tuple[str, str, str]:
        """What a difference above, below and on any side of zero does; without a better direction only that it raises or lowers."""
        than = f" than {self.against}" * bool(self.against)
        words = ("do better", "do worse", "do better or worse") if than else ("help", "hurt", "help or hurt")
        if metric.better not in (HIGHER, LOWER):
            plain = ("raise it", "lower it", "raise or lower it")
            words = ("be higher", "be lower", "be higher or lower") if than else plain
        elif metric.better == LOWER:
            words = (words[1], words[0], words[2])
        return words[0] + than, words[1] + than, words[2] + than


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


def named_rows(rows: Sequence[Line]) -> list[Line]:
    """The rows that `sentences` names: those shown to differ, the largest difference first; of many on one side only that."""
    return [row for side in _sides(rows) for row in (side if _list(side) else side[:1])]


def sentences(rows: Sequence[Line], wording: Wording) -> list[str]:
    """Say which of the rows are shown to differ from zero, else what is equivalent or not resolved; and what was not tested."""
    rows = [row for row in rows if row.known]
    tested, untested = ([row for row in rows if bool(row.untested) is side] for side in (False, True))
    if not rows:
        return []
    *verbs, either = wording.verbs(rows[0].metric)
    texts = [_side_text(side, verb, len(rows), wording) for side, verb in zip(_sides(rows), verbs, strict=True) if side]
    texts = texts or (_no_difference(tested, wording, either, " tested" * bool(untested)) if tested else [])
    texts += [_untested_text(untested, len(rows), wording)] if untested else []
    return [f"{text}." for text in (wording.first(texts[0]), *map(wording.begin, texts[1:]))]


def _sides(rows: Sequence[Line]) -> list[list[Line]]:
    sides = ([row for row in rows if row.estimate.verdict in verdicts] for verdicts in (UP, DOWN))
    return [sorted(side, key=lambda row: -abs(row.estimate.value)) for side in sides]


def _fitting(*texts: str, opening: str = "") -> str:
    """The first text that is short enough behind the opening, else the last one."""
    return next((text for text in texts if len(f"{opening} {text}".split()) <= MOST_WORDS), texts[-1])


def _side_text(side: Sequence[Line], verb: str, count: int, wording: Wording) -> str:
    first, short_verb = side[0], verb.partition(" than ")[0]
    name, value = short_name(first.name), first.with_unit
    if len(side) == 1:
        begin = f"{name} is {f'the only {wording.noun} ' * (count > 1)}shown to"
        bound = f", but by {first.bound} {first.metric.unit}".rstrip() * bool(first.bound)
        return _fitting(f"{begin} {verb}{bound}: {value}", f"{begin} {short_verb}: {value}", opening=wording.opening)
    if listed := _list(side):
        return _fitting(f"{listed} are shown to {verb}", f"{listed} are shown to {short_verb}", opening=wording.opening)
    begin = f"{len(side)} of {count} {wording.plural} are shown to"
    texts = (f"{begin} {one}, most of all {name}: {value}" for one in (verb, short_verb))
    return _fitting(*texts, opening=wording.opening)


def _list(side: Sequence[Line]) -> str:
    """``A (+3.1 points) and B (+0.9, less than 3)``; empty where they are too many or their names too long for a sentence."""
    numbers = [", ".join(filter(None, [row.with_unit if row is side[0] else row.points, row.bound])) for row in side]
    return _joined([f"{short_name(row.name)} ({number})" for row, number in zip(side, numbers, strict=True)])


def _joined(texts: Sequence[str]) -> str:
    *others, last = texts or [""]
    text = f"{', '.join(others)} and {last}" if others else last
    return text if len(texts) <= _LISTED and len(text.split()) <= _LISTED_WORDS else ""


def _no_difference(rows: Sequence[Line], wording: Wording, either: str, tested: str) -> list[str]:
    count, noun, first = len(rows), wording.noun, rows[0]
    same = sum(row.estimate.verdict is Verdict.EQUIVALENT for row in rows)
    margin = f"within {format_amount(float(first.margin), first.metric.unit)}"
    if all(row.estimate.seeds < 2 for row in rows):
        return [f"one seed cannot show what {'this' if count == 1 else 'any'} {noun} does: at least two are needed"]
    if count == 1:
        target = f" to {wording.against}" * bool(wording.against)
        outcome = f"equivalent{target} {margin}: {first.with_unit}"
        unclear = f"not shown to {either}: {first.with_unit}, not resolved"
        return [f"{short_name(first.name)} is {outcome if same else unclear}"]
    if same == count:
        return [
            f"{'both' if count == 2 else f'all {count_word(count)}'}{tested} {wording.plural} are equivalent {margin}"
        ]
    nothing = f"no {noun} is shown to {either}"
    if not same:
        none = "neither" if count == 2 else "none"
        return [nothing, f"{none}{f' of the {count_word(count)}{tested}' * (count > 2 or bool(tested))} is resolved"]
    parts = [f"{count_word(number)} {'is' if number == 1 else 'are'}" for number in (same, count - same)]
    return [nothing, f"{parts[0]} equivalent {margin}, {parts[1]} not resolved"]


def _untested_text(rows: Sequence[Line], count: int, wording: Wording) -> str:
    if len(rows) == 1:
        name = short_name(rows[0].name)
        return _fitting(
            f"{name} was not tested: it affected {rows[0].untested}", f"{name} was not tested: it hardly acted"
        )
    if listed := _joined([f"{short_name(row.name)} ({row.untested})" for row in rows]):
        return f"not tested, since they hardly acted: {listed}"
    return f"{len(rows)} of {count} {wording.plural} were not tested: they hardly acted"
