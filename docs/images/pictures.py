"""Take the pictures of this folder: page, dark and phone (`packed`), index and live view, terminal of 80 columns, paper.

python docs/images/pictures.py [NAME...]       (Linux; Chromium; for `paper` also LaTeX and pip install pypdfium2)

They show what `make ladder` has made, and `packed` published runs; `live` trains three short arms in a copy of the ladder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "results"
HARNESS = [sys.executable, "-m", "harness"]
LIVE = ["run", "-m", "algorithm=grpo,dr_grpo,gspo", "seed=0,1", "training.steps=30", "training.evaluate_every=10"]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1440, "height": 1000}


def shoot(browser: Browser, url: str, name: str, viewport: Any = None, **options: Any) -> None:
    """Write what a window of this size shows first."""
    page = browser.new_page(viewport=viewport or DESK, **options)
    page.goto(url)
    page.wait_for_timeout(500)
    page.screenshot(path=HERE / f"{name}.png")
    page.close()


def report(folder: Path, experiment: str = "dapo_ladder", *overrides: str) -> str:
    """The address of the page of an experiment."""
    command = [*HARNESS, "report", f"experiment={experiment}", "only=page", f"out={folder}", *overrides]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return (folder / "report.html").as_uri()


@contextmanager
def served(*overrides: str) -> Any:
    """The address at which `harness view` answers."""
    command = [*HARNESS, "view", *overrides, "port=0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield (
            next(line for line in server.stdout if "http://" in line)
            .split("http://")[1]
            .split()[0]
            .join(("http://", ""))
        )
        server.terminate()


def page(browser: Browser, folder: Path) -> None:
    """The first screen of the ladder."""
    shoot(browser, report(folder), "page")


def packed(browser: Browser, folder: Path) -> None:
    """The first screen of SmolLM2's ladder, from its packed runs: in the dark, and on a phone."""
    name, store = "language_ladder_gpu", f"runtime.results={folder}"
    pack = ROOT / "results" / "published" / name / "runs.tar.xz"
    subprocess.run([*HARNESS, "merge", str(pack), store], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    url = report(folder / "report", name, store)
    shoot(browser, url, "dark", color_scheme="dark")
    shoot(browser, url, "phone", PHONE)


def live(browser: Browser, folder: Path) -> None:
    """The view of runs that go on, and the list of experiments beside the finished ladder."""
    store = f"runtime.results={folder}"
    subprocess.run([*HARNESS, "merge", str(RESULTS), store], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    subprocess.run(
        [*HARNESS, "report", "experiment=dapo_ladder", store], check=True, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    with subprocess.Popen([*HARNESS, *LIVE, store], cwd=ROOT, stdout=subprocess.DEVNULL) as runs, served(store) as url:
        time.sleep(30)
        shoot(browser, url, "index")
        window = browser.new_page()
        window.goto(url)
        link = window.locator("a", has_text="multirun").first.get_attribute("href")
        shoot(browser, f"{url.rstrip('/')}/{str(link).lstrip('/')}", "live")
        runs.terminate()


def terminal(browser: Browser, folder: Path) -> None:
    """The answer of `harness report` in 80 columns."""
    command = " ".join([*HARNESS, "report", "experiment=dapo_ladder", "only=table"])
    wide = f"stty cols 80; {command}"
    printed = subprocess.run(
        ["script", "-qec", wide, "/dev/null"],
        check=True,
        cwd=ROOT,
        capture_output=True,
        env={**os.environ, "TERM": "xterm-256color"},
    ).stdout.decode()
    console = Console(record=True, width=80, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text("$ harness report experiment=dapo_ladder"), Text.from_ansi(printed.replace("\r", "")), sep="\n")
    text = folder / "terminal.html"
    text.write_text(console.export_html(inline_styles=True), encoding="utf-8")
    shoot(browser, text.as_uri(), "terminal", {"width": 860, "height": 850})


def paper(browser: Browser, folder: Path) -> None:
    """The first page of examples/paper."""
    import pypdfium2

    subprocess.run(["make", "-s", "paper"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    document = pypdfium2.PdfDocument(ROOT / "examples" / "paper" / "paper.pdf")
    document[0].render(scale=1.6).to_pil().save(HERE / "paper.png")


def main(names: list[str]) -> None:
    pictures: dict[str, Callable[[Browser, Path], None]] = {
        "page": page,
        "packed": packed,
        "live": live,
        "terminal": terminal,
        "paper": paper,
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        for name in names or pictures:
            with tempfile.TemporaryDirectory() as folder:
                pictures[name](browser, Path(folder))
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
