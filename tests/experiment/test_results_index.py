"""`results/README.md` names every declared experiment, answered or not, and every published folder; its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.configuration.compose import options

ROOT = Path(__file__).parents[2]
INDEX = (ROOT / "results" / "README.md").read_text()


@pytest.mark.parametrize("name", options("experiment"))
def test_every_declared_experiment_is_named(name: str) -> None:
    assert re.search(rf"`(published/)?{name}`", INDEX), f"say in results/README.md what became of {name}"


def test_every_published_folder_has_a_row_and_every_row_a_folder() -> None:
    rows = set(re.findall(r"^\| `published/(\w+)`", INDEX, re.MULTILINE))
    assert rows == {path.name for path in (ROOT / "results" / "published").iterdir()}


@pytest.mark.parametrize(
    "page",
    sorted(
        [
            ROOT / "README.md",
            ROOT / "results" / "README.md",
            *ROOT.glob("experiments/*/*.md"),
            *ROOT.glob("docs/**/*.md"),
        ]
    ),
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_relative_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    broken = [link for link in local if not (page.parent / link).exists()]
    assert not broken, f"{page.name}: {broken}"
