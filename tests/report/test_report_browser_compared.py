"""An episode on the page, turn by turn, and beside another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.report_runs import page_of
from support.rooms.browser import PHONE, Open, expect, expect_rows

pytestmark = pytest.mark.browser


def test_an_episode_turn_by_turn(open_page: Open, report: Path) -> None:
    page = open_page(report, at="#episode/0")
    turns = page.locator("#episode .turn")
    expect(turns).to_have_count(2)
    first = turns.first
    expect(first.locator(".card h4").nth(0)).to_have_text("aux")
    expect(first.locator(".card h4").nth(1)).to_have_text("main")
    expect(first.locator(".code").first).to_contain_text("def aux(n):")
    expect(first.locator(".code .k").first).to_have_text("def")
    expect(first.locator(".code .proof")).to_have_text("def solve(n):")
    expect(first.locator(".schemes")).to_contain_text("main returns what aux gives, line 5")
    expect(first.locator(".card header").first).to_contain_text("log-prob −")
    first.locator("summary", has_text="Observes").first.click()
    expect(first.get_by_text("Write aux, turn 0.")).to_be_visible()
    expect(first.get_by_text("examples hold.").first).to_be_visible()
    expect(first.locator(".parts")).to_contain_text("syntax")


def test_a_failed_episode_says_why(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.select_option("select[aria-label='All verdicts']", "failed")
    page.click("#list tbody tr")
    dialog = page.locator("#episode")
    expect(dialog.get_by_text("ModelTimeout (model): no answer within 30 s")).to_be_visible()
    page.keyboard.press("Escape")


def test_the_difference_between_turns(open_page: Open, report: Path) -> None:
    page = open_page(report, at="#episode/0")
    page.keyboard.press("d")
    expect(page.locator("#against")).to_have_value("turn")
    second = page.locator("#episode .turn").last
    diff = second.locator(".diff", has_text="solve").first
    expect(diff.locator(".del")).to_have_text("removed:     return aux(n * 2)")
    expect(diff.locator(".add")).to_have_text("added:     return aux(n * 3)")
    expect(diff.locator(".add mark")).to_have_text("3")


def test_the_difference_between_before_and_after(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.click("a.pair >> nth=0")
    dialog = page.locator("#episode")
    expect(dialog).to_contain_text("Before (−)")
    labels = dialog.locator(".columns .card p")
    expect(labels.nth(0)).to_contain_text("step 1")
    expect(labels.nth(1)).to_contain_text("step 5")
    parts = dialog.locator(".parts th[scope=row]")
    expect(parts).to_have_text(["reward", "syntax", "tests"])
    expect(dialog.locator(".diff").first).to_be_attached()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_held_out_episodes_are_filtered(open_page: Open, held_out: Path, tmp_path: Path) -> None:
    page_of(held_out, out=tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    expect_rows(page, 68)
    choices = page.locator("select[aria-label='All phases'] option")
    expect(choices).to_have_text(["All phases", "training", "held out before", "held out after"])
    page.select_option("select[aria-label='All phases']", "held out after")
    expect_rows(page, 18)
    page.select_option("select[aria-label='All modes']", "greedy")
    expect_rows(page, 6)
    expect(page.locator("#list tbody tr").first).to_contain_text("held out after, greedy")
    page.select_option("select[aria-label='All modes']", "")
    page.select_option("select[aria-label='All phases']", "training")
    page.select_option("select[aria-label='All steps']", "8")
    expect_rows(page, 4)


def test_a_held_out_problem_before_and_after(
    open_page: Open, held_out: Path, tmp_path: Path
) -> None:
    page_of(held_out, out=tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    row = page.locator("tr", has=page.locator("th:text-is('numbers/9')"))
    dialog = page.locator("#episode")
    for place, mode in enumerate(("sampled", "greedy")):
        row.locator("a.pair").nth(place).click()
        labels = dialog.locator(".columns .card p")
        for label, steps in enumerate((0, 8)):
            told = f"numbers/9#0, held out after {steps} steps, {mode}"
            expect(labels.nth(label)).to_contain_text(told)
        expect(dialog.locator(".diff").first).to_be_attached()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()


def test_the_other_end_is_of_the_same_sample(
    open_page: Open, held_out: Path, tmp_path: Path
) -> None:
    page_of(held_out, out=tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", PHONE)
    page.fill("#search", "numbers/8#1 before")
    page.click("#list tbody a")
    choice = page.locator("#against option", has_text="before and after training")
    told = "before and after training: numbers/8#1, held out after 8 steps, sampled"
    expect(choice).to_contain_text(told)
    wide = "element => element.scrollWidth - element.clientWidth"
    assert page.evaluate(f"({wide})(document.documentElement)") <= 0


def test_any_two_episodes_of_a_problem_can_be_compared(open_page: Open, report: Path) -> None:
    page = open_page(report, at="#episode/0")
    choice = page.locator("#against option", has_text="numbers/0#2").first
    page.select_option("#against", choice.get_attribute("value"))
    expect(page.locator("#episode .columns").first).to_contain_text("numbers/0#2")
