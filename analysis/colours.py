"""One colour and one mark for each verdict, in every table, figure, page and terminal; nothing else has these colours."""

from dataclasses import dataclass

from harness.statistics.intervals import Verdict


@dataclass(frozen=True)
class Look:
    """Colours on light and dark ground and of a terminal; marks of matplotlib, of a page (a path), of a terminal (full, hollow)."""

    colour: str
    dark: str
    terminal: str
    marker: str
    path: str
    glyphs: str


# By the first word of a verdict. Blue and vermilion of Okabe and Ito, and their green; grey says that nothing is decided.
VERDICTS = {
    "higher": Look("#0072B2", "#6cb8ee", "blue", ">", "M-4 -5l9 5l-9 5z", "▶▷"),
    "lower": Look("#C04A00", "#f3a070", "red", "<", "M4 -5l-9 5l9 5z", "◀◁"),
    "equivalent": Look("#007A5A", "#57c99b", "green", "s", "M-4 -4h8v8h-8z", "■□"),
    "not": Look("#6a6a6a", "#a9a9a9", "bright_black", "o", "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", "●○"),
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
