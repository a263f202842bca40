"""A page in a headless Chromium, and what is expected of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOSTILE = "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>"

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
"""Viewports, in pixels."""

Open = Callable[..., Any]


def expect(locator: Any) -> Any:
    """Waits for what it is asked: a page answers an event after the call that made it."""
    from playwright.sync_api import expect

    return expect(locator)


def expect_rows(page: Any, count: int) -> None:
    expect(page.locator("#list tbody tr")).to_have_count(count)
