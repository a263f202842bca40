"""Known solutions of the games agree with played games."""

import importlib
import sys
from collections.abc import Mapping
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from collab.environments.kuhn import CARDS, LEGAL_MOVES, Kuhn
from collab.environments.tic_tac_toe import TicTacToe, winner

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
kuhn: Any = importlib.import_module("kuhn_solution")

Strategy = Mapping[tuple[str, str], Mapping[str, float]]


@cache
def value_of_board(board: tuple[str, ...], player: str = "x") -> int:
    """Return the payoff of `player`, who moves next, under best play: 1, 0 or -1."""
    if winner(board):
        return -1
    empty = [n for n, mark in enumerate(board) if not mark]
    other = "o" if player == "x" else "x"
    moved = ((*board[:n], player, *board[n + 1 :]) for n in empty)
    return max((-value_of_board(after, other) for after in moved), default=0)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1 / 3])
def test_equilibrium_of_kuhn_poker_has_the_known_value(alpha: float) -> None:
    best = kuhn.equilibrium(alpha)
    assert kuhn.value(best, best) == pytest.approx(-1 / 18) == kuhn.VALUE
    assert kuhn.exploitability(best) == pytest.approx(0.0)


def test_suboptimal_play_is_exploitable() -> None:
    assert kuhn.exploitability(kuhn.uniform()) == pytest.approx(0.4583333)
    with_jack = {**kuhn.equilibrium(), ("jack", "b"): {"c": 1.0}}
    assert kuhn.exploitability(with_jack) > 0.1
    silent: Strategy = {situation: {} for situation in kuhn.situations()}
    assert kuhn.exploitability(silent) == pytest.approx(2.0)


def test_best_reply_beats_every_other_reply() -> None:
    """The best reply is computed per situation and checked against all replies."""
    chance = Random(1)
    strategy = {}
    for card, history in kuhn.situations():
        share = chance.random()
        letters = [move[0] for move in LEGAL_MOVES[history]]
        strategy[card, history] = dict(zip(letters, (share, 1 - share), strict=True))
    gains = []
    for seat, histories in enumerate((("", "cb"), ("c", "b"))):
        situations = list(product(CARDS, histories))
        found = []
        for moves in product(*([m[0] for m in LEGAL_MOVES[h]] for _, h in situations)):
            reply = {**strategy, **{s: {m: 1.0} for s, m in zip(situations, moves, strict=True)}}
            earned = kuhn.value(reply, strategy) if seat == 0 else -kuhn.value(strategy, reply)
            found.append(earned)
        gains.append(max(found))
    assert kuhn.exploitability(strategy) == pytest.approx(sum(gains) / 2)


def test_played_kuhn_poker_has_the_value_of_its_solution() -> None:
    chance, strategy = Random(0), kuhn.equilibrium()
    earned = []
    for _ in range(6000):
        game = Kuhn()
        step = game.reset(chance)
        while not step.ended:
            ((seat, observation),) = step.observations.items()
            assert not isinstance(observation, str)
            history = {"Nobody has bet": "", "The other player checked": "c"}.get(
                observation["summary"]
            )
            if history is None:
                history = "cb" if seat == "first" else "b"
            chances = strategy[observation["card"], history]
            letter = chance.choices([*chances], [*chances.values()])[0]
            word = next(move for move in observation["legal"] if move[0] == letter)
            step = game.step({seat: word})
        assert isinstance(step.rewards, dict)
        assert step.rewards["first"] == -step.rewards["second"]
        earned.append(step.rewards["first"])
    assert sum(earned) / len(earned) == pytest.approx(kuhn.VALUE, abs=0.06)


def test_tic_tac_toe_is_a_draw() -> None:
    assert value_of_board(("",) * 9) == 0
    assert value_of_board(("x", "x", "", "o", "o", "", "", "", "")) == 1
    game = TicTacToe()
    step = game.reset(Random(0))
    while not step.ended:
        ((player, observation),) = step.observations.items()
        assert not isinstance(observation, str)
        board = tuple("" if mark.isdigit() else mark for mark in observation["board"].split())
        other = "o" if player == "x" else "x"
        after = {
            n: -value_of_board((*board[: n - 1], player, *board[n:]), other)
            for n in observation["empty"]
        }
        step = game.step({player: str(max(after, key=lambda n: after[n]))})
    assert step.rewards == 0.0
    assert game.render().endswith("a draw")
