"""`results/README.md` names every declared experiment and every published folder; links lead somewhere; the site has all pages."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

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


def test_every_published_comparison_of_fewer_than_eight_seeds_is_listed_as_such() -> None:
    section = INDEX.partition("## Fewer than eight seeds")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    few = {"all_systems_rates"}  # a choice, published without tables
    for costs in (ROOT / "results" / "published").glob("*/tables/cost.csv"):
        with costs.open(newline="", encoding="utf-8") as file:
            if min(int(row["seeds"].split("/")[0]) for row in csv.DictReader(file)) < 8:
                few.add(costs.parents[1].name)
    assert set(re.findall(r"`(\w+)`", "".join(rows))) == few


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


# ---- published numbers beside the experiments ----

COLUMNS = ["arm", "metric", "value", "unit", "seeds", "protocol", "source"]


@pytest.mark.parametrize("name", ["dapo_ladder", "vapo", "dr_grpo", "deepseekmath", "olmo3", "scale_rl"])
def test_reference_numbers_name_protocol_and_source(name):
    with (ROOT / "experiments" / name / "reference.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert list(rows[0]) == COLUMNS
    for row in rows:
        float(row["value"])
        assert int(row["seeds"]) >= 1
        assert re.search(r"\[(P|S|C|I)(/S)?\]", row["source"]), row
        assert all(row[column] for column in COLUMNS)
    if name == "dapo_ladder":
        assert [float(row["value"]) for row in rows] == [30, 36, 38, 41, 42, 50, 47, 44, 50, 52]
