"""The README's counts; every experiment and published folder in `results/README.md`; links; pages of the site."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from harness.configuration.compose import options

ROOT = Path(__file__).parents[2]
INDEX = (ROOT / "results" / "README.md").read_text()


@pytest.mark.parametrize("name", options("experiment"))
def test_every_declared_experiment_is_named(name: str) -> None:
    assert f"`{name}`" in INDEX, f"say in results/README.md what became of {name}"


def test_every_published_folder_has_a_row_and_every_row_a_folder() -> None:
    rows = set(re.findall(r"^\| \[`\w+`\]\(published/(\w+)\)", INDEX, re.MULTILINE))
    assert rows == {path.name for path in (ROOT / "results" / "published").iterdir()}


@pytest.mark.parametrize(
    "page",
    sorted(
        [
            *ROOT.glob("*.md"),
            ROOT / "results" / "README.md",
            *ROOT.glob("examples/**/*.md"),
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


def test_the_site_has_every_page_in_its_navigation(tmp_path: Path) -> None:
    """The generator itself checks links and anchors (`make site`); what it is given is made here without it."""
    subprocess.run([sys.executable, ROOT / "docs" / "site" / "pages.py", tmp_path], check=True, cwd=ROOT)
    navigation = str(yaml.safe_load((tmp_path / "mkdocs.yml").read_text())["nav"])
    named = set(re.findall(r"[\w/.-]+\.md", navigation))
    assert [page for page in sorted(named) if not (tmp_path / "pages" / page).exists()] == []
    pages = {
        path.relative_to(ROOT).as_posix()
        for path in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("experiments/*/README.md")]
    }
    assert pages - named == set()
    results = {path.name for path in (ROOT / "results" / "published").iterdir()}
    assert results == set(re.findall(r"published/(\w+)/index\.md", navigation))
    ladder = (tmp_path / "pages" / "results" / "published" / "dapo_ladder" / "index.md").read_text()
    assert ladder.index("differences.png") < ladder.index("| arm | avg@32 %") < ladder.index("## Methods")


TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_counts_are_those_of_the_claims() -> None:
    words = pd.read_csv(ROOT / "experiments" / "claims" / "effects.csv")["words"].str.split().str[0]
    counts = {"claims": len(words), "hold": (words == "holds").sum(), "are reversed": (words == "reversed").sum()}
    assert all(re.search(rf"\b{count} {said}", TEXT) for said, count in counts.items()), counts
