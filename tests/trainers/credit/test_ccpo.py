"""CCPO: the last agent also answers alone, and those before it are paid for the difference."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from support.rule_runs import check_resume
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.recipe import Recipe
from collab.records import Episode, read_episodes
from collab.runtime import Session
from collab.runtime.episode import Start
from collab.runtime.events import AgentActing, EpisodeFinished
from collab.tasks import open_suite
from collab.trainers.credit.ccpo import CCPO
from collab.trainers.credit.games import Game, expectation, gradient, sample
from collab.trainers.credit.shape import Further, Shape
from collab.trainers.training.check import check_recipe

REWARDS = np.array([[0.0, 2.0], [1.0, 4.0], [4.0, 3.0]])
SOLVED = np.array([[False, False], [False, True], [True, False]])


def a_game() -> Game:
    """b sees what a says; a's first action is no answer at all."""
    rng = np.random.default_rng(6)
    logits = {("a", 0, 0): rng.normal(size=3), ("b", 0, 0): rng.normal(size=(3, 2))}
    return Game(("a", "b"), (REWARDS,), logits, sees={"b": ("a",)}, solved=SOLVED, empty={"a": 0})


def shape(size: int) -> Shape:
    return Shape("chains", size, 1, further=Further(silent=("a",)))


@pytest.mark.parametrize("weight", [0.2, 1.0])
@pytest.mark.parametrize(
    ("bonus", "own"), [("solved", 4.0 / 2 * SOLVED), ("difference", REWARDS / 2)]
)
def test_the_gradient_is_what_the_docstring_says(bonus: Any, own: Any, weight: float) -> None:
    """What the solver does alone drops out of the thinker's, and is no part of its own."""
    game, rule = a_game(), CCPO(bonus=bonus, weight=weight)
    found = asyncio.run(expectation(game, rule, 2, shape=shape(2)))
    assert found["a"] == pytest.approx(gradient(replace(game, own={"a": weight * own}))["a"])
    assert found["b"] == pytest.approx(gradient(game)["b"], abs=1e-12)


@pytest.mark.parametrize("bonus", ["solved", "difference"])
def test_weights_by_hand(bonus: Any) -> None:
    group = sample(a_game(), 4, np.random.default_rng(3), shape=shape(4))
    rule = CCPO(bonus=bonus, weight=0.5)
    [weights] = asyncio.run(rule.credit([group]))
    teams, alone = group.episodes, [further.episode for further in group.further]
    assert [e.further for e in alone] == ["solo"] * 4
    assert all(e.turns[0].artefacts["a"] == "" for e in alone)

    def paid(team: Episode, solo: Episode) -> float:
        assert team.reward is not None
        assert solo.reward is not None
        event = 4.0 / 2 * (int(team.solved) - int(solo.solved))
        return team.reward + 0.5 * (event if bonus == "solved" else (team.reward - solo.reward) / 2)

    own = [paid(team, solo) for team, solo in zip(teams, alone, strict=True)]
    assert len(set(own)) > 2
    for n in range(4):
        assert weights[n, 0, "a"] == pytest.approx(own[n] - (sum(own) - own[n]) / 3)
        earned = [float(e.reward or 0.0) for e in teams]
        assert weights[n, 0, "b"] == pytest.approx(earned[n] - (sum(earned) - earned[n]) / 3)
    told = rule.measures()
    helped = [t.solved and not s.solved for t, s in zip(teams, alone, strict=True)]
    assert told["solo/helped"] == pytest.approx(sum(helped) / 4)
    assert told["solo/reward"] == pytest.approx(sum(e.reward or 0.0 for e in alone) / 4)


def test_a_lost_solo_episode_leaves_its_pair_without_a_bonus() -> None:
    group = sample(a_game(), 3, np.random.default_rng(3), shape=shape(3))
    less = replace(group, further=group.further[1:])
    [weights] = asyncio.run(CCPO(bonus="difference").credit([less]))
    plain = replace(group, further=())
    [without] = asyncio.run(CCPO(bonus="difference").credit([plain]))
    assert weights[0, 0, "b"] == without[0, 0, "b"]
    assert weights[0, 0, "a"] != without[0, 0, "a"], "the others have theirs"


def shipped() -> dict[str, Any]:
    text = (Path(__file__).parents[3] / "trainers" / "ccpo.yaml").read_text()
    return {key: value for key, value in yaml.safe_load(text).items() if key != "description"}


def sequential(model: Path, folder: Path, **trainer: Any) -> Recipe:
    data = make_game(model, folder, **{**shipped(), "steps": 3, **trainer}).model_dump()
    data["team"]["protocol"] = "sequential"
    data["team"]["agents"]["b"]["prompt"] = "{{ task.text }} {{ others.a }}"
    data["task"]["reward"]["parts"]["b_left"]["solves"] = True
    return Recipe.model_validate(data)


def test_it_trains_by_its_file_and_goes_on_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    recipe = sequential(tiny_words, tmp_path, group_size=4, alternate_every=1, checkpoint_every=1)
    rows = check_resume("ccpo", tiny_words, tmp_path, recipe=recipe)
    assert any(row["gradient_norm/a"] > 0 for row in rows if "gradient_norm/a" in row)
    assert all({"solo/reward", "solo/helped", "solo/hurt"} <= set(row) for row in rows)
    assert all(row["episodes"] == 2 * 2 * 4 for row in rows)
    played = list(read_episodes(tmp_path / "whole"))
    alone = [e for e in played if e.further == "solo"]
    assert len(alone) == len(played) / 2
    for episode in alone:
        silent, solver = episode.turns[0].decisions
        assert (silent.agent, silent.given, silent.action.text) == ("a", True, "")
        assert not silent.action.token_ids
        assert not solver.given
        assert solver.action.token_ids
        assert episode.turns[0].artefacts["a"] == ""
    by_the_team = [e.joint_return for e in played if e.group in (0, 1) and not e.further]
    assert rows[0]["return/mean"] == pytest.approx(sum(map(float, by_the_team)) / 8)  # type: ignore[arg-type]
    by_itself = [e.joint_return for e in alone if e.group in (0, 1)]
    assert rows[0]["solo/reward"] == pytest.approx(sum(map(float, by_itself)) / 8)  # type: ignore[arg-type]


def test_a_silent_agent_is_not_asked(tiny_words: Path, tmp_path: Path) -> None:
    recipe = sequential(tiny_words, tmp_path)
    assert recipe.task is not None
    [problem] = open_suite(recipe.task).select("0")

    async def played() -> list[Any]:
        async with Session(recipe) as session:
            start = Start(problem, silent=("a",), further="solo")
            return [event async for event in session.play([start])]

    events = asyncio.run(played())
    assert [event.agent for event in events if isinstance(event, AgentActing)] == ["b"]
    [ended] = [event.episode for event in events if isinstance(event, EpisodeFinished)]
    assert json.loads(ended.model_dump_json())["further"] == "solo"


@pytest.mark.parametrize(
    ("protocol", "trainer", "told"),
    [
        ("parallel", {}, "set protocol to 'sequential'"),
        ("sequential", {"turn_structure": "tree"}, "set turn_structure to 'chains'"),
        ("sequential", {"curriculum": [{"steps": 1, "turns": 2}]}, "is for one turn"),
        ("sequential", {"algorithm": {"use": "ccpo", "options": {"bonus": "x"}}}, "'difference'"),
    ],
)
def test_what_would_be_wrong_is_refused(
    tiny_words: Path, tmp_path: Path, protocol: str, trainer: dict[str, Any], told: str
) -> None:
    data = sequential(tiny_words, tmp_path, **trainer).model_dump()
    data["team"]["protocol"] = protocol
    with pytest.raises(RecipeError, match=told):
        check_recipe(Recipe.model_validate(data))
