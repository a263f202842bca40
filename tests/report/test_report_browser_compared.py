"""An episode on the page, turn by turn, and next to another one."""

import re
from pathlib import Path

import pytest
from support.browser import Open, expect
from support.report_runs import make_episode, make_run, page_of

pytestmark = pytest.mark.browser


def test_episode_is_shown_turn_by_turn(open_page: Open, report: Path) -> None:
    page = open_page(report, at="#episode/0")
    turns = page.locator("#episode .turn")
    expect(turns).to_have_count(2)
    first = turns.first
    expect(first.locator(".stages h4").nth(0)).to_have_text(re.compile("^aux"))
    expect(first.locator(".stages h4").nth(1)).to_have_text(re.compile("^main"))
    expect(first.locator(".code").first).to_contain_text("def aux(n):")
    expect(first.locator(".code .k").first).to_have_text("def")
    expect(first.locator(".stages header").first).to_contain_text("log-prob −")
    first.locator("summary", has_text="Observes").first.click()
    expect(first.get_by_text("Write aux, turn 0.")).to_be_visible()
    expect(first.get_by_text("examples hold.").first).to_be_visible()
    expect(first.locator(".parts")).to_contain_text("syntax")


def test_problem_comes_first_and_the_reward_beside_the_work(open_page: Open, report: Path) -> None:
    page = open_page(report, at="#episode/0")
    expect(page.locator("#episode .problem")).to_contain_text("as aux was asked")
    expect(page.locator("#episode .problem pre")).to_have_text("Write aux, turn 0.")
    turn = page.locator("#episode .turn").first
    reward, work = turn.locator("aside").bounding_box(), turn.locator(".works").bounding_box()
    assert reward["x"] + reward["width"] < work["x"]
    assert abs(reward["y"] - work["y"]) < 2
    assert turn.locator("aside ~ .works").count() == 1, (
        "the reward is before the work in the document"
    )


def test_agents_of_a_sequence_are_drawn_one_by_one(open_page: Open, tmp_path: Path) -> None:
    episode = make_episode(1)
    first, *rest = episode.turns
    aux, main = first.decisions
    decisions = (aux, main.model_copy(update={"round": 1, "saw": ("aux",)}))
    turns = (first.model_copy(update={"decisions": decisions}), *rest)
    run = make_run(tmp_path / "run", [episode.model_copy(update={"turns": turns})])
    page_of(run, out=tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", at="#episode/0")
    turns_shown = page.locator("#episode .turn")
    stages = turns_shown.first.locator(".stages > li")
    expect(stages.locator("h4")).to_have_text([re.compile("^1aux"), re.compile("^2main")])
    above, below = (stages.nth(n).bounding_box() for n in range(2))
    assert above["y"] + above["height"] < below["y"]
    expect(stages.nth(1)).to_contain_text("sees aux")
    parallel = turns_shown.last.locator(".stages > li")
    expect(parallel).to_have_count(1)
    expect(parallel.locator(".order")).to_have_count(0)
    first_card, second_card = (parallel.locator(".card").nth(n).bounding_box() for n in range(2))
    assert abs(first_card["y"] - second_card["y"]) < 2


def test_the_difference_between_turns(open_page: Open, report: Path) -> None:
    page = open_page(report, at="#episode/0")
    page.keyboard.press("d")
    expect(page.locator("#against")).to_have_value("turn")
    second = page.locator("#episode .turn")
    expect(second).to_have_count(1)
    expect(second.locator("h3")).to_contain_text("Turn 2")
    expect(page.locator("#episode [role=status]")).to_have_text("Compared with the turn before")
    diff = second.locator(".diff", has_text="solve").first
    expect(diff.locator(".del")).to_have_text("removed:     return aux(n * 2)")
    expect(diff.locator(".add")).to_have_text("added:     return aux(n * 3)")
    expect(diff.locator(".add mark")).to_have_text("3")


def test_agent_with_the_name_of_an_inherited_key_is_shown(open_page: Open, tmp_path: Path) -> None:
    episode = make_episode(1)
    turn, names = episode.turns[0], ("constructor", "toString")
    acted = zip(turn.decisions, names, strict=True)
    decisions = tuple(decision.model_copy(update={"agent": name}) for decision, name in acted)
    turn = turn.model_copy(update={"decisions": decisions, "artifacts": {}, "feedback": {}})
    run = make_run(tmp_path / "run", [episode.model_copy(update={"turns": (turn,)})])
    page_of(run, out=tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", at="#episode/0")
    heads = page.locator("#episode .turn").first.locator(".stages h4")
    expect(heads).to_have_text([re.compile("^constructor"), re.compile("^toString")])


def test_difference_of_two_emojis_is_a_whole_letter(open_page: Open, tmp_path: Path) -> None:
    episode = make_episode(1)
    turns = [
        turn.model_copy(update={"artifacts": {**turn.artifacts, "aux": f"well done {face}"}})
        for turn, face in zip(episode.turns, "😀😁", strict=True)
    ]
    run = make_run(tmp_path / "run", [episode.model_copy(update={"turns": tuple(turns)})])
    page_of(run, out=tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", at="#episode/0")
    page.keyboard.press("d")
    expect(page.locator("#episode .diff").first.locator("mark")).to_have_text(["😀", "😁"])


def test_held_out_problem_is_compared_before_and_after(
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
            label_text = f"numbers/9#0, held out after {steps} steps, {mode}"
            expect(labels.nth(label)).to_contain_text(label_text)
        expect(dialog.locator(".diff").first).to_be_attached()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()


def test_any_two_episodes_of_a_problem_can_be_compared(open_page: Open, report: Path) -> None:
    page = open_page(report, at="#episode/0")
    choice = page.locator("#against option", has_text="numbers/0#2").first
    page.select_option("#against", choice.get_attribute("value"))
    expect(page.locator("#episode .columns").first).to_contain_text("numbers/0#2")
