"""Environments of verifiers as suites: names, refusals, and custom rewards.

Tests that need the package are skipped if it is not installed.
"""

import asyncio
import importlib.util
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.scoring import joined_score

import collab
from collab.errors import RecipeError, TaskError, Untrusted
from collab.recipe import load_task
from collab.records import Problem, Score
from collab.rewards import Scorer
from collab.tasks import open_suite
from collab.tasks.generated.verifiers import verifiers

INSTALLED = importlib.util.find_spec("verifiers") is not None
needs_it = pytest.mark.skipif(not INSTALLED, reason="verifiers is not installed")

DOUBLING = """
import verifiers.v1 as vf


class Data(vf.TaskData):
    answer: str


class Doubling(vf.Task[Data]):
    @vf.reward(weight=0.75)
    async def right(self, task, trace) -> float:
        return float(trace.last_reply == task.answer)

    @vf.reward(weight=0.25)
    async def short(self, trace) -> float:
        return float(len(trace.last_reply) < 5)

    @vf.reward(weight=-0.25)
    async def rude(self, trace) -> float:
        return float("damn" in trace.last_reply)
{more}

class Config(vf.TasksetConfig):
    start: int = 0


class Doublings(vf.Taskset[Doubling, Config]):
    INFINITE = True

    def load(self):
        number = self.config.start
        while True:
            data = Data(prompt=f"2 * {{number}} =", answer=str(2 * number), system_prompt="Digits.")
            yield Doubling(data, self.config.task)
            number += 1


__all__ = ["Doublings"]
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that writes an environment as an importable package."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(more: str = "", source: str = DOUBLING, name: str = "two_times") -> str:
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(source.format(more=more))
        importlib.invalidate_caches()
        return f"verifiers/{name.replace('_', '-')}"

    yield write
    sys.modules.pop("two_times", None)


@pytest.mark.skipif(INSTALLED, reason="verifiers is installed")
def test_missing_package_names_the_install_command() -> None:
    with pytest.raises(TaskError, match=r"pip install .*collab-agents\[verifiers\]"):
        open_suite(load_task("verifiers/gsm8k"))


def test_suite_needs_an_environment_name_and_refuses_python_modules() -> None:
    with pytest.raises(RecipeError, match="name an environment of verifiers: verifiers/NAME"):
        open_suite(load_task("verifiers"))
    with pytest.raises(RecipeError, match="a function of Python itself"):
        open_suite(load_task("verifiers/antigravity"))


def test_environment_named_by_a_foreign_file_needs_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    (there / "held_back.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (there / "mine.yaml").write_text(
        "extends: verifiers\n"
        "source: {generate: {use: verifiers, options: {environment: held-back}}}\n"
    )
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(there)
    with pytest.raises(Untrusted, match="held_back"):
        load_task(str(there / "mine.yaml"))
    with pytest.raises(Untrusted, match="held_back"):
        next(verifiers(Random(0), environment="held-back"))
    assert not (tmp_path / "ran").exists()


def test_environment_named_only_by_a_row_is_not_imported() -> None:
    row = {"environment": "named-by-a-row", "data": {}}
    reward = load_task("verifiers/gsm8k").reward
    assert reward is not None
    problem = Problem(address="x/0", public={"prompt": "p"}, hidden=row)
    with pytest.raises(Untrusted, match="'named_by_a_row' would be imported"):
        asyncio.run(joined_score(Scorer(reward, None), problem, {"a": "4"}, ["a"], "text"))


def scored(problem: Problem, text: str, *settings: str) -> Score:
    reward = load_task("verifiers/two-times", settings=settings).reward
    assert reward is not None
    return asyncio.run(joined_score(Scorer(reward, None), problem, {"a": text}, ["a"], "text"))


@needs_it
def test_environment_provides_tasks_and_rewards(environment: Any) -> None:
    suite = open_suite(load_task(environment(), settings=["task.source.rows=3"]))
    assert [row["prompt"] for row in suite.rows] == [f"Digits.\n\n2 * {n} =" for n in range(3)]
    problem = suite.select("2")[0]
    assert set(problem.public) == {"prompt"}
    assert [scored(problem, text).reward for text in ("4", "5", "55555", "")] == [1, 0.25, 0, 0.25]
    assert scored(problem, "4").solved
    assert not scored(problem, "5").solved


@needs_it
def test_team_plays_the_environment(environment: Any) -> None:
    address = environment() + "/1"
    with collab.load("reasoner-single", model="echo", task=environment()) as team:
        [episode] = team.run(address).episodes
    assert episode.turns[0].score is not None
    assert episode.turns[0].score.reward == 0.0
    assert "2 * 1 =" in episode.turns[0].decisions[0].observation[-1].content


@needs_it
def test_reward_outside_the_bounds_is_an_error(environment: Any) -> None:
    problem = open_suite(load_task(environment(), settings=["task.source.rows=1"])).select("0")[0]
    with pytest.raises(collab.errors.RewardError, match=r"gives -0\.25.*options\.minimum"):
        scored(problem, "damn it")
    minimum = "task.reward.parts.score.options.minimum=-0.25"
    assert scored(problem, "damn it", minimum).reward == 0.0
    assert scored(problem, "0", minimum).reward == 1.0


TOOLS = """
    @classmethod
    def toolsets(cls, config): return [object()]
"""
SETUP = """
    async def setup(self, trace, runtime): return None
"""
RUNTIME = """
    @vf.reward
    async def ran(self, trace, runtime): return 1.0
"""


@needs_it
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (TOOLS, "needs tools"),
        (SETUP, "a machine that is set up"),
        (RUNTIME, "rewards for actions on a machine"),
        ("    NEEDS_CONTAINER = True\n", "needs a container"),
    ],
)
def test_environment_that_needs_more_is_refused(environment: Any, more: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        open_suite(load_task(environment(more)))


@needs_it
def test_environment_with_its_own_turns_is_refused() -> None:
    with pytest.raises((TaskError, RecipeError), match="textarena"):
        open_suite(load_task("verifiers/textarena"))


@needs_it
def test_unknown_names_and_options_are_refused(environment: Any) -> None:
    with pytest.raises(TaskError, match="'no-such' of verifiers cannot be imported"):
        open_suite(load_task("verifiers/no-such"))
    setting = "task.source.generate.options.nonsense=9"
    with pytest.raises(RecipeError, match="nonsense"):
        open_suite(load_task(environment(), settings=[setting]))
