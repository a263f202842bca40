"""RAE: a moving average of each agent's returns as its baseline."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from support.algorithm_runs import check_resume
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.trainers.credit.games import Game, code_like, estimate, one_turn, two_turns
from collab.trainers.credit.games.game import play, random_draw
from collab.trainers.credit.group import Group, Weights
from collab.trainers.credit.rae import Rae
from collab.trainers.credit.shape import Shape


def sample_group(game: Game, size: int = 1, seed: int = 0) -> Group:
    return play(game, size, random_draw(np.random.default_rng(seed)))


def credit(algorithm: Rae, *groups: Group) -> list[Weights]:
    return asyncio.run(algorithm.credit(groups))


def test_baseline_converges_to_a_constant_reward() -> None:
    algorithm, group = Rae(), sample_group(one_turn(np.full((2, 2), 3.0), [0.5, 0.5], [0.5, 0.5]))
    for step in range(5):
        [weights] = credit(algorithm, group)
        assert weights[0, 0, "a"] == pytest.approx(3.0 * 0.95**step)
    assert algorithm.measures()["credit/a/average"] == pytest.approx(3.0 * (1 - 0.95**5))


def test_advantage_of_a_seat_gives_no_credit() -> None:
    """In a zero-sum game that the first player always wins, neither player gets credit."""
    game = one_turn(np.zeros((2, 2)), [0.5, 0.5], [0.5, 0.5])
    game = Game(
        game.agents, game.rewards, game.logits, extra={"a": np.ones((2, 2)), "b": -np.ones((2, 2))}
    )
    algorithm = Rae()
    for _ in range(200):
        [weights] = credit(algorithm, sample_group(game))
    assert weights[0, 0, "a"] == pytest.approx(0, abs=1e-3)
    assert weights[0, 0, "b"] == pytest.approx(0, abs=1e-3)


def test_each_game_has_its_own_average() -> None:
    algorithm, group = Rae(decay=0.0), sample_group(one_turn([[1.0]], [1.0], [1.0]))
    [other] = group.episodes
    other = other.model_copy(update={"task": "poker/3"})
    elsewhere = Group(**{**vars(group), "episodes": (other,)})
    assert elsewhere.task == "poker/3"
    [first, second] = credit(algorithm, group, elsewhere)
    assert first[0, 0, "a"] == second[0, 0, "a"] == 1.0
    assert credit(algorithm, elsewhere)[0][0, 0, "a"] == 0.0


@pytest.mark.parametrize(
    ("game", "shape"),
    [(code_like(variants=1), None), (two_turns(), None), (two_turns(), Shape("tree", 2, 2))],
    ids=["one turn", "chains", "tree"],
)
def test_gradient_is_unbiased(game: Game, shape: Shape | None) -> None:
    found = asyncio.run(
        estimate(game, Rae(), groups=1000, group_size=2, shape=shape, groups_per_step=4)
    )
    for agent in game.agents:
        assert found.errors(agent) < 3


@pytest.mark.slow
def test_state_survives_a_resume_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    rows = check_resume("rae", tiny_words, tmp_path, group_size=1, tasks_per_step=3)
    assert all("credit/a/average" in row for row in rows)


def test_decay_of_one_is_refused(tiny_words: Path, tmp_path: Path) -> None:
    from collab.trainers.training.check import check_recipe

    algorithm = {"use": "rae", "options": {"decay": 1.0}}
    with pytest.raises(RecipeError, match="option 'decay': must be less than 1, got 1"):
        check_recipe(make_game(tiny_words, tmp_path, algorithm=algorithm))
