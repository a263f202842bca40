"""The list of runs in a headless Chromium: open, compare and follow, by keyboard only."""

import json
import re
from pathlib import Path

import pytest
from support.browser import DESKTOP, PHONE, Open, expect, expect_accessible, expect_rows
from support.report_runs import make_training

from collab.runs.about import this_process

pytestmark = pytest.mark.browser


def test_list_open_and_compare_by_keyboard(open_page: Open) -> None:
    page = open_page()
    expect_rows(page, 5)
    page.keyboard.press("/")
    page.keyboard.type("seed")
    expect_rows(page, 2)
    expect(page.locator("#count")).to_have_text("2 of 5 runs")
    page.keyboard.press("Enter")
    expect(page.locator(":focus")).to_have_text(re.compile("seed-"))
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#compare")).to_have_text("Compare 2 runs")
    page.keyboard.press("c")
    page.wait_for_selector("html[data-ready] .results")
    expect(page.locator("#overview")).to_contain_text("mean of 2 seeds")
    page.go_back()
    page.wait_for_selector("html[data-ready] #list")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready] .results")
    expect(page.locator("h1")).to_contain_text(re.compile("seed-|played|hostile|inner"))
    page.locator(".home a").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready] #list")


def test_html_in_run_texts_is_not_executed(open_page: Open) -> None:
    page = open_page()
    expect(page.locator("#list")).to_contain_text("window.harmed")
    assert page.evaluate("window.harmed") is None


@pytest.mark.parametrize("at", ["", "report?run=seed-0", "report?run=seed-0&run=seed-1"])
@pytest.mark.parametrize(("viewport", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_page_is_accessible_and_not_too_wide(
    open_page: Open, at: str, viewport: dict[str, int], scheme: str
) -> None:
    page = open_page(at, viewport, scheme)
    expect_accessible(page)
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0


def test_running_run_appears_and_is_updated(open_page: Open, runs: Path) -> None:
    page = open_page()
    expect_rows(page, 5)
    run = make_training(runs / "new", steps=4)
    about = {**json.loads((run / "run.json").read_text()), "status": "running"}
    (run / "run.json").write_text(json.dumps({**about, "process": this_process()}))
    row = page.locator("tr[data-name=new]")
    expect(row).to_contain_text("running")
    row.locator("a.open").click()
    page.wait_for_selector("html[data-ready] .results")
    page.click("#settings > details > summary")
    with (run / "metrics.jsonl").open("a") as stream:
        stream.write('{"type": "step.finished", "step": 5, "return/mean": 3.21}\n')
    panel = page.locator(".panel", has=page.locator("h4:text-is('Joint return in training')"))
    expect(panel.locator(".legend")).to_contain_text("3.21", timeout=30_000)
    expect(page.locator("#settings > details")).to_have_attribute("open", "")
