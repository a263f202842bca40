"""The page in a headless Chromium: opened from a file, with the network away."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.report_runs import make_episode, make_run, make_training, page_of

from collab.records import Episode, Failure, PartScore

pytestmark = pytest.mark.browser

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

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        pytest.fail("needs chromium: install it, or name one with CHROMIUM=PATH")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens a file; at the end no error was written and nothing but the file was asked for."""
    contexts, errors, asked = [], [], []

    def open_page(
        path: Path, viewport: dict[str, int] = DESKTOP, scheme: str = "light", at: str = ""
    ) -> Any:
        context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri() + at)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
    assert {url.partition(":")[0] for url in asked} == {"file"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two seeds of one recipe; one episode is hostile, and one failed."""
    folder = tmp_path_factory.mktemp("report")
    runs = [make_training(folder / f"seed-{seed}", seed=seed) for seed in range(2)]
    with (runs[0] / "episodes.jsonl").open("a") as stream:
        episode = make_episode(99, task="numbers/99", group=7, said=HOSTILE)
        stream.write(episode.model_dump_json() + "\n")
    failure = Failure(boundary="model", type="ModelTimeout", message="no answer within 30 s")
    failed = Episode(id="numbers/98#0", task="numbers/98", team="coding", group=7, failure=failure)
    with (runs[1] / "episodes.jsonl").open("a") as stream:
        stream.write(failed.model_dump_json() + "\n")
    page_of(*runs, out=folder / "report.html")
    return folder / "report.html"


def rows(page: Any) -> int:
    return int(page.locator("#list tbody tr").count())


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.textContent"))


def test_everything_is_drawn(open_page: Open, report: Path) -> None:
    page = open_page(report)
    assert page.locator("#broken").is_hidden()
    assert rows(page) == 66
    titles = page.locator(".panel h4").all_text_contents()
    assert {"Joint return, held out", "Joint return in training", "Cooperation schemes"} <= set(
        titles
    )
    assert page.locator(".panel svg").count() == len(titles)
    assert page.locator(".plot .band").count() > 0


def test_texts_of_a_run_are_never_obeyed(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.fill("#search", "harmed")
    assert rows(page) == 1
    page.click("#list tbody a")
    assert HOSTILE in page.locator("#episode").text_content()
    assert page.evaluate("window.harmed") is None
    assert page.locator("#episode img").count() == 0


def test_a_part_without_points_shows_its_value(open_page: Open, tmp_path: Path) -> None:
    episode = make_episode(1)
    first, *rest = episode.turns
    assert first.score is not None
    part = PartScore(name="faithful", level="faithful", value=0.25, weight=0.0, reason="")
    score = first.score.model_copy(update={"parts": (part,)})
    turns = (first.model_copy(update={"score": score}), *rest)
    run = make_run(tmp_path / "run", [episode.model_copy(update={"turns": turns})])
    page_of(run, out=tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", at="#episode/0")
    row = page.locator("#episode .parts tr", has_text="faithful")
    assert row.locator("td").all_text_contents() == ["25 %", "–", ""]


def test_search_filters_and_order(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.fill("#search", "numbers/2 seed-1")
    assert rows(page) == 8
    assert page.locator("#count").text_content() == "8 of 66 episodes"
    page.select_option("select[aria-label='All steps']", "3")
    assert rows(page) == 4
    page.fill("#search", "no such word")
    assert page.locator("#list").is_hidden()
    assert "None of 66 episodes fits" in page.locator("#count").text_content()
    page.fill("#search", "")
    page.select_option("select[aria-label='All steps']", "")
    page.click("#list th button:text('Return')")
    assert page.locator("#list th[aria-sort]").text_content() == "Return"
    *returns, unknown = page.locator("#list td[data-label=return]").all_text_contents()
    assert unknown == "–"
    assert returns == sorted(returns, key=float, reverse=True)


def test_keys(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.keyboard.press("/")
    page.keyboard.type("seed-0")
    page.keyboard.press("Enter")
    assert focused(page) == "numbers/0#0"
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    assert focused(page) == "numbers/0#1"
    page.keyboard.press("Enter")
    dialog = page.locator("#episode")
    assert dialog.locator("h2").text_content().startswith("numbers/0#1")
    page.keyboard.press("j")
    page.keyboard.press("ArrowRight")
    assert dialog.locator("h2").text_content().startswith("numbers/0#3")
    page.keyboard.press("Escape")
    assert dialog.is_hidden()
    assert focused(page) == "numbers/0#3"
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("?")
    assert page.locator("#keys").is_hidden()
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    assert rows(page) == 66


def test_focus_is_visible(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.keyboard.press("Tab")
    for _ in range(12):
        page.keyboard.press("Tab")
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none", focused(page)


def test_an_episode_turn_by_turn(open_page: Open, report: Path) -> None:
    page = open_page(report, at="#episode/0")
    turns = page.locator("#episode .turn")
    assert turns.count() == 2
    first = turns.first
    assert first.locator(".card h4").all_text_contents()[:2] == ["aux ", "main "]
    assert "def aux(n):" in first.locator(".code").first.text_content()
    assert first.locator(".code .k").first.text_content() == "def"
    assert first.locator(".code .proof").text_content() == "def solve(n):"
    assert "main returns what aux gives, line 5" in first.locator(".schemes").text_content()
    assert "log-prob −" in first.locator(".card header").first.text_content()
    first.locator("summary", has_text="Observes").first.click()
    assert first.get_by_text("Write aux, turn 0.").is_visible()
    assert first.get_by_text("examples hold.").first.is_visible()
    assert "syntax" in first.locator(".parts").text_content()


def test_a_failed_episode_says_why(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.select_option("select[aria-label='All verdicts']", "failed")
    page.click("#list tbody tr")
    dialog = page.locator("#episode")
    assert dialog.get_by_text("ModelTimeout (model): no answer within 30 s").is_visible()
    page.keyboard.press("Escape")


def test_the_difference_between_turns(open_page: Open, report: Path) -> None:
    page = open_page(report, at="#episode/0")
    page.keyboard.press("d")
    assert page.locator("#against").input_value() == "turn"
    second = page.locator("#episode .turn").last
    diff = second.locator(".diff", has_text="solve").first
    assert diff.locator(".del").text_content() == "removed:     return aux(n * 2)"
    assert diff.locator(".add").text_content() == "added:     return aux(n * 3)"
    assert diff.locator(".add mark").text_content() == "3"


def test_the_difference_between_before_and_after(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.click("a.pair >> nth=0")
    dialog = page.locator("#episode")
    assert "Before (−)" in dialog.text_content()
    labels = dialog.locator(".columns .card p").all_text_contents()
    assert ["step 1" in labels[0], "step 5" in labels[1]] == [True, True]
    assert dialog.locator(".parts th[scope=row]").all_text_contents() == [
        "reward",
        "syntax",
        "tests",
    ]
    assert dialog.locator(".diff").count() >= 1
    page.keyboard.press("Escape")
    assert dialog.is_hidden()


def test_held_out_episodes_are_filtered(open_page: Open, held_out: Path, tmp_path: Path) -> None:
    page_of(held_out, out=tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    assert rows(page) == 68
    choices = page.locator("select[aria-label='All phases'] option").all_text_contents()
    assert choices == ["All phases", "training", "held out before", "held out after"]
    page.select_option("select[aria-label='All phases']", "held out after")
    assert rows(page) == 18
    page.select_option("select[aria-label='All modes']", "greedy")
    assert rows(page) == 6
    assert "held out after, greedy" in page.locator("#list tbody tr").first.text_content()
    page.select_option("select[aria-label='All modes']", "")
    page.select_option("select[aria-label='All phases']", "training")
    page.select_option("select[aria-label='All steps']", "8")
    assert rows(page) == 4


def test_a_held_out_problem_before_and_after(
    open_page: Open, held_out: Path, tmp_path: Path
) -> None:
    page_of(held_out, out=tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    row = page.locator("tr", has=page.locator("th:text-is('numbers/9')"))
    dialog = page.locator("#episode")
    for place, mode in enumerate(("sampled", "greedy")):
        row.locator("a.pair").nth(place).click()
        labels = dialog.locator(".columns .card p").all_text_contents()
        assert [label.split(", ")[:3] for label in labels[:2]] == [
            ["numbers/9#0", "held out after 0 steps", mode],
            ["numbers/9#0", "held out after 8 steps", mode],
        ]
        assert dialog.locator(".diff").count() >= 1
        page.keyboard.press("Escape")


def test_the_other_end_is_of_the_same_sample(
    open_page: Open, held_out: Path, tmp_path: Path
) -> None:
    page_of(held_out, out=tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", PHONE)
    page.fill("#search", "numbers/8#1 before")
    page.click("#list tbody a")
    choice = page.locator("#against option", has_text="before and after training")
    told = "before and after training: numbers/8#1, held out after 8 steps, sampled"
    assert choice.text_content().startswith(told)
    wide = "element => element.scrollWidth - element.clientWidth"
    assert page.evaluate(f"({wide})(document.documentElement)") <= 0


def test_any_two_episodes_of_a_problem_can_be_compared(open_page: Open, report: Path) -> None:
    page = open_page(report, at="#episode/0")
    choice = page.locator("#against option", has_text="numbers/0#2").first
    page.select_option("#against", choice.get_attribute("value"))
    assert "numbers/0#2" in page.locator("#episode .columns").first.text_content()


def test_curves_by_key_and_as_a_table(open_page: Open, report: Path) -> None:
    page = open_page(report)
    panel = page.locator(".panel", has=page.locator("h4:text-is('Joint return in training')"))
    plot = panel.locator(".plot")
    plot.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert "step 2" in panel.locator(".legend").text_content()
    assert plot.get_attribute("aria-valuetext").startswith("step 2: ")
    panel.get_by_role("button", name="Table").click()
    assert panel.locator("tbody tr").count() == 8
    assert plot.is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_and_the_choice(
    open_page: Open, report: Path, scheme: str
) -> None:
    page = open_page(report, scheme=scheme)

    def is_dark() -> bool:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return int(colour.removeprefix("rgb(").partition(",")[0]) < 128

    assert is_dark() == (scheme == "dark")
    seen = []
    for _ in range(3):
        page.keyboard.press("t")
        seen.append((page.locator("#theme").text_content(), is_dark()))
    assert seen == [("Light", False), ("Dark", True), ("Auto", scheme == "dark")]


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE, {"width": 320, "height": 600}])
@pytest.mark.parametrize("at", ["", "#episode/0", "#compare/0/16"])
def test_nothing_is_wider_than_the_window(
    open_page: Open, report: Path, viewport: dict[str, int], at: str
) -> None:
    page = open_page(report, viewport, at=at)
    wide = "element => element.scrollWidth - element.clientWidth"
    assert page.evaluate(f"({wide})(document.documentElement)") <= 0
    assert page.evaluate(f"({wide})(document.getElementById('episode'))") <= 0
    assert page.locator("#episode").is_visible() == bool(at)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(open_page: Open, report: Path, scheme: str) -> None:
    """At least 4.5 to 1, as WCAG 2.2 asks."""
    page = open_page(report, scheme=scheme)
    pairs = [("text", "page"), ("dim", "page"), ("dim", "well"), ("accent", "accent-soft"),
             ("good", "good-soft"), ("bad", "bad-soft"), ("warn", "warn-soft")]  # fmt: skip
    for ink, paper in pairs:
        ratio = page.evaluate(CONTRAST, [ink, paper])
        assert ratio >= 4.5, f"{ink} on {paper}: {ratio:.2f}"


CONTRAST = """([ink, paper]) => {
  const probe = document.body.appendChild(document.createElement("p"));
  const light = (name) => {
    probe.style.color = `var(--${name})`;
    const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((n) => n / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [a, b] = [light(ink), light(paper)];
  probe.remove();
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


def test_a_thousand_episodes_open_quickly(open_page: Open, browser: Any, tmp_path: Path) -> None:
    episodes = [
        make_episode(n, task=f"numbers/{n // 4}", group=n // 4, sample=n % 4, words=20)
        for n in range(1000)
    ]
    page_of(make_run(tmp_path / "run", episodes), out=tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 5_000_000
    page = open_page(tmp_path / "report.html")
    assert page.locator("#count").text_content() == "1,000 episodes"
    assert rows(page) < 1000
    page.keyboard.press("End")
    page.locator("#list tbody tr").nth(250).wait_for(state="attached")

    before = cpu_seconds(browser)
    open_page(tmp_path / "report.html")
    assert cpu_seconds(browser) - before < 2.0


def cpu_seconds(browser: Any) -> float:
    """What Chromium's renderers took, whatever else keeps this machine busy."""
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")
    return float(sum(p["cpuTime"] for p in found["processInfo"] if p["type"] == "renderer"))


def test_without_javascript_the_facts_are_there(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("noscript").is_visible()
    assert page.locator(".facts").first.is_visible()
    assert page.locator(".compared table").first.is_visible()
    context.close()
