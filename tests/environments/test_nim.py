"""Nim: the player that takes the last stick wins."""

from random import Random

import pytest

from collab.environments.nim import Nim
from collab.errors import RecipeError


def play(*moves: str, heaps: tuple[int, ...] = (2, 1)) -> tuple[Nim, dict[str, float]]:
    game = Nim(heaps)
    step = game.reset(Random(0))
    for move in moves:
        (seat,) = step.observations
        step = game.step({seat: move})
    assert step.ended
    assert isinstance(step.rewards, dict)
    return game, step.rewards


def test_the_last_stick_wins() -> None:
    assert play("take 2 from 1", " Take 1 from 2. ")[1] == {"first": -1.0, "second": 1.0}
    game, earned = play("take 1 from 1", "take 1 from 1", "take 1 from 2")
    assert earned == {"first": 1.0, "second": -1.0}
    assert game.render() == "heap 1: -\nheap 2: -\nwon by first"
    assert game.moves() == {}


@pytest.mark.parametrize(
    "move", ["", "take 3 from 1", "take 1 from 3", "take 0 from 1", "take -1 from 1", "take 1", "١"]
)
def test_an_illegal_move_forfeits(move: str) -> None:
    assert play(move)[1] == {"first": -1.0, "second": 1.0}
    assert play("take 1 from 1", move)[1] == {"first": 1.0, "second": -1.0}


def test_invalid_heaps_are_refused() -> None:
    with pytest.raises(RecipeError, match="at most 9, with 1 to 30 sticks"):
        Nim((31,))
    with pytest.raises(RecipeError, match="with 1 to 30 sticks"):
        Nim((0, 0))
