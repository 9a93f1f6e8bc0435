"""The live page in headless Chromium: it loads itself again where the store changed, and what was unfolded stays so."""

from __future__ import annotations

import numpy as np
import pytest
from browser import chromium, needs_browser, watched_page
from synthetic_store import build_store, make_samples, step_row
from view_support import SMALL, served

pytestmark = needs_browser
SCRIPT = "</script><script>window.stolen=1</script><img src=x onerror='window.stolen=2'>"


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
def page(store):
    with served(store.root) as url, chromium() as browser, watched_page(browser, url) as page:
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


def test_results_come_by_themselves_and_what_was_unfolded_stays_so(store, page):
    assert SCRIPT in page.inner_text("#progress")
    assert "Nothing to compare yet" in page.inner_text("#answer")
    page.click("#provenance summary")
    page.evaluate("window.mark = 1; document.querySelector('#checks h2').scrollIntoView()")
    top = page.evaluate("scrollY")
    for arm in (0, 1):
        finish(store, arm)
    page.wait_for_function("() => document.querySelector('#answer .caveat')?.textContent.includes('2 runs of 4')")
    assert page.evaluate("window.mark") is None  # loaded again
    assert page.evaluate("document.querySelector('#provenance details').open") is True
    assert page.evaluate("document.querySelector('#cost details').open") is False
    assert page.evaluate("scrollY") > top / 2
    assert "One seed cannot show" in page.inner_text("#answer .headline")


def test_text_that_is_being_copied_is_left_alone(store, page):
    before = page.inner_text("#answer .headline")
    page.evaluate("window.mark = 1; getSelection().selectAllChildren(document.querySelector('#answer .headline'))")
    for arm in (0, 1):
        finish(store, arm)
    page.wait_for_timeout(5000)
    assert page.evaluate("[window.mark, getSelection().toString()]") == [1, before]
    page.evaluate("getSelection().removeAllRanges()")
    page.wait_for_function("before => document.querySelector('#answer .headline').textContent !== before", arg=before)


def test_a_server_that_ended_is_said(page):
    page.route("**/*", lambda route: route.abort())
    page.wait_for_selector("body.stale")
    page.unroute("**/*")
    page.wait_for_selector("body:not(.stale)")
