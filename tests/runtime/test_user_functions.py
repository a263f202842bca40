"""What a user's function did wrong is told with its file and line, whatever it was written for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scoring import joined_score

from collab.agents import join_for, parser_for
from collab.errors import AgentError, CollabError, RecipeError
from collab.feedback.plain import Plugin
from collab.models.open import open_model
from collab.recipe import RewardSpec
from collab.recipe.base import Component
from collab.recipe.feedback import PluginFeedback
from collab.recipe.model import PluginModel
from collab.records import Problem, failure_of
from collab.rewards import Scorer
from collab.trainers.credit import algorithm_for

MINE = """\
def oops(*args, **options):
    return {}["oops"]
def leaves(*args):
    raise SystemExit(3)
class Mute(Exception):
    def __str__(self): raise ValueError
def mute(*args):
    raise Mute
def nothing(): ...
def keyword(*, context=1): ...
def three(a, b, c): ...
async def waits(anything, other=None): ...
def number(*args): return 3
def same(response): return response.upper()
def first(artifacts, problem): return artifacts["b"]
def both(artifacts, problem): return f"x\\n{artifacts['a']}\\n\\n{artifacts['b']}"
"""
PROBLEM = Problem(address="mine/0", public={"prompt": "Write."})


@pytest.fixture(autouse=True)
def _mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)


def open_join(name: str) -> Any:
    return join_for(f"mine.py:{name}")({"a": "one", "b": "two\nthree"}, PROBLEM)


def open_parser(name: str) -> Any:
    return parser_for(f"mine.py:{name}")("a response")


def open_algorithm(name: str) -> Any:
    algorithm = algorithm_for(Component(use=f"mine.py:{name}"))
    return asyncio.run(algorithm.credit([None]))  # type: ignore[list-item]


def open_engine(name: str) -> Any:
    return open_model(PluginModel(engine=f"mine.py:{name}", name="x"))


def open_reward(name: str) -> Any:
    spec = RewardSpec.model_validate({"parts": {"it": {"use": f"mine.py:{name}"}}})
    scorer = Scorer(spec, None)
    return asyncio.run(joined_score(scorer, PROBLEM, {"a": "x"}, ["a"], "text"))


def open_feedback(name: str) -> Any:
    return Plugin(PluginFeedback(source=f"mine.py:{name}"))


OPENED = [open_join, open_parser, open_algorithm, open_engine, open_reward, open_feedback]


@pytest.mark.parametrize("open_one", OPENED[:-1])
def test_one_that_raises_is_told_with_file_and_line(open_one: Callable[[str], Any]) -> None:
    with pytest.raises(CollabError, match=r"mine\.py:2: KeyError: 'oops'"):
        open_one("oops")


@pytest.mark.parametrize("open_one", [open_join, open_parser, open_algorithm, open_reward])
def test_the_traceback_is_kept_for_the_record(open_one: Callable[[str], Any]) -> None:
    with pytest.raises(CollabError) as caught:
        open_one("oops")
    failure = failure_of(caught.value)
    assert failure.traceback is not None
    assert 'return {}["oops"]' in failure.traceback


@pytest.mark.parametrize("open_one", [open_join, open_parser, open_algorithm, open_reward])
@pytest.mark.parametrize(("name", "line"), [("leaves", 4), ("mute", 8)])
def test_one_that_exits_or_has_no_text_is_told_too(
    open_one: Callable[[str], Any], name: str, line: int
) -> None:
    with pytest.raises(CollabError, match=rf"mine\.py:{line}: "):
        open_one(name)


@pytest.mark.parametrize("open_one", OPENED)
@pytest.mark.parametrize("name", ["nothing", "keyword", "three"])
def test_one_that_cannot_be_called_is_refused_when_it_is_opened(
    open_one: Callable[[str], Any], name: str
) -> None:
    with pytest.raises(RecipeError, match=r"mine\.py:\w+[')].*(; define it|; set the option)"):
        open_one(name)


@pytest.mark.parametrize("open_one", [open_join, open_parser, open_algorithm])
def test_one_that_would_have_to_be_waited_for_is_refused(open_one: Callable[[str], Any]) -> None:
    with pytest.raises(RecipeError, match="waits' is an async function"):
        open_one("waits")


@pytest.mark.parametrize("open_one", [open_join, open_parser, open_algorithm])
def test_one_that_gives_something_else_is_told_what_to_give(
    open_one: Callable[[str], Any],
) -> None:
    with pytest.raises(CollabError, match=r"number' returned int; an? \w+ returns "):
        open_one("number")


def test_a_join_may_give_a_text_whose_lines_are_found_again() -> None:
    joint = open_join("first")
    assert (joint.text, joint.spans) == ("two\nthree", {"b": (1, 2)})
    assert open_join("both").spans == {"a": (2, 2), "b": (4, 5)}


def test_lines_that_a_joint_artifact_does_not_have_are_refused(tmp_path: Path) -> None:
    source = "from collab.agents import Joint\ndef far(a, p): return Joint('x', {'a': (1, 9)})\n"
    (tmp_path / "mine2.py").write_text(source)
    with pytest.raises(AgentError, match="returned lines 1 to 9 for 'a'; the joint artifact has 1"):
        join_for("mine2.py:far")({"a": "x"}, PROBLEM)


def test_a_file_that_fails_to_load_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("\n\nx = 1 / 0\n")
    with pytest.raises(RecipeError, match=r"fails to load: broken\.py:3: ZeroDivisionError"):
        parser_for("broken.py:f")


def test_a_module_that_fails_to_load_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_module.py").write_text("\n\nx = 1 / 0\n")
    with pytest.raises(RecipeError, match=r"cannot be imported: broken_module\.py:3: Zero"):
        parser_for("broken_module:f")
