"""Pages in headless Chromium: hostile text stays text, all works by mouse and keyboard, and the live page loads itself again."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import sync_playwright
from synthetic_store import build_store, loaded, make_samples, step_row
from view_support import SMALL, served

from analysis.html.page import render_page
from analysis.tables.table import write_texts
from harness.store.foreign_text import visible

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.optional,
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine"),
]
SCRIPT = "</script><script>window.stolen=1;alert(1)</script><img src=x onerror='window.stolen=2'><svg onload=alert(3)>"
BOMB = r"\def\x{\x\x}\x \input{/etc/passwd} $\frac{1}{0}$ \write18{rm -rf /}"
CONTROL = "bell\x07 escape\x1b[31m delete\x7f override\u202etxt.exe line\u2028separator zero\u200bwidth"
ATTACK = f"{SCRIPT}\n{BOMB}\n{CONTROL}"


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("hostile")
    rungs = [("a", f"first {SCRIPT}", 0.4, 1.0), ("b", f"second {BOMB}", 0.8, 1.0)]
    told = {"title": f"Title {SCRIPT}", "question": ATTACK}
    store = build_store(root, rungs=rungs, seeds=(0, 1), problems=6, n=4, steps=6, evaluate=(0, 6), **told)
    for arm in store.plan("ladder")["arms"]:
        run = store.run(arm["runs"]["0"])
        samples = run.samples("arithmetic_heldout", 6)
        samples["response"] = ATTACK
        samples["answer"] = SCRIPT
        run.write_samples("arithmetic_heldout", 1, 6, samples)
    return write_texts(root, {"report.html": render_page(loaded(root), root)})[0]


@contextmanager
def watched_page(browser, address: str) -> Iterator:
    """The open page; afterwards fails on any script that was injected, script error, dialog or request to another place."""
    here = ("file://" if address.startswith("file://") else address, "data:")
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(30_000)
    page = context.new_page()
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda said: trouble.append(said.text) if _of_a_script(said) else None)
    page.on("request", lambda asked: None if asked.url.startswith(here) else trouble.append(asked.url))
    page.goto(address)
    yield page
    assert page.evaluate("window.stolen") is None
    context.close()
    assert trouble == []


def _of_a_script(said) -> bool:
    """Not the browser's own line about a request that a test has stopped."""
    return said.type == "error" and "net::ERR_FAILED" not in said.text


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield one
        one.close()


@pytest.fixture
def page(browser, path):
    with watched_page(browser, path.as_uri()) as page:
        yield page


def unfold(page) -> None:
    page.evaluate("document.querySelectorAll('main > section > details').forEach((part) => { part.open = true; })")


def test_hostile_text_is_shown_as_text(page):
    unfold(page)
    assert SCRIPT in page.inner_text("h1")
    assert page.locator("img[src='x'], svg[onload]").count() == 0
    shown = page.locator(".sample-arm pre").first.text_content()
    assert visible(shown) == visible(ATTACK)
    assert BOMB in page.locator("#tables").inner_text()


def test_chart_and_samples_work_with_the_mouse(page):
    unfold(page)
    page.select_option("#chart-quantity", label="mean reward")
    page.select_option("#chart-axis", label="generated tokens (discarded included)")
    assert page.locator("#chart-plot polyline").count() == page.locator("#chart-twin polyline").count() == 2
    page.locator("#chart-arms input").first.uncheck()
    assert page.locator("#chart-plot polyline").count() == 1
    assert page.locator("#chart-plot polygon").count() == 1
    page.uncheck("#chart-bands")
    assert page.locator("#chart-plot polygon").count() == 0
    page.locator("#chart-plot").scroll_into_view_if_needed()
    box = page.locator("#chart-plot").bounding_box()
    x, y = box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.5
    page.mouse.move(x, y)
    assert "second" in page.inner_text("#chart-tip")
    before = page.locator("#chart-plot polyline").get_attribute("points")
    page.mouse.down()
    page.mouse.move(x + 200, y)
    page.mouse.up()
    assert page.locator("#chart-plot polyline").get_attribute("points") != before
    page.click("#chart-reset")
    assert page.locator("#chart-plot polyline").get_attribute("points") == before
    first = page.inner_text("#sample-position")
    page.click("#sample-next")
    assert page.inner_text("#sample-position") != first
    page.click("#sample-previous")
    assert page.inner_text("#sample-position") == first
    options = page.locator("#sample-filter option").count()
    for index in range(options):
        page.select_option("#sample-filter", index=index)
        assert page.inner_text("#sample-position")


def test_everything_is_reached_and_used_by_keyboard(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#tables summary")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('#tables details').open")
    unfold(page)
    controls = page.evaluate(
        """() => [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
          .filter((e) => e.checkVisibility({ contentVisibilityAuto: true })).map((e, i) => { e.dataset.place = i; return i; })"""
    )
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.focus(".skip")
    reached, unmarked = {page.evaluate("document.activeElement.dataset.place")}, set()
    for _ in controls:
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.place"))
        if page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "none":
            unmarked.add(page.evaluate("document.activeElement.outerHTML.slice(0, 80)"))
    assert {str(place) for place in controls} <= reached
    assert not [tag for tag in unmarked if not tag.startswith("<body")]
    page.focus("#chart-plot")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    told = page.inner_text("#chart-tip")
    assert "rollout steps" in told
    page.keyboard.press("+")
    page.keyboard.press("Escape")
    assert page.inner_text("#chart-tip") == ""
    page.focus("#sample-next")
    page.keyboard.press("Enter")
    assert "Problem 2" in page.inner_text("#sample-position")


def test_what_a_screen_reader_needs_is_there(page):
    problems = page.evaluate(
        """() => {
          const named = (e) => e.labels?.length || e.textContent.trim()
            || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby');
          return [
            ...[...document.querySelectorAll('button, select, input, [role], section')].filter((e) => !named(e) && e.id !== 'chart-tip')
              .map((e) => e.outerHTML.slice(0, 90)),
            ...[...document.querySelectorAll('img')].filter((e) => !e.alt).map(() => 'img without alt'),
            ...[...document.querySelectorAll('table')].filter((e) => e.querySelector('th') && !e.querySelector('th[scope]'))
              .map(() => 'table without scope'),
          ];
        }"""
    )
    assert problems == []
    assert page.locator("[aria-live]").count() >= 2
    assert page.evaluate("document.documentElement.lang") == "en"
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((e) => +e.tagName[1])")
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_the_answer_is_on_the_first_screen_and_three_screens_hold_all_but_the_details(
    page, results, ladder_root, tmp_path
):
    page.goto(write_texts(tmp_path, {"report.html": render_page(results, ladder_root)})[0].as_uri())
    page.set_viewport_size({"width": 1240, "height": 1000})
    page.reload()
    headline = page.locator("#answer .headline").bounding_box()
    assert headline["y"] + headline["height"] < 400
    assert page.locator("#answer .forest svg").last.bounding_box()["y"] < 1000
    assert page.locator("#tables").bounding_box()["y"] < 3000
    assert page.locator("section > details[open]").count() == 0
    assert page.evaluate("document.documentElement.scrollHeight") < 3300
    page.click("nav a[href='#provenance']")
    assert page.locator("#provenance > details[open]").count() == 1


def test_dark_and_narrow_screens_are_readable(page):
    unfold(page)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 800})
    colours = page.evaluate(
        "(() => { const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]; })()"
    )
    light, dark = (sum(int(part) for part in c[4:-1].split(",")) for c in colours)
    assert light - dark > 500
    page.emulate_media(color_scheme="light")
    # Tables scroll in their own box.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 695, "height": 1000})  # A4 without its margins, where nothing scrolls
    right = "Math.max(...[...document.querySelectorAll('table')].map((e) => e.getBoundingClientRect().right))"
    assert page.evaluate(right) <= 695
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.fixture
def store(tmp_path):
    """Two arms of which nothing has finished; names and errors are hostile."""
    rungs = [("a", f"first {SCRIPT}", 0.4, 1.0), ("b", "second", 0.8, 1.0)]
    missing = [((0, 0), "running"), ((0, 1), "not started"), ((1, 0), "running"), ((1, 1), "failed")]
    made = build_store(tmp_path, **SMALL | {"rungs": rungs}, missing=missing)
    failed = made.run(made.plan("ladder")["arms"][1]["runs"]["1"])
    failed.write_manifest(failed.manifest() | {"error": f"Traceback\n{SCRIPT}"})
    return made


@pytest.fixture
def live(browser, store):
    with served(store.root) as url, watched_page(browser, url) as page:
        page.click("a[href='ladder']")
        page.wait_for_selector("#progress table")  # a click does not wait for it
        yield page


def finish(store, arm: int) -> None:
    """The run of an arm's seed 0 makes the steps it lacks, is evaluated, and ends."""
    run, rng = store.run(store.plan("ladder")["arms"][arm]["runs"]["0"]), np.random.default_rng(arm)
    for step in range(4, 7):
        run.append_step(step_row(rng, step, 6, 0.9))
    run.write_samples("arithmetic_heldout", 1, 6, make_samples(rng, 0.9, 6, 4, 32))
    run.write_manifest(run.manifest() | {"status": "finished", "error": None})


def test_results_come_by_themselves_and_what_was_unfolded_stays_so(store, live):
    assert SCRIPT in live.inner_text("#progress")
    assert "Nothing to compare yet" in live.inner_text("#answer")
    live.click("#provenance summary")
    live.evaluate("window.mark = 1; document.querySelector('#checks h2').scrollIntoView()")
    top = live.evaluate("scrollY")
    for arm in (0, 1):
        finish(store, arm)
    live.wait_for_function("() => document.querySelector('#answer .caveat')?.textContent.includes('2 runs of 4')")
    assert live.evaluate("window.mark") is None  # loaded again
    assert live.evaluate("document.querySelector('#provenance details').open") is True
    assert live.evaluate("document.querySelector('#configuration details').open") is False
    assert live.evaluate("scrollY") > top / 2
    assert "One seed cannot show" in live.inner_text("#answer .headline")


def test_text_that_is_being_copied_is_left_alone(store, live):
    before = live.inner_text("#answer .headline")
    live.evaluate("window.mark = 1; getSelection().selectAllChildren(document.querySelector('#answer .headline'))")
    for arm in (0, 1):
        finish(store, arm)
    live.wait_for_timeout(5000)
    assert live.evaluate("[window.mark, getSelection().toString()]") == [1, before]
    live.evaluate("getSelection().removeAllRanges()")
    live.wait_for_function("before => document.querySelector('#answer .headline').textContent !== before", arg=before)


def test_a_server_that_ended_is_said(live):
    live.route("**/*", lambda route: route.abort())
    assert live.wait_for_selector("body.stale")
    live.unroute("**/*")
    assert live.wait_for_selector("body:not(.stale)")
