"""Process rewards: what they pay for, and that they leave the gradient as it is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.rule_runs import check_resume
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.recipe import load_recipe
from collab.recipe.base import Component
from collab.trainers.credit import Algorithm, Group, algorithm_for
from collab.trainers.credit.games import Game, estimate, expectation, gradient, sample
from collab.trainers.credit.shape import Shape
from collab.trainers.credit.shaped import Shaped, shaped
from collab.trainers.training.check import check_recipe

MADE_OF_MORE = ["cross", "removal", "sft"]
"""Rules whose weights are not made of the played rewards alone."""


def a_game(*, discount: float = 1.0, ends: bool = False) -> Game:
    """Two turns; the second one's state is what b did in the first."""
    rng = np.random.default_rng(7)
    logits = {("a", t, s): rng.normal(size=2) for t, s in ((0, 0), (1, 0), (1, 1))}
    logits |= {("b", t, s): rng.normal(size=(2, 2)) for t, s in ((0, 0), (1, 0), (1, 1))}
    return Game(
        ("a", "b"),
        (rng.normal(size=(2, 2)), rng.normal(size=(2, 2))),
        logits,
        sees={"b": ("a",)},
        states=np.array([[0, 1], [0, 1]]),
        solved=np.array([[ends, False], [False, False]]),
        discount=discount,
    )


def rule(name: str, **options: Any) -> Algorithm:
    return algorithm_for(Component(use=name, options=options))


@pytest.mark.parametrize("weight", [1.0, 0.4])
@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize(("name", "ends"), [("marloo", False), ("mareinforce", True)])
def test_the_gradient_stays_exactly(name: str, ends: bool, discount: float, weight: float) -> None:
    game = a_game(discount=discount, ends=ends)
    found = asyncio.run(expectation(game, Shaped(rule=name, weight=weight), 2))
    for agent, true in gradient(game).items():
        assert found[agent] == pytest.approx(true, abs=1e-12)


def test_it_stays_in_a_tree() -> None:
    game, shape = a_game(), Shape("tree", 2, 2)
    found = asyncio.run(
        estimate(game, Shaped(rule="mareinforce"), groups=1200, group_size=2, shape=shape)
    )
    assert max(map(found.errors, game.agents)) < 3


def test_nobody_is_paid_for_what_it_was_handed() -> None:
    """b decides the reward in the first turn and keeps to it in the second; a has no influence."""
    logits = {("a", turn, state): np.zeros(2) for turn, state in ((0, 0), (1, 0), (1, 1))}
    logits |= {("b", 0, 0): np.zeros(2)}
    logits |= {("b", 1, state): 60 * np.eye(2)[state] for state in (0, 1)}
    table = np.array([[3.0, 1.0], [3.0, 1.0]])
    game = Game(("a", "b"), (table, table), logits, states=np.array([[0, 1], [0, 1]]))
    group = sample(game, 6, np.random.default_rng(1))
    [plain], [found] = (asyncio.run(rule(name).credit([group])) for name in ("marloo", "shaped"))
    late = [key for key in found if key[1] == 1]
    assert all(abs(plain[key]) > 0.5 for key in late)  # type: ignore[arg-type]
    assert all(found[key] == 0 for key in late)
    assert all(found[key] == plain[key] for key in found if key not in late)


@pytest.mark.parametrize("discount", [1.0, 0.5])
def test_shaped_rewards_add_up_to_the_returns(discount: float) -> None:
    """As of any rewards: a turn's and what follows, and nothing that absorbing adds."""
    group = sample(a_game(discount=discount, ends=True), 8, np.random.default_rng(0))
    found = shaped(group)
    assert {len(episode.turns) for episode in group.episodes} == {1, 2}
    for node, children in group.children.items():
        later = [found.returns[child]["a"] for child in children]
        expected = found.rewards[node]["a"] + discount * sum(later)
        assert found.returns[node]["a"] == pytest.approx(expected, abs=1e-12)
        if node[1] == 0:
            assert found.returns[node] == group.returns[node]


def test_a_turn_that_changes_nothing_is_paid_nothing() -> None:
    from support.episodes import make_episode, make_score

    from collab.trainers.credit.group import make_group, tree_of

    episodes = [
        make_episode("t/1", n, *map(make_score, rewards), horizon=2)
        for n, rewards in enumerate([(2.0, 2.0), (1.0, 3.0)])
    ]
    tree = tree_of(episodes, Shape("chains", 2, 2))
    rewards = {(e, t): {"main": float(episodes[e].rewards[t])} for e, t in tree.nodes}
    group: Group = make_group(episodes, ["main"], rewards, tree, 1.0)
    found = shaped(group)
    assert [found.returns[n, 1]["main"] for n in range(2)] == [0.0, 2.0]
    [weights] = asyncio.run(rule("shaped").credit([group]))
    assert [weights[n, 1, "main"] for n in range(2)] == [-2.0, 2.0]
    assert [weights[n, 0, "main"] for n in range(2)] == [0.0, 0.0]


def test_a_rule_with_state_goes_on_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    algorithm = {"use": "shaped", "options": {"rule": "rae", "options": {"decay": 0.9}}}
    recipe = make_game(
        tiny_words, tmp_path, algorithm=algorithm, group_size=2, steps=3, checkpoint_every=1
    )
    team = recipe.team.model_copy(update={"turns": 2})
    recipe = recipe.model_copy(update={"team": team})
    rows = check_resume(algorithm, tiny_words, tmp_path, recipe=recipe)
    assert all("credit/a/average" in row for row in rows)


@pytest.mark.parametrize(
    ("options", "trainer", "told"),
    [
        *(({"rule": name}, {}, f"cannot shape '{name}'") for name in MADE_OF_MORE),
        ({}, {"turn_structure": "greedy"}, "has no effect with turn_structure 'greedy'"),
        ({"rule": "shaped"}, {}, "unknown algorithm 'shaped'"),
        ({"rule": "margpo"}, {}, "magrpo"),
        ({}, {"group_size": 1}, "nothing to compare"),
    ],
)
def test_what_would_be_wrong_is_refused(
    tiny_words: Path, tmp_path: Path, options: dict[str, Any], trainer: dict[str, Any], told: str
) -> None:
    algorithm = {"use": "shaped", "options": options}
    with pytest.raises(RecipeError, match=told):
        check_recipe(make_game(tiny_words, tmp_path, algorithm=algorithm, **trainer))


def test_a_solved_task_that_earns_nothing_more_is_refused(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, algorithm="shaped")
    team = recipe.team.model_copy(update={"when_solved": "stop"})
    with pytest.raises(RecipeError, match=r"set team\.when_solved to 'absorb'"):
        check_recipe(recipe.model_copy(update={"team": team}))


def test_a_rule_of_ones_own_that_scores_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text(
        "class Asks:\n"
        "    async def prepare(self, group): pass\n"
        "    async def credit(self, groups): return []\n"
        "    def state(self): return {}\n"
        "    def restore(self, state): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match=r"cannot shape 'own\.py:Asks'"):
        Shaped(rule="own.py:Asks")


def test_a_game_of_several_turns_may_be_shaped() -> None:
    """It asks for no joint action beside those that were played."""
    trainer = {"extends": "magrpo", "algorithm": "shaped"}
    recipe = load_recipe("blocks2d", task="blocks2d", trainer=trainer)
    assert recipe.team.turns > 1
    team = recipe.team.model_copy(update={"when_solved": "absorb"})
    check_recipe(recipe.model_copy(update={"team": team}))
