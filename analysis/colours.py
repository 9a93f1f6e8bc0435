"""One colour and one mark for each verdict, in every table, figure, page and terminal."""

from dataclasses import dataclass

from harness.statistics.intervals import Verdict


@dataclass(frozen=True)
class Look:
    """How a verdict looks: colour of a figure and a page, of a page on dark ground, of a terminal, and matplotlib's marker."""

    colour: str
    dark: str
    terminal: str
    marker: str


# By the first word of a verdict. Blue and vermilion of Okabe and Ito, and their green; grey says that nothing is decided.
VERDICTS = {
    "higher": Look("#0072B2", "#6cb8ee", "blue", ">"),
    "lower": Look("#C04A00", "#f3a070", "red", "<"),
    "equivalent": Look("#007A5A", "#57c99b", "green", "s"),
    "not": Look("#6a6a6a", "#a9a9a9", "bright_black", "o"),
}


def kind_of(verdict: Verdict) -> str:
    """The key of a verdict in `VERDICTS`, which is its class on a page: higher, lower, equivalent, not."""
    return verdict.value.partition(" ")[0].rstrip(",")


def look_of(verdict: Verdict) -> Look:
    """How this verdict looks."""
    return VERDICTS[kind_of(verdict)]


def is_hollow(verdict: Verdict) -> bool:
    """True where a mark is drawn hollow: nothing is decided, or the difference is smaller than the margin."""
    return verdict in (Verdict.HIGHER_INSIDE, Verdict.LOWER_INSIDE, Verdict.NOT_RESOLVED)
