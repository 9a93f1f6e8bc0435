"""Every interval on a page stands in a published table, with its estimate, or in the list of those that another command prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("experiments/*/*.md")),
    ROOT / "results" / "README.md",
]
NUMBER = r"[−+-]?\d+(?:\.\d+)?"
ON_A_PAGE = re.compile(rf"({NUMBER})?(?: %| points)? ?\**\[({NUMBER}), ({NUMBER})\]")
IN_A_TEXT = re.compile(
    rf"({NUMBER})(?: points| %)?(?: [\[(](?:95 % interval )?|[^|\d]*\| )({NUMBER})(?:,| to) ({NUMBER})"
)
ELSEWHERE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
Triple = tuple[float, float, float]


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def columns(table: pd.DataFrame) -> Iterator[Triple]:
    """Estimates with their intervals: columns NAME, NAME_low and NAME_high."""
    for name in (low.removesuffix("_low") for low in table.columns if low.endswith("_low")):
        if name in table and f"{name}_high" in table:
            yield from table[[name, f"{name}_low", f"{name}_high"]].dropna().itertuples(index=False, name=None)


@cache
def published() -> list[Triple]:
    """Every estimate with its interval in a published table or text: fractions and points alike, in both directions of a difference."""
    found: list[Triple] = []
    for path in [*ROOT.glob("results/published/**/*"), *ROOT.glob("experiments/*/*.csv")]:
        if path.suffix == ".csv":
            found += columns(pd.read_csv(path))
        if path.suffix in {".csv", ".md"}:
            found += [
                (number(a), number(b), number(c)) for a, b, c in IN_A_TEXT.findall(path.read_text(encoding="utf-8"))
            ]
    return found


def stands(estimate: float | None, low: float, high: float, decimals: int) -> bool:
    """Whether a published triple rounds to this one: turned round, and made points of fractions, where that is needed."""
    tolerance = 0.501 * 10**-decimals
    for scale in (1, -1, 100, -100):
        for middle, *ends in published():
            near = all(
                abs(scale * a - b) <= tolerance
                for a, b in zip(sorted(ends, reverse=scale < 0), (low, high), strict=True)
            )
            if near and (estimate is None or abs(abs(scale * middle) - abs(estimate)) <= tolerance):
                return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_interval_of_a_page_is_published(page: Path) -> None:
    listed = {text for part in ELSEWHERE.get(str(page.relative_to(ROOT)), []) for text in part["numbers"]}
    text, missing = page.read_text(encoding="utf-8"), []
    for match in ON_A_PAGE.finditer(text):
        decimals = max(len(part.partition(".")[2]) for part in match.groups() if part)
        estimate = number(match[1]) if match[1] else None
        if match[0] not in listed and not stands(estimate, number(match[2]), number(match[3]), decimals):
            missing.append(match[0])
    assert not missing, f"in no published table: {missing}"
    assert all(item in text for item in listed), "the list names numbers that the page no longer has"
