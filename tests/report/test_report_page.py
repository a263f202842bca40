"""The page is one small file that loads nothing and escapes all text of runs."""

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.report_runs import data_of, make_episode, make_run, page_of

from collab.records import Action, Decision, Episode, Feedback, Message, Turn
from collab.report.episodes import ShownEpisode, episode_data
from collab.report.page import Texts, pack_data

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\u202e\x1b[2J"


class Elements(HTMLParser):
    """Counts elements, and records attributes that could load something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for k, v in attrs if k in ("src", "href", "data", "action", "style")]
        assert not [name for name, _ in attrs if name.startswith("on")]


@pytest.fixture
def page(played: Path, tmp_path: Path) -> str:
    return page_of(played, out=tmp_path / "report.html")


def test_nothing_is_loaded(page: str) -> None:
    elements = Elements(page)
    assert {"link", "img", "iframe", "base", "object"}.isdisjoint(elements.tags)
    assert all(link.startswith("#") for link in elements.links)
    assert not re.search(r"url\(|@import", page)


def test_security_policy_allows_only_the_page_script_and_style(page: str) -> None:
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    policy = policy.replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag, kind in (("style", "style-src"), ("script", "script-src")):
        [text] = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy


def test_the_script_writes_no_markup(page: str) -> None:
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", page)


def test_no_pattern_of_the_script_backtracks_over_spaces(page: str) -> None:
    """Such a pattern takes seconds for an answer of 20,000 spaces or line feeds."""
    assert not re.search(r"\\s[+*](\$|\))", page)


def test_the_data_is_complete(page: str) -> None:
    data = data_of(page)
    first = data["episodes"][0]
    decision = first["turns"][0]["decisions"][0]
    assert first["task"] == "numbers/0"
    assert data["texts"][decision["observation"][1]["content"]] == "Write aux, turn 0."
    assert data["texts"][first["turns"][0]["feedback"]["aux"][0]["text"]].endswith("examples hold.")
    assert decision["action"]["logprobs"].keys() == {"mean", "least"}
    assert "token_ids" not in json.dumps(data)


def hostile_episode() -> Episode:
    decision = Decision(
        agent=HOSTILE,
        observation=(Message(role="user", content=HOSTILE),),
        action=Action(text=HOSTILE, model=HOSTILE),
    )
    turn = Turn(index=0, decisions=(decision,), artifacts={HOSTILE: HOSTILE}, joint=HOSTILE)
    return Episode(id=HOSTILE, task=HOSTILE, team=HOSTILE, turns=(turn,))


def test_texts_of_a_run_are_never_markup(tmp_path: Path) -> None:
    folder = make_run(
        tmp_path / "<img src=x>",
        [hostile_episode(), make_episode(1)],
        team=HOSTILE,
        status=HOSTILE,
        models={HOSTILE: HOSTILE},
        versions={HOSTILE: HOSTILE},
        command=["collab", HOSTILE],
    )
    (folder / "recipe.yaml").write_text(f"description: |\n  {HOSTILE[:-5]}\n")
    page = page_of(folder, out=tmp_path / "report.html")
    elements = Elements(page)
    assert (elements.tags.count("script"), elements.tags.count("img")) == (2, 0)
    assert "\u202e" not in page
    assert "\x1b" not in page
    text = next(text for text in data_of(page)["texts"] if "alert" in text)
    assert text.endswith(r"onerror=alert(2)>\u2028\u202e\x1b[2J")


def test_an_agent_may_have_the_name_of_a_key() -> None:
    feedback = {"artifacts": (Feedback(source="self", text="be brief"),)}
    turn = Turn(index=0, decisions=(), feedback=feedback)
    episode = Episode(id="t#0", task="t", team="one", turns=(turn,))
    texts = Texts(100)
    [data] = episode_data(ShownEpisode(0, episode), texts)["turns"]
    [item] = data["feedback"]["artifacts"]
    assert (item["source"], [*texts][item["text"]]) == ("self", "be brief")


def test_non_finite_numbers_become_null() -> None:
    packed = pack_data({"seconds": float("inf"), "values": [float("nan"), 1 / 3]})
    assert json.loads(gzip.decompress(base64.b64decode(packed))) == {
        "seconds": None,
        "values": [None, 0.333333],
    }


def test_long_texts_are_truncated_with_a_note(tmp_path: Path) -> None:
    episodes = [make_episode(n, group=n, words=3000) for n in range(30)]
    page = page_of(make_run(tmp_path / "run", episodes), out=tmp_path / "report.html")
    assert len(page) < 5_000_000
    assert re.search(r"[\d,]+ strings are truncated at 20,000 characters", page)
    assert any("more characters are left out]" in text for text in data_of(page)["texts"])


def test_many_episodes_are_thinned_evenly_with_a_note(trained: Path, tmp_path: Path) -> None:
    page = page_of(trained, out=tmp_path / "report.html", most=16)
    steps = [episode["step"] for episode in data_of(page)["episodes"]]
    assert steps == [1] * 4 + [3] * 4 + [6] * 4 + [8] * 4
    assert "16 of 32 episodes are in this report" in page


def test_the_same_runs_give_the_same_page(played: Path, tmp_path: Path) -> None:
    assert page_of(played, out=tmp_path / "a.html") == page_of(played, out=tmp_path / "b.html")


def test_large_seeds_are_kept_exactly(tmp_path: Path) -> None:
    """JavaScript cannot represent numbers beyond 2^53 exactly."""
    seed = 2**62 + 1
    episode = make_episode(1).model_copy(update={"seed": seed})
    page = page_of(make_run(tmp_path / "big", [episode]), out=tmp_path / "r.html")
    assert data_of(page)["episodes"][0]["seed"] == str(seed)
