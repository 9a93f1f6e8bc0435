"""Headless Chromium for pages of ours, where playwright and the browser are there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import sync_playwright

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = [
    pytest.mark.optional,
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine"),
]


@contextmanager
def chromium() -> Iterator:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


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
