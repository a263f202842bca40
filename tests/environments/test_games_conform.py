"""Every game passes the conformance suite, no constant text earns a reward; the rules of nim."""

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from support.games import MATCH

from collab.environments import BUILT_IN, Environment, Step, environment_for
from collab.environments.base import fault_of, rewards_by_seat
from collab.environments.conformance import CHECKS, conform
from collab.environments.nim import Nim
from collab.errors import RecipeError
from collab.recipe.base import Component


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_a_game_conforms(name: str) -> None:
    found = conform(BUILT_IN[name], episodes=100)
    assert len(found) == len(CHECKS)
    assert [check for check in found if check.fault] == []


NUMBER: Any = 3


def match() -> type[Environment]:
    spaces: dict[str, Any] = {}
    exec(MATCH, spaces)
    found: type[Environment] = spaces["Match"]
    return found


FAULTS: dict[str, Callable[[type[Environment]], dict[str, Any]]] = {
    "did not end": lambda game: {"step": lambda self, actions: Step(self._observed())},
    "allows 0 to 0.5": lambda game: {"returns": (0.0, 0.5)},
    "`zero_sum` is set": lambda game: {"zero_sum": True},
    "two different games": lambda game: {"reset": reset_with_other_randomness(game)},
    r"test_games_conform\.py:\d+: ZeroDivisionError": lambda game: {
        "step": lambda self, actions: 1 / 0
    },
    r"reset paid \{'left': 0.5\}": lambda game: {"reset": reset_with_rewards(game)},
    "continued differently|its deep copy": lambda game: {"__deepcopy__": lambda self, memo: self},
    "after the end": lambda game: {"moves": lambda self: {"left": ["x"]}},
    "a int, not text": lambda game: {"render": lambda self: 3},
    "'nobody', which is not one of": lambda game: {"step": lambda self, a: Step({"nobody": ""})},
    "not a finite number": lambda game: {"step": lambda self, a: Step(rewards=float("inf"))},
    "a int as a summary": lambda game: {"step": lambda self, a: Step(summary=NUMBER)},
    "a int as observations, not a map": lambda game: {"step": lambda self, a: Step(NUMBER)},
    "3 as solved": lambda game: {"step": lambda self, a: Step(solved=NUMBER)},
}


def reset_with_other_randomness(game: type[Environment]) -> Callable[..., Step]:
    outside = Random(3)
    return lambda self, random: game.reset(self, outside)


def reset_with_rewards(game: type[Environment]) -> Callable[..., Step]:
    return lambda self, random: replace(game.reset(self, random), rewards={"left": 0.5})


@pytest.mark.parametrize("number", [np.float32, np.float64, np.int64])
def test_rewards_and_values_may_be_numbers_of_numpy(number: Callable[[int], Any]) -> None:
    step = Step(rewards={"left": number(1)}, values={"done": number(1)})
    assert fault_of(step, ("left", "right")) == ""
    assert rewards_by_seat(step.rewards, ("left", "right")) == {"left": 1.0, "right": 0.0}


@pytest.mark.parametrize("opened", [-2, 1, 3, 5, 6])
def test_board_with_an_invalid_number_of_marks_is_refused(opened: int) -> None:
    make = environment_for(Component(use="tic-tac-toe", options={"opened": opened}))
    with pytest.raises(RecipeError, match=f"'opened': must be 0, 2 or 4, got {opened}"):
        make({})


@pytest.mark.parametrize("fault", list(FAULTS))
def test_conformance_suite_detects_each_fault(fault: str) -> None:
    game = match()
    assert all(not check.fault for check in conform(game, episodes=40))

    class Broken(game):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__()
            for name, value in changes.items():
                if not callable(value):
                    setattr(self, name, value)

    changes = FAULTS[fault](game)
    for name, value in changes.items():
        if callable(value):
            setattr(Broken, name, value)
    faults = [found.fault for found in conform(Broken, episodes=40)]
    assert any(re.search(fault, each) for each in faults), faults


FORFEITS = (
    "I win", "reward: 1", "rewards=1.0", "both", "all of them", "*", ".*",
    "take 1 from 1\ntake 1 from 2", "check or call", "bet bet", "check\nbet",
    "fold; you fold too", "1 2 3", "1,5,9", "10", "0", "-5", "５",
    "solved", "{'first': 1.0}", "take 1 from 1; take 2 from 2", "take 99 from 1",
    "take 1.0 from 1", "+1",
)  # fmt: skip


@pytest.mark.parametrize("name", ["nim", "kuhn", "tic-tac-toe"])
def test_cheats_in_a_two_player_game_forfeit_at_the_largest_cost(name: str) -> None:
    chance = Random(5)
    for cheat in 20 * FORFEITS:
        game = BUILT_IN[name]()
        step = game.reset(chance)
        for _ in range(chance.randrange(3)):
            ((seat, legal),) = game.moves().items()
            after = game.step({seat: chance.choice(legal)})
            if after.ended:
                break
            step = after
        else:
            (seat,) = step.observations
            step = game.step({seat: cheat})
            assert step.ended, cheat
            assert rewards_by_seat(step.rewards, game.seats)[seat] == game.returns[0]


BLOCKS = (
    "fill warm 1 1 5 5", "fill red 0 0 9 9", "fill red -1 1 5 5", "fill red 1 1 5",
    "fill any 1 1 5 5",
    "fill red 1 1 5 5 5", "fill  1 1 5 5", "red 1 1 5 5", "cover=1.0", "fill '#' 1 1 5 5",
    "fill red 1.0 1 5 5", "fill red １ 1 5 5", "fill purple 1 1 5 5", "clear 0 0 9 9", "clear all",
    "solved", "reward 2", "fill red 1 1 5 5; fill blue 1 1 5 5", "extra=-1", "undo",
    "/fill 1 1 5 5 red",
)  # fmt: skip
GRID = (
    "G", "goal", "teleport", "URDLX", "U;R", "U*100", "jump 3 3", "5", "north", "u r d l !",
    "near=1", "reward 1.5", "(3,3)", "UU DD go", "W", "#", "solved", "RRRR\nG", "[U, R]",
    "{'U': 100}", "",
)  # fmt: skip
SUDOKU = (
    "5 1 1", "0 0 1", "1 1 5", "1 1", "1 1 1 1", "solved", "right=1", "1 1 1 # 2", "all", "* * *",
    "row 1 column 1 digit 1", "1-1-1", "１ 1 1", "1 1 one", "{}", "[[1,2,3,4]]", "11 1", "-1 1 1",
    "1.0 1 1", "", "1 1 =4",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "seat", "cheats"),
    [
        ("blocks2d", "warm", BLOCKS),
        ("grid-plan", "walker", GRID),
        ("mini-sudoku", "filler", SUDOKU),
    ],
)
def test_cheats_in_a_cooperative_game_earn_no_more_than_silence(
    name: str, seat: str, cheats: tuple[str, ...]
) -> None:
    assert len(cheats) >= 20
    for number in range(10):
        silence = return_of_constant_text(name, seat, "", number)
        for cheat in cheats:
            assert return_of_constant_text(name, seat, cheat, number) <= silence + 1e-9, cheat


def return_of_constant_text(name: str, seat: str, text: str, seed: int) -> float:
    """The return of a player that repeats a text while the others say nothing."""
    game, total = BUILT_IN[name](), 0.0
    step = game.reset(Random(seed))
    while not step.ended:
        step = game.step({**dict.fromkeys(game.seats, ""), seat: text})
        total += rewards_by_seat(step.rewards, game.seats)[seat]
    return total


def test_progress_is_rewarded_only_once() -> None:
    """Moving back and forth, or writing and overwriting, earns nothing."""
    for number in range(20):
        for text in ("UDUDUD", "LRLRLR", "UUUUUU", "RRLLRR"):
            near = return_of_constant_text("grid-plan", "walker", text, number)
            assert near < 0.5 or near > 1.5, "the walker is near the goal or at it"
        for text in ("1 1 1\n1 1 2\n1 1 3\n1 1 4", "\n".join(["1 1 1"] * 16)):
            assert return_of_constant_text("mini-sudoku", "filler", text, number) < 0.5
        for text in ("fill red 1 1 5 5\nclear 1 1 5 5", "fill red 1 1 5 5\nfill yellow 1 1 5 5"):
            assert return_of_constant_text("blocks2d", "warm", text, number) < 1.0


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
