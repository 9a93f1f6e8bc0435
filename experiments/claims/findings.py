"""The table of sentences.md: each published sentence beside what the testbed and the language model say of it.

python experiments/claims/findings.py          # writes the table into sentences.md, between its two marks

It reads effects.csv, as it was published, and language_model.csv here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
PAGE = HERE / "sentences.md"
BEGIN, END = "<!-- claims: experiments/claims/findings.py -->\n\n", "\n\n<!-- end -->"
_HEAD = "| claim | published | of | says | here, first look | second look | SmolLM2 | differs here |\n|---|---|---|---|---|---|---|---|"
_WORDS = {"holds here": "**holds**", "reversed here": "**reversed**", "equivalent to nothing": "no effect"}
_DIRECTIONS = {"equivalent": "the same", "not_lower": "no worse", "not_higher": "no better"}
_ORDER = ["**holds**", "**reversed**", "no effect", "open", "not engaged"]


def _cell(row: pd.Series) -> str:
    """A difference with its interval and its verdict."""
    digits, unit = (2 if row["unit"] == "nats" else 1), "" if row["unit"] == "points" else f" {row['unit']}"
    numbers = f"{row['effect']:+.{digits}f} [{row['low']:+.{digits}f}, {row['high']:+.{digits}f}]".replace("-", "−")
    return f"{numbers}{unit} {_WORDS.get(row['words'], row['words'])}"


def _paper(text: str) -> str:
    """The number of the first paper that a source names, as a link; nothing where it names none."""
    number = re.search(r"arXiv:(\d{4}\.\d{5})", text)
    return f" [{number[1]}](https://arxiv.org/abs/{number[1]})" if number else ""


def table() -> str:
    """One row a claim: those with a second look first, by the verdict of the first one, then by title."""
    effects = pd.read_csv(HERE / "effects.csv")
    language = pd.read_csv(HERE / "language_model.csv").assign(unit="points").set_index("claim")
    rows = []
    for name, looks in effects.groupby("experiment"):
        by_look = looks.set_index("look")
        first = by_look.loc["first"]
        second = _cell(by_look.loc["second"]) if "second" in by_look.index else ""
        claim = str(name).removeprefix("claim_")
        smollm = _cell(language.loc[claim]) if claim in language.index else ""
        setting = "" if "not read" in first["setting"] else first["setting"]
        sentence = [first["statement"] + _paper(first["source"]), setting]
        here = [
            _DIRECTIONS.get(first["expects"], first["expects"]),
            _cell(first),
            second,
            smollm,
            str(first["differs"]),
        ]
        order = _ORDER.index(_WORDS.get(first["words"], first["words"]))
        rows.append((not second, order, first["title"].lower(), first["title"], sentence, here))
    lines, above = [_HEAD], [""]
    for *_, title, sentence, here in sorted(rows):
        shown = ["as above", ""] if sentence == above else sentence
        lines.append(f"| {' | '.join([title, *shown, *here])} |")
        above = sentence
    return "\n".join(lines)


def update_page(page: str) -> str:
    """The page with the table of today. Raises `ValueError` where its marks are gone."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(
            f"sentences.md has no {BEGIN.strip()} … {END.strip()}; put the two marks where the table stands"
        )
    return before + begin + table() + end + after


if __name__ == "__main__":
    PAGE.write_text(update_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
