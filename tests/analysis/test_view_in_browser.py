"""The live page in headless Chromium: progress, curves, samples and table come by themselves, and the reader's place stays."""

from __future__ import annotations

import numpy as np
import pytest
from browser import chromium, needs_browser, watched_page
from synthetic_store import build_store, make_samples, step_row
from view_support import SMALL, served

from harness.commands._answer import answer_key, sign_answer

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
        page.wait_for_selector("#progress-line:not(:empty)")  # a click does not wait for it
        yield page


def go_on(store, rng, arm: int, *, finish: bool) -> None:
    """The run of an arm's seed 0 makes the steps it lacks, is evaluated, and ends if it is to `finish`."""
    run = store.run(store.plan("ladder")["arms"][arm]["runs"]["0"])
    for step in range(4, 7):
        run.append_step(step_row(rng, step, 6, 0.9))
    run.write_samples("arithmetic_heldout", 1, 6, make_samples(rng, 0.9, 6, 4, 32))
    if finish:
        run.write_manifest(run.manifest() | {"status": "finished", "error": None})


def test_the_list_has_answers_and_states_sorts_and_follows_the_store(store, rng):
    """Two experiments of one plan; only one has an answer written, and later newer results than it."""
    store.write_plan("a_second", store.plan("ladder") | {"name": "a_second", "title": "Zzz"})
    answer = store.root / "experiments" / "ladder" / "tables" / "answer.md"
    answer.parent.mkdir()
    answer.write_text("All is well.\n- more\n")
    (answer.parents[1] / "report.html").touch()
    sign_answer(store, "ladder", answer_key(store, "ladder"))
    names = "[...document.querySelectorAll('.index tbody a')].map((link) => link.textContent)"
    with served(store.root) as url, chromium() as browser, watched_page(browser, url) as page:
        assert page.evaluate(names) == ["a_second", "ladder"]
        assert "All is well." in page.inner_text(".index")
        assert "1 failed, 2 lost, 1 waiting" in page.inner_text(".index")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.get_attribute(".index th", "aria-sort") == "ascending"
        page.keyboard.press("Enter")
        assert page.evaluate(names) == ["ladder", "a_second"]
        go_on(store, rng, 0, finish=True)
        page.wait_for_function(
            "() => document.querySelector('.index').textContent.includes('(before the newest results)')"
        )
        assert page.evaluate(names) == ["ladder", "a_second"]
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator(".index thead button").first.is_visible()


def wait_for(page, script: str, value=None) -> None:
    page.wait_for_function(script, arg=value)


def test_results_come_by_themselves_and_the_place_stays(store, page, rng):
    assert "1 failed, 2 lost, 1 waiting" in page.inner_text("#progress-line")
    assert SCRIPT in page.inner_text("#progress-open")
    assert "Nothing to compare yet" in page.inner_text("#answer")
    assert "so far, at step 3" in page.text_content("#sample-view")
    page.select_option("#chart-quantity", label="mean reward")
    page.select_option("#chart-axis", label="optimiser updates")
    page.locator("#chart-arms input").first.uncheck()
    page.click("#sample-next")
    page.click("#provenance summary")
    problem = page.inner_text("#sample-position").split()[4]
    page.evaluate("window.mark = 1; document.querySelector('#checks h2').scrollIntoView()")
    top = page.evaluate("document.querySelector('#checks h2').getBoundingClientRect().top")
    points = page.locator("#chart-plot polyline").get_attribute("points")
    for arm in (0, 1):
        go_on(store, rng, arm, finish=True)
    wait_for(page, "() => document.querySelector('#answer .caveat')?.textContent.includes('2 runs of 4')")
    assert page.evaluate("window.mark") == 1  # never loaded again
    moved = page.evaluate("document.querySelector('#checks h2').getBoundingClientRect().top") - top
    assert abs(moved) < 3
    assert page.locator("#chart-quantity option:checked").inner_text() == "mean reward"
    assert page.locator("#chart-axis option:checked").inner_text() == "optimiser updates"
    assert page.locator("#chart-plot polyline").count() == 1
    assert page.locator("#chart-plot polyline").get_attribute("points") != points
    assert page.inner_text("#sample-position").split()[4] == problem
    assert "so far" not in page.inner_text("#sample-view")
    assert page.evaluate("document.querySelector('#provenance details').open") is True
    assert "One seed cannot show" in page.inner_text("#answer .headline")
    assert "+" in page.inner_text("#answer .forest")
    assert page.title().startswith("2/4 ")


def test_progress_and_curves_grow_while_a_run_goes_on(store, page, rng):
    wait_for(page, "() => document.querySelectorAll('#chart-plot polyline').length === 2")
    go_on(store, rng, 0, finish=False)
    wait_for(page, "() => document.querySelector('#progress-open').textContent.includes('6')")
    wait_for(page, "() => document.querySelector('#sample-view').textContent.includes('so far, at step 6')")
    accuracy = "JSON.parse(document.querySelector('#chart-data').textContent).charts[0].axes['rollout steps'].map(l => l.x.at(-1))"
    assert page.evaluate(accuracy) == [6, 3]


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_text_that_is_being_copied_is_left_alone(store, page, rng):
    before = page.inner_text("#answer .headline")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#answer .headline'))")
    for arm in (0, 1):
        go_on(store, rng, arm, finish=True)
    wait_for(page, "() => document.querySelector('#tables caption').textContent.includes('2 runs of 4')")
    assert page.evaluate("getSelection().toString()") == before == page.inner_text("#answer .headline")
    page.evaluate("getSelection().removeAllRanges()")
    wait_for(page, "before => document.querySelector('#answer .headline').textContent !== before", before)


def test_a_server_that_ended_is_said(page):
    page.route("**/*", lambda route: route.abort())
    page.wait_for_selector("#progress-news:not(:empty)")
    assert "start `harness view` again" in page.inner_text("#progress-news")
    page.unroute("**/*")
    wait_for(page, "() => document.querySelector('#progress-news').textContent === ''")
