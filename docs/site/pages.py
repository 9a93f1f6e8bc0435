"""Gather the pages of the site in a folder: the repository's at their own places, what they link to, published results, the reference.

python docs/site/pages.py OUT          writes OUT/pages and OUT/mkdocs.yml, which `make site` gives to the generator
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml
from keys_page import page

import analysis
from harness.commands.keys import all_keys

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = "results/published"
KEYS = "docs/keys.md"  # on the site alone: made from the code
SOURCES = (
    "README.md",
    "CONTRIBUTING.md",
    "harness/README.md",
    "CHANGELOG.md",
    "docs/**/*.md",
    "experiments/**/*.md",
    "results/README.md",
)
CODE = {".py": "python", ".yaml": "yaml", ".sh": "bash", ".tex": "latex", ".toml": "toml"}
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"  # tables and code, so that search finds the page that explains
FIRST = ("differences", "ladder", "grid", "interactions", "transfer")  # figures that are the answer
LINK = re.compile(r"(\]\()(?!\w+:|#|/)([^)\s#]+)((?:#[^)\s]*)?\))")
PICTURE = re.compile(r'<img src="(?!\w+:)([^"]+)"')


class Site:
    """The pages by their places in the repository; ``reports`` has a folder for each experiment whose runs are packed."""

    def __init__(self, out: Path) -> None:
        self.pages, self.reports = out / "pages", out / "reports"
        self.written: set[str] = set()

    def write(self) -> None:
        """Write every page, and whatever is reached from one by links."""
        waiting = [name for glob in SOURCES for name in _names(ROOT.glob(glob))]
        waiting += [f"{PUBLISHED}/{name}/index.md" for name in _published()]
        waiting += [f"api/{module}.md" for module in _modules()]
        waiting.append(KEYS)
        while waiting:
            name = waiting.pop()
            if name in self.written:
                continue
            self.written.add(name)
            file = self.pages / name
            file.parent.mkdir(parents=True, exist_ok=True)
            text = self._text(name)
            if text is None:
                shutil.copyfile(self._source(name), file)
                continue
            if Path(name).with_suffix("").suffix in CODE:
                file.write_text(text)
                continue
            file.write_text(LINK.sub(lambda found, here=name: _relinked(here, found), text))
            waiting += [_target(name, found[1]) for found in LINK.findall(text)]
            waiting += [_target(name, found) for found in PICTURE.findall(text)]

    def _text(self, name: str) -> str | None:
        """The text of a page; None for a picture, a table or whatever else is copied."""
        path = ROOT / name
        if name == KEYS:
            return "\n".join(page(all_keys())) + "\n"
        if name.startswith("api/"):
            return _reference(name.removeprefix("api/").removesuffix(".md"))
        if path.exists():
            text = path.read_text() if path.suffix == ".md" else None
            return text + _figures_of(name, text) if text and path.parent.parent == ROOT / "experiments" else text
        if name.endswith("/index.md"):
            published = path.parent.parent == ROOT / PUBLISHED
            return self._results(path.parent) if published else _listing(path.parent)
        code = path.with_suffix("")  # x.py of x.py.md
        if name.endswith(".md") and code.suffix in CODE:
            return f"{UNSEARCHED}# {code.name}\n\n````{CODE[code.suffix]}\n{code.read_text()}\n````\n"
        return None

    def _source(self, name: str) -> Path:
        made = self.reports / Path(name).parent.name / "report.html"
        return made if name.endswith("/report.html") and not (ROOT / name).exists() else ROOT / name

    def _results(self, folder: Path) -> str:
        """A page for published results: the answer, the report to click through, figures, tables, methods."""
        parts = [f"{UNSEARCHED}# {_asked(folder.name)}"]
        if (self.reports / folder.name / "report.html").exists():
            parts.append(
                "**[Open the report](report.html)**: curves, samples and provenance, as `harness report` writes it."
            )
        answer, methods = folder / "tables" / "answer.md", folder / "methods" / "methods.md"
        if answer.exists():
            headline, *rest = answer.read_text().strip().split("\n")
            parts += [headline, "\n".join(rest)]
        further = [f"[{path.name}]({path.name})" for path in sorted(folder.glob("*.md"))]
        parts += [f"Also: {', '.join(further)}."] * bool(further)
        figures = sorted(
            [*folder.glob("*.png"), *folder.glob("figures/**/*.png")], key=lambda path: path.stem not in FIRST
        )
        tables = sorted(folder.glob("tables/*.md"), key=lambda path: (path.stem != folder.name, path.stem))
        first = sum(path.stem in FIRST for path in figures)
        parts += [_figure(path, folder) for path in figures[:first]]
        parts += [_table(path) for path in tables if path != answer]
        parts += [f"## Methods\n\n{methods.read_text()}"] if methods.exists() else []
        parts += ["## Further figures"] * (len(figures) > first)
        parts += [_figure(path, folder) for path in figures[first:]]
        return "\n\n".join(part for part in parts if part) + "\n"


def _relinked(here: str, found: re.Match[str]) -> str:
    """Let a link to a folder or to code lead to the page that stands for it."""
    return f"{found[1]}{posixpath.relpath(_target(here, found[2]), posixpath.dirname(here) or '.')}{found[3]}"


def _target(page: str, link: str) -> str:
    """The file of the site that a relative link of a page means; links out of the repository are an error."""
    name = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    path = ROOT / name
    if path.is_dir():
        return f"{name}/README.md" if (path / "README.md").exists() else f"{name}/index.md"
    if (not path.exists() and not link.endswith("report.html")) or name.startswith(".."):
        raise SystemExit(f"{page}: the link {link} leads nowhere")
    return f"{name}.md" if path.suffix in CODE else name


def _reference(module: str) -> str:
    """A page of the reference; the front of the analysis shows what it exports, wherever that is written."""
    shown = f"    options: {{members: {analysis.__all__}}}\n" if module == "analysis" else ""
    return f"::: {module}\n{shown}"


def _listing(folder: Path) -> str:
    """A page for a folder: its files that can be shown."""
    shown = [path.name for path in sorted(folder.iterdir()) if path.suffix in {*CODE, ".md"} and path.name[0] != "_"]
    return f"# {folder.relative_to(ROOT).as_posix()}\n\n" + "".join(f"- [{name}]({name})\n" for name in shown)


def _figures_of(page: str, text: str) -> str:
    """The figures of the answers that an experiment's page links to, below it."""
    linked = [Path(_target(page, found[1])).parts for found in LINK.findall(text)]
    folders = dict.fromkeys(parts[2] for parts in linked if parts[:2] == ("results", "published"))
    parts = []
    for folder in (ROOT / PUBLISHED / name for name in folders):
        shown = [path for path in (*folder.glob("*.png"), *folder.glob("figures/*.png")) if path.stem in FIRST]
        shown = [path for path in sorted(shown) if path.relative_to(ROOT).as_posix() not in text]
        if shown:
            here = ROOT / page
            parts.append(f"### [{folder.name}]({os.path.relpath(folder, here.parent)})")
            parts += [_figure(path, here.parent) for path in shown]
    return "\n\n## Figures\n\n" + "\n\n".join(parts) + "\n" if parts else ""


def _figure(path: Path, folder: Path) -> str:
    """A figure, 120 of its pixels (200 an inch) to an inch of the screen."""
    width = int.from_bytes(path.read_bytes()[16:20], "big")
    return f'![{path.stem}]({os.path.relpath(path, folder)}){{width="{0.6 * width:.0f}"}}'


def _table(path: Path) -> str:
    """A table's text, its title as a heading."""
    title, _, rest = path.read_text().strip().partition("\n")
    return f"## {title.strip('#* ')}\n\n{rest.strip()}"


def _names(paths: Iterator[Path]) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def _published() -> list[str]:
    return sorted(path.name for path in (ROOT / PUBLISHED).iterdir() if path.is_dir())


def _title(page: Path) -> str:
    """The first heading of a page."""
    return page.read_text().partition("\n")[0].removeprefix("# ")


def _asked(published: str) -> str:
    """The title that the experiment of published results declares; the folder's name where it is none's."""
    declared = ROOT / "conf" / "experiment" / f"{published}.yaml"
    return str(yaml.safe_load(declared.read_text())["experiment"]["title"]) if declared.exists() else published


def _modules() -> list[str]:
    """The modules of the reference: the front of the analysis, and every room of the harness but the verbs of its command."""
    rooms = {path.parent.name for path in ROOT.glob("harness/*/__init__.py")} - {"commands"}
    return ["analysis", *sorted(f"harness.{room}" for room in rooms)]


def navigation(entries: object) -> object:
    """Replace the names of folders in the navigation of mkdocs.yml by their pages."""
    if isinstance(entries, list):
        return [navigation(entry) for entry in entries]
    if isinstance(entries, dict):
        return {title: navigation(inside) for title, inside in entries.items()}
    if entries == "docs/objective":
        return _names((ROOT / "docs/objective").glob("*.md"))
    if entries == "experiments":
        return [{_title(ROOT / name): name} for name in _names(ROOT.glob("experiments/*/README.md"))]
    if entries == "results":
        return ["results/README.md", *({_asked(name): f"{PUBLISHED}/{name}/index.md"} for name in _published())]
    if entries == "api":
        return [{module: f"api/{module}.md"} for module in _modules()]
    return entries


def main(out: Path) -> None:
    """Write the pages, and the generator's configuration with the whole navigation."""
    shutil.rmtree(out / "pages", ignore_errors=True)
    Site(out).write()
    shutil.copyfile(ROOT / "docs" / "site" / "site.css", out / "pages" / "site.css")
    config = yaml.safe_load((ROOT / "docs" / "site" / "mkdocs.yml").read_text())
    config["nav"] = navigation(config["nav"])
    config |= {"docs_dir": "pages", "site_dir": "site"}
    config["plugins"][-1]["mkdocstrings"]["handlers"]["python"]["paths"] = [os.path.relpath(ROOT, out)]
    (out / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
