"""The table of sentences.md: each published sentence beside what the testbed and the language model say of it.

python experiments/claims/findings.py          # writes the table into sentences.md, between its two marks

It reads effects.csv, as it was published, language_model.csv here, and the judgements of other people's runs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
PAGE = HERE / "sentences.md"
BEGIN, END = "<!-- claims: experiments/claims/findings.py -->\n\n", "\n\n<!-- end -->"
_HEADS = [
    "claim",
    "published",
    "of",
    "says",
    "here, first look",
    "second look",
    "SmolLM2",
    "public runs",
    "differs here",
]
_HEAD = f"| {' | '.join(_HEADS)} |\n{'|---' * len(_HEADS)}|"
_WORDS = {"holds here": "**holds**", "reversed here": "**reversed**", "equivalent to nothing": "no effect"}
_DIRECTIONS = {"equivalent": "the same", "not_lower": "no worse", "not_higher": "no better"}
_JUDGED = HERE.parents[1] / "results" / "published" / "public_tables"
# Claim → the judged table of other people's runs that speaks on it, and the arm there.
_PUBLIC = {
    "max_rl": ("remax_pass8", "maxrl"),
    "drgrpo_accuracy": ("remax_pass8", "drgrpo"),
    "data_solve_rate_band": ("dataflex_math", "diffband"),
    "data_top_advantage": ("dataflex_math", "topk"),
    "data_max_variance": ("dataflex_math", "maxvar"),
    "data_softmax_advantage": ("dataflex_math", "softmax"),
}
_SCORES = {"remax_pass8": "Pass@8", "dataflex_math": "five benchmarks"}
_MAIN = "main, Qwen2.5-7B-Instruct"  # of DataFlex-RL's groups
_ORDER = ["**holds**", "**reversed**", "no effect", "open", "not engaged"]


def _cell(row: pd.Series) -> str:
    """A difference with its interval and its verdict."""
    digits, unit = (2 if row["unit"] == "nats" else 1), "" if row["unit"] == "points" else f" {row['unit']}"
    numbers = f"{row['effect']:+.{digits}f} [{row['low']:+.{digits}f}, {row['high']:+.{digits}f}]".replace("-", "−")
    return f"{numbers}{unit} {_WORDS.get(row['words'], row['words'])}"


def _public(claim: str) -> str:
    """What other people's runs say of a claim, model by model; nothing where none do."""
    if claim not in _PUBLIC:
        return ""
    name, arm = _PUBLIC[claim]
    judged = pd.read_csv(_JUDGED / name / f"{name}.csv")
    judged = judged[(judged["arm"] == arm) & (judged["group"].eq(_MAIN) | (name != "dataflex_math"))]
    scale = 1 if judged["score"].max() > 1 else 100  # DataFlex-RL's table is in per cent
    said = []
    for _, row in judged.iterrows():
        low, high = scale * row["delta_low"], scale * row["delta_high"]
        difference = pd.Series(
            {"effect": scale * row["delta"], "low": low, "high": high, "unit": "points", "words": row["delta_verdict"]}
        )
        said.append(f"{row['group'].removeprefix('main, ')} {_cell(difference)}")
    return f"{_SCORES[name]}: {'; '.join(said)} ([runs](../../results/published/public_tables/{name}))"


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
            _public(claim),
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
