"""Pages in a headless Chromium, and checks of them."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
HOSTILE = "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>"

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
"""Viewports, in pixels."""

Open = Callable[..., Any]


def expect(locator: Any) -> Any:
    """An `expect` that waits, because a page handles events asynchronously."""
    from playwright.sync_api import expect

    return expect(locator)


def expect_rows(page: Any, count: int) -> None:
    expect(page.locator("#list tbody tr")).to_have_count(count)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, from the variable CHROMIUM or the search path."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        pytest.fail("needs chromium: install it, or name one with CHROMIUM=PATH")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS])
        yield started
        started.close()


def expect_accessible(page: Any) -> None:
    """Check that axe-core finds no violation on the current page."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    violations = [f"{v['id']}: {v['help']}: {v['nodes'][0]['html'][:200]}" for v in found]
    assert violations == []


@contextmanager
def opened_pages(browser: Any, place: str, **options: Any) -> Iterator[Open]:
    """Open addresses; at the end, check for no errors and no requests outside `place`."""
    contexts, errors, requested = [], [], []

    def open_address(
        address: str, viewport: dict[str, int] = DESKTOP, scheme: str = "light"
    ) -> Any:
        context = browser.new_context(viewport=viewport, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_address
    for context in contexts:
        context.close()
    assert errors == []
    assert [url for url in requested if not url.startswith(place)] == []
