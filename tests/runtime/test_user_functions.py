"""Errors in user functions are reported with file and line, for every kind of function."""

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
from collab.recipe.feedback import PluginFeedbackSpec
from collab.recipe.model import PluginSpec
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
def _mine(here: Path) -> None:
    (here / "mine.py").write_text(MINE)


def open_join(name: str) -> Any:
    return join_for(f"mine.py:{name}")({"a": "one", "b": "two\nthree"}, PROBLEM)


def open_parser(name: str) -> Any:
    return parser_for(f"mine.py:{name}")("a response")


def open_algorithm(name: str) -> Any:
    algorithm = algorithm_for(Component(use=f"mine.py:{name}"))
    return asyncio.run(algorithm.credit([None]))  # type: ignore[list-item]


def open_engine(name: str) -> Any:
    return open_model(PluginSpec(engine=f"mine.py:{name}", name="x"))


def open_reward(name: str) -> Any:
    spec = RewardSpec.model_validate({"parts": {"it": {"use": f"mine.py:{name}"}}})
    scorer = Scorer(spec, None)
    return asyncio.run(joined_score(scorer, PROBLEM, {"a": "x"}, ["a"], "text"))


def open_feedback(name: str) -> Any:
    return Plugin(PluginFeedbackSpec(source=f"mine.py:{name}"))


OPENED = [open_join, open_parser, open_algorithm, open_engine, open_reward, open_feedback]


@pytest.mark.parametrize("open_one", OPENED[:-1])
def test_exception_is_reported_with_file_and_line(open_one: Callable[[str], Any]) -> None:
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
def test_exit_and_empty_message_are_reported_too(
    open_one: Callable[[str], Any], name: str, line: int
) -> None:
    with pytest.raises(CollabError, match=rf"mine\.py:{line}: "):
        open_one(name)


@pytest.mark.parametrize("open_one", OPENED)
@pytest.mark.parametrize("name", ["nothing", "keyword", "three"])
def test_wrong_signature_is_refused_on_opening(open_one: Callable[[str], Any], name: str) -> None:
    with pytest.raises(RecipeError, match=r"mine\.py:\w+[')].*(; define it|; set the option)"):
        open_one(name)


@pytest.mark.parametrize("open_one", [open_join, open_parser, open_algorithm])
def test_async_function_is_refused_where_unsupported(open_one: Callable[[str], Any]) -> None:
    with pytest.raises(RecipeError, match="waits' is an async function"):
        open_one("waits")


@pytest.mark.parametrize("open_one", [open_join, open_parser, open_algorithm])
def test_wrong_return_type_names_the_expected_one(open_one: Callable[[str], Any]) -> None:
    with pytest.raises(CollabError, match=r"number' returned int; an? \w+ returns "):
        open_one("number")


def test_join_may_return_text_whose_lines_are_located() -> None:
    joint = open_join("first")
    assert (joint.text, joint.spans) == ("two\nthree", {"b": (1, 2)})
    assert open_join("both").spans == {"a": (2, 2), "b": (4, 5)}


def test_lines_beyond_the_joint_artifact_are_refused(tmp_path: Path) -> None:
    source = "from collab.agents import Joint\ndef far(a, p): return Joint('x', {'a': (1, 9)})\n"
    (tmp_path / "mine2.py").write_text(source)
    with pytest.raises(AgentError, match="returned lines 1 to 9 for 'a'; the joint artifact has 1"):
        join_for("mine2.py:far")({"a": "x"}, PROBLEM)


def test_file_that_fails_to_load_is_reported_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("\n\nx = 1 / 0\n")
    with pytest.raises(RecipeError, match=r"fails to load: broken\.py:3: ZeroDivisionError"):
        parser_for("broken.py:f")


def test_module_that_fails_to_load_is_reported_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_module.py").write_text("\n\nx = 1 / 0\n")
    with pytest.raises(RecipeError, match=r"cannot be imported: broken_module\.py:3: Zero"):
        parser_for("broken_module:f")
