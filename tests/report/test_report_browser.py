"""The page in a headless Chromium, opened from a file without network."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.browser import DESKTOP, HOSTILE, PHONE, Open, expect, expect_accessible, expect_rows
from support.report_runs import make_episode, make_run, make_training, page_of

pytestmark = pytest.mark.browser


def expect_focus(page: Any, text: str) -> None:
    expect(page.locator(":focus")).to_have_text(text)


def test_all_charts_and_rows_are_drawn(open_page: Open, report: Path) -> None:
    page = open_page(report)
    expect(page.locator("#broken")).to_be_hidden()
    expect_rows(page, 66)
    titles = page.locator(".panel h4").all_text_contents()
    assert {"Joint return, held out", "Joint return in training", "Share of time"} <= set(titles)
    expect(page.locator(".panel svg")).to_have_count(len(titles))
    expect(page.locator(".plot .band").first).to_be_attached()


def test_many_long_curves_are_drawn(open_page: Open, tmp_path: Path) -> None:
    run = make_training(tmp_path / "run")
    parts = [f"part/{n}" for n in range(200)]
    rows = [{"type": "step.finished", "step": n + 1, **dict.fromkeys(parts, n)} for n in range(400)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page_of(run, out=tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    expect(page.locator("#curves figure")).to_have_count(200)


def test_html_in_run_texts_is_not_executed(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.fill("#search", "harmed")
    expect_rows(page, 1)
    page.click("#list tbody a")
    expect(page.locator("#episode")).to_contain_text(HOSTILE)
    assert page.evaluate("window.harmed") is None
    expect(page.locator("#episode img")).to_have_count(0)


def test_search_filters_and_order(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.fill("#search", "numbers/2 seed-1")
    expect_rows(page, 8)
    expect(page.locator("#count")).to_have_text("8 of 66 episodes")
    page.select_option("select[aria-label='All steps']", "3")
    expect_rows(page, 4)
    page.fill("#search", "no such word")
    expect(page.locator("#list")).to_be_hidden()
    expect(page.locator("#count")).to_contain_text("None of 66 episodes matches")
    page.fill("#search", "")
    page.select_option("select[aria-label='All steps']", "")
    page.click("#list th button:text('Return')")
    expect(page.locator("#list th[aria-sort]")).to_have_text("Return")
    *returns, unknown = page.locator("#list td[data-label=return]").all_text_contents()
    assert unknown == "–"
    assert returns == sorted(returns, key=lambda text: float(text.split()[0]), reverse=True)


def test_keyboard_shortcuts(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.keyboard.press("/")
    page.keyboard.type("seed-0")
    page.keyboard.press("Enter")
    expect_focus(page, "numbers/0#0")
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    expect_focus(page, "numbers/0#1")
    page.keyboard.press("Enter")
    dialog = page.locator("#episode")
    expect(dialog.locator("h2")).to_contain_text("numbers/0#1")
    page.keyboard.press("j")
    page.keyboard.press("ArrowRight")
    expect(dialog.locator("h2")).to_contain_text("numbers/0#3")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect_focus(page, "numbers/0#3")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect_rows(page, 66)


def test_focus_is_visible(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.keyboard.press("Tab")
    for _ in range(12):
        page.keyboard.press("Tab")
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none", page.evaluate("document.activeElement.outerHTML")


@pytest.mark.parametrize("at", ["", "#episode/0", "#compare/0/16", "#settings"])
@pytest.mark.parametrize(("viewport", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_axe_finds_nothing(
    open_page: Open, report: Path, viewport: dict[str, int], scheme: str, at: str
) -> None:
    expect_accessible(open_page(report, viewport, scheme, at=at))


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE])
def test_result_is_above_the_fold(open_page: Open, report: Path, viewport: dict[str, int]) -> None:
    page = open_page(report, viewport)
    for place in (".results .compared >> nth=0",):
        box = page.locator(place).bounding_box()
        assert box["y"] + box["height"] < viewport["height"], place
    expect(page.locator("#settings > details")).not_to_have_attribute("open", "")


def test_a_phone_shows_the_first_charts_and_folds_the_others(open_page: Open, report: Path) -> None:
    page = open_page(report, PHONE)
    groups = page.locator("details.group")
    states = [groups.nth(n).get_attribute("open") is not None for n in range(groups.count())]
    assert states == [True] + [False] * (len(states) - 1)
    groups.nth(1).locator("summary").press("Enter")
    expect(groups.nth(1).locator(".panel svg").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollHeight") < 10_000


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE, {"width": 320, "height": 600}])
@pytest.mark.parametrize("at", ["", "#episode/0", "#compare/0/16"])
def test_nothing_is_wider_than_the_window(
    open_page: Open, report: Path, viewport: dict[str, int], at: str
) -> None:
    page = open_page(report, viewport, at=at)
    expect(page.locator("#episode")).to_be_visible(visible=bool(at))
    wide = "element => element.scrollWidth - element.clientWidth"
    assert page.evaluate(f"({wide})(document.documentElement)") <= 0
    assert page.evaluate(f"({wide})(document.getElementById('episode'))") <= 0


def test_long_episode_list_is_loaded_while_scrolling(open_page: Open, tmp_path: Path) -> None:
    episodes = [
        make_episode(n, task=f"numbers/{n // 4}", group=n // 4, sample=n % 4, words=20)
        for n in range(1000)
    ]
    page_of(make_run(tmp_path / "run", episodes), out=tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 5_000_000
    page = open_page(tmp_path / "report.html")
    expect(page.locator("#count")).to_have_text("1,000 episodes")
    expect(page.locator("#list tbody tr").nth(999)).not_to_be_attached()
    page.keyboard.press("End")
    page.locator("#list tbody tr").nth(250).wait_for(state="attached")


def test_results_are_visible_without_javascript(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(report.as_uri())
    expect(page.locator("noscript")).to_be_visible()
    expect(page.locator(".results .compared").first).to_be_visible()
    expect(page.locator(".results svg").first).to_be_visible()
    expect(page.locator(".compared table").first).to_be_visible()
    page.click("#settings summary")
    expect(page.locator(".facts").first).to_be_visible()
    context.close()
