"""C3: answers to one frozen context, and how they are played."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
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
from collab.trainers import TrainingRun
from collab.trainers.credit.c3 import C3
from collab.trainers.credit.games import Game, GameModels, estimate, expectation, gradient, sample
from collab.trainers.credit.magrpo import marloo
from collab.trainers.credit.shape import Shape
from collab.trainers.credit.step_credit import Credit
from collab.trainers.learner.samples import make_samples
from collab.trainers.training.check import check_recipe


def chain(n: int) -> Game:
    """n agents of two actions, each of which sees all before it."""
    rng, agents = np.random.default_rng(6), "abc"[:n]
    logits = {(agent, 0, 0): rng.normal(size=(2,) * (k + 1)) for k, agent in enumerate(agents)}
    sees = {agent: tuple(agents[:k]) for k, agent in enumerate(agents)}
    return Game(tuple(agents), (rng.normal(size=(2,) * n),), logits, sees=sees)


def of(*fan_out: int) -> tuple[C3, Shape]:
    return C3(fan_out=list(fan_out)), Shape("chains", int(np.prod(fan_out)), 1, fan_out)


@pytest.mark.parametrize("fan_out", [(2, 2), (3, 2), (2, 3)])
def test_the_gradient_is_exact(fan_out: tuple[int, ...]) -> None:
    game, (rule, shape) = chain(2), of(*fan_out)
    found = asyncio.run(expectation(game, rule, shape.group_size, shape=shape))
    for agent, true in gradient(game).items():
        assert found[agent] == pytest.approx(true, abs=1e-12)


@pytest.mark.parametrize("value", [0.3, 1.0])
def test_learned_values_in_the_baseline_keep_the_gradient_exact(value: float) -> None:
    """Of heads that have learned something, and are held fixed."""
    game, (_, shape) = chain(2), of(2, 2)

    async def found() -> Any:
        learning = C3(fan_out=[2, 2], value=value, rate=0.1, steps=20)
        await learning.open(GameModels())
        for seed in range(5):
            await learning.credit([sample(game, 4, np.random.default_rng(seed), shape=shape)])
        assert learning.measures()["critic/a/explained"] > -1
        fixed = C3(fan_out=[2, 2], value=value, rate=0.1, steps=0)
        await fixed.open(GameModels())
        fixed.restore(learning.state())
        group = sample(game, 4, np.random.default_rng(9), shape=shape)
        [with_values], [plain] = await fixed.credit([group]), await of(2, 2)[0].credit([group])
        assert with_values != plain
        return await expectation(game, fixed, 4, shape=shape)

    exact = asyncio.run(found())
    for agent, true in gradient(game).items():
        assert exact[agent] == pytest.approx(true, abs=1e-7)


def test_learned_values_go_on_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    algorithm = {"use": "c3", "options": {"fan_out": [2, 2], "value": 1.0}}
    options = {"group_size": 4, "tasks_per_step": 1, "checkpoint_every": 1}
    recipe = sequential(tiny_words, tmp_path, algorithm=algorithm, **options)
    rows = check_resume(algorithm, tiny_words, tmp_path, recipe=recipe)
    assert all({"critic/a/loss", "critic/b/loss"} <= set(row) for row in rows)


def test_three_agents_of_whom_the_second_is_frozen() -> None:
    game, (rule, shape) = chain(3), of(2, 1, 2)
    found = asyncio.run(expectation(game, rule, 4, shape=shape))
    for agent in ("a", "c"):
        assert found[agent] == pytest.approx(gradient(game)[agent], abs=1e-12)
    assert not found["b"].any()


def test_three_agents() -> None:
    rule, shape = of(2, 2, 2)
    found = asyncio.run(estimate(chain(3), rule, groups=1500, group_size=8, shape=shape))
    assert all(found.errors(agent) < 3 for agent in "abc")


def test_weights_by_hand() -> None:
    rule, shape = of(2, 2)
    group = sample(chain(2), 4, np.random.default_rng(1), shape=shape)
    earned = [group.returns[n, 0]["a"] for n in range(4)]
    [weights] = asyncio.run(rule.credit([group]))
    first, second = (earned[0] + earned[1]) / 2, (earned[2] + earned[3]) / 2
    # two answers of a stand for four episodes
    assert weights[0, 0, "a"] == pytest.approx(2 * (first - second))
    assert weights[2, 0, "a"] == pytest.approx(2 * (second - first))
    assert weights[1, 0, "a"] == weights[3, 0, "a"] == 0
    assert weights[1, 0, "b"] == pytest.approx(earned[1] - earned[0])
    assert weights[2, 0, "b"] == pytest.approx(earned[2] - earned[3])


def test_one_answer_each_of_the_second_agent_is_marloo_for_the_first() -> None:
    rule, shape = of(4, 1)
    group = sample(chain(2), 4, np.random.default_rng(1), shape=shape)
    [weights] = asyncio.run(rule.credit([group]))
    expected = marloo(group)
    assert all(weights[n, 0, "a"] == pytest.approx(expected[n, 0, "a"]) for n in range(4))
    assert all(weights[n, 0, "b"] == 0 for n in range(4))


def test_a_lost_episode_keeps_the_rest() -> None:
    """Only those are compared whose episodes are there."""
    rule, shape = of(2, 2)
    group = sample(chain(2), 4, np.random.default_rng(1), shape=shape)
    rows = (group.episodes[0], *group.episodes[2:])
    earned = [group.returns[n, 0]["b"] for n in (0, 2, 3)]
    returns = {(n, 0): dict.fromkeys("ab", value) for n, value in enumerate(earned)}
    less = type(group)(**{**vars(group), "episodes": rows, "returns": returns})
    [weights] = asyncio.run(rule.credit([less]))
    assert weights[0, 0, "b"] == 0
    assert weights[1, 0, "b"] == pytest.approx(earned[1] - earned[2])
    assert weights[0, 0, "a"] == pytest.approx(1.5 * (earned[0] - (earned[1] + earned[2]) / 2))


def shipped() -> dict[str, Any]:
    text = (Path(__file__).parents[3] / "trainers" / "c3.yaml").read_text()
    return {key: value for key, value in yaml.safe_load(text).items() if key != "description"}


def sequential(model: Path, folder: Path, **trainer: Any) -> Recipe:
    data = make_game(model, folder, **{**shipped(), "steps": 3, **trainer}).model_dump()
    data["team"]["protocol"] = "sequential"
    data["team"]["agents"]["b"]["prompt"] = "{{ task.text }} {{ others.a }}"
    return Recipe.model_validate(data)


def test_answers_are_drawn_once_and_taken_as_they_were(tiny_words: Path, tmp_path: Path) -> None:
    recipe = sequential(tiny_words, tmp_path)
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["type"] == "step.finished"]
    assert len(rows) == 3
    assert all(row["episodes"] == 16 for row in rows)
    assert any(row["gradient_norm/a"] > 0 and row["gradient_norm/b"] > 0 for row in rows)
    drawn = 0
    for number in range(6):
        group = [e for e in read_episodes(tmp_path / "run") if e.group == number]
        assert [episode.sample for episode in group] == list(range(8))
        for episode, after in list(pairwise(group))[::2]:
            check_pair(episode, after)
        drawn += len({said(episode, 1) for episode in group})
    assert drawn > 6 * 4, "the second agent's answers differ"


def check_pair(episode: Episode, after: Episode) -> None:
    """The second of two episodes takes the first one's answer of `a`."""
    assert [d.given for d in episode.turns[0].decisions] == [False, False]
    assert [d.given for d in after.turns[0].decisions] == [True, False]
    a, b = episode.turns[0].decisions[0], after.turns[0].decisions[0]
    assert a.model_copy(update={"given": True}) == b
    asked = [e.turns[0].decisions[1].observation for e in (episode, after)]
    assert asked[0] == asked[1]
    assert episode.turns[0].artefacts["a"] == after.turns[0].artefacts["a"]


def said(episode: Episode, place: int) -> tuple[int, ...]:
    return episode.turns[0].decisions[place].action.token_ids


def test_what_was_given_is_not_learned(tiny_words: Path, tmp_path: Path) -> None:
    recipe = sequential(tiny_words, tmp_path)
    assert recipe.trainer is not None
    group = sample(chain(2), 4, np.random.default_rng(1))
    turn = group.episodes[1].turns[0]
    first = turn.decisions[0].model_copy(update={"given": True})
    turn = turn.model_copy(update={"decisions": (first, turn.decisions[1])})
    other = group.episodes[1].model_copy(update={"turns": (turn,)})
    given = type(group)(**{**vars(group), "episodes": (group.episodes[0], other)})
    weights = {(n, 0, agent): 1.0 for n in range(2) for agent in "ab"}
    samplings = {agent: recipe.sampling_of(agent) for agent in "ab"}
    samples = make_samples(Credit([given], [weights]), samplings, recipe.trainer)
    assert [s.agent for s in samples] == ["a", "b", "b"]


@pytest.mark.parametrize(
    ("fan_out", "trainer", "told"),
    [
        ([8, 1], {}, "leaves nothing to compare"),
        ([2, 2], {}, "whose product is group_size, 8"),
        ([8], {}, "a number for each of a, b"),
        ([4, 2], {"turn_structure": "tree"}, "set turn_structure to 'chains'"),
        ([4, 2], {"normalise": "group"}, "set normalise to 'none'"),
        ([4, 2], {"curriculum": [{"steps": 1, "turns": 2}]}, "is for one turn"),
        ([0, 2], {}, "how often it answers"),
        ([4, 2], {"algorithm": {"use": "c3", "options": {"fan_out": [4, 2], "value": 2}}}, "1 at"),
    ],
)
def test_what_would_be_wrong_is_refused(
    tiny_words: Path, tmp_path: Path, fan_out: list[int], trainer: dict[str, Any], told: str
) -> None:
    algorithm = {"use": "c3", "options": {"fan_out": fan_out}}
    with pytest.raises(RecipeError, match=told):
        check_recipe(sequential(tiny_words, tmp_path, **{"algorithm": algorithm, **trainer}))


def test_a_parallel_team_is_refused(tiny_words: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="algorithm to 'cross'"):
        check_recipe(make_game(tiny_words, tmp_path, **shipped()))
