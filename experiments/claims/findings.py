"""The table of docs/findings.md: each published sentence beside what the testbed and the language model say of it.

python experiments/claims/findings.py          # writes the table into docs/findings.md, between its two marks

It reads effects.csv, which `harness audit claim=all` writes, and language_model.csv here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "findings.md"
BEGIN, END = "<!-- claims: experiments/claims/findings.py -->\n\n", "\n\n<!-- end -->"
_HEAD = "| claim | published | on | testbed | word, twice | SmolLM2 |\n|---|---|---|---|---|---|"
_WORDS = {"holds here": "holds", "reversed here": "reversed", "equivalent to nothing": "no effect"}
_UNITS = {"points": ""}


def _interval(effect: float, low: float, high: float, unit: str = "points") -> str:
    digits = 2 if unit == "nats" else 1
    numbers = f"{effect:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]".replace("-", "−")
    return f"{numbers} {_UNITS.get(unit, unit)}".strip()


def _source(text: str) -> str:
    """The number of the paper alone, as a link; the text where there is none."""
    number = re.match(r"arXiv:(\d{4}\.\d{5})", text)
    return f"[{number[1]}](https://arxiv.org/abs/{number[1]})" if number else text


def table() -> str:
    """One row a claim, in the order of their titles."""
    effects = pd.read_csv(HERE / "effects.csv").astype({"title": str})
    language = pd.read_csv(HERE / "language_model.csv").set_index("claim")
    rows = [_HEAD]
    for _, looks in sorted(effects.groupby("experiment"), key=lambda item: str(item[1]["title"].iloc[0]).lower()):
        first = looks[looks["look"] == "first"].iloc[0]
        name = first["experiment"].removeprefix("claim_")
        words = " / ".join(_WORDS.get(word, word) for word in looks.sort_values("look")["words"])
        beside = ""
        if name in language.index:
            row = language.loc[name]
            beside = f"{_interval(row['effect'], row['low'], row['high'])} {row['word']}"
        effect = _interval(first["effect"], first["low"], first["high"], first["unit"])
        rows.append(
            f"| {first['title']} | {first['statement']} {_source(first['source'])} | {first['setting']} | {effect} | {words} | {beside} |"
        )
    return "\n".join(rows)


def replaced(page: str) -> str:
    """The page with the table of today. Raises `ValueError` where its marks are gone."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(
            f"docs/findings.md has no {BEGIN.strip()} … {END.strip()}; put the two marks where the table stands"
        )
    return before + begin + table() + end + after


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
