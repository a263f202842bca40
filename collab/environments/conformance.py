"""The test suite that every environment must pass, including users' own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from random import Random
from typing import Any

from collab.environments.base import (
    Environment,
    Observation,
    Step,
    fault_of,
    fault_of_start,
    fault_of_state,
    rewards_by_seat,
)
from collab.errors import format_error

NewGame = Callable[[], Environment]

HOSTILE_ANSWERS = (
    "", " ", "\n\n", "\x00", "0", "-1", "9" * 400, "1e309", "nan", "None", "True", "[]", "{}", "()",
    "a" * 100_000, "(" * 5000, "\ud800", "١", "１", "💥", "'; DROP TABLE games; --",
    "__import__('os')", "{{ observation }}", "rewards=1.0", "solved", "I win", "reward: 1", "\\",
    "%s", "first", "second", "pass", "resign", "undo", "reset", "\u202e", "a\u0300", "\r", "\t",
    "<|endoftext|>",
)  # fmt: skip
"""Answers that are rarely legal moves. None of them may cause an error."""


class Fault(Exception):
    """An environment breaks a rule. The message says how."""


@dataclass(frozen=True)
class CheckResult:
    """A check with its fault, or "" if it passes."""

    check: str
    fault: str


def conform(make: NewGame, *, episodes: int = 300, seed: int = 0) -> list[CheckResult]:
    """Run every check on an environment, and return the results. `make` returns a new environment
    for each game."""
    results = []
    for check in CHECKS:
        fault = ""
        try:
            check(make, episodes, seed)
        except Fault as broken:
            fault = str(broken)
        except Exception as error:
            fault = format_error(error)
        results.append(CheckResult(str(check.__doc__).partition("\n")[0], fault))
    return results


def check_games_end(make: NewGame, episodes: int, seed: int) -> None:
    """Games end within their turns, and pay finite rewards within the declared bounds."""
    for number in range(episodes):
        random = Random(f"{seed} {number}")
        for _ in play(make(), random, hostile_share=0.1 if number % 2 else 0.0):
            pass


def check_seeds(make: NewGame, episodes: int, seed: int) -> None:
    """The same seed and the same moves make the same game, on a new object and on a used one."""
    used = make()
    for number in range(min(episodes, 100)):
        first = play_game(make(), Random(f"{seed} {number}"), Random(f"{seed} {number}"))
        if first != play_game(make(), Random(f"{seed} {number}"), Random(f"{seed} {number}")):
            raise Fault(f"seed {number} made two different games")
        if first != play_game(used, Random(f"{seed} {number}"), Random(f"{seed} {number}")):
            raise Fault(f"a used object made a different game from seed {number}")


def check_copies(make: NewGame, episodes: int, seed: int) -> None:
    """A deep copy continues as the original would, and leaves the original unchanged."""
    for number in range(min(episodes, 100)):
        game, random = make(), Random(f"{seed} {number}")
        played = islice(play(game, random), random.randrange(1, 4))
        *_, (_, step) = played
        if step.ended:
            continue
        before, twin = game.render(), copy.deepcopy(game)
        continued = play_rest(twin, step, Random(f"{seed} {number}"))
        if game.render() != before:
            raise Fault("a game changed while its deep copy was played")
        if continued != play_rest(game, step, Random(f"{seed} {number}")):
            raise Fault("a deep copy continued differently from the original")


def check_texts(make: NewGame, episodes: int, seed: int) -> None:
    """Any text of a model leads to an outcome, never to an exception."""
    rounds = max(1, min(episodes, 1000) // len(HOSTILE_ANSWERS))
    for number, text in enumerate(HOSTILE_ANSWERS * rounds):
        for _ in play(make(), Random(f"{seed} {number}"), answer=text):
            pass


def check_moves(make: NewGame, episodes: int, seed: int) -> None:
    """Legal moves are listed only for seats that must act, and for none after the end."""
    for number in range(min(episodes, 100)):
        game = make()
        for _, after in play(game, Random(f"{seed} {number}")):
            if after.ended and game.moves():
                raise Fault(f"moves returns moves after the end of the game: {game.moves()!r:.80}")


CHECKS = (check_games_end, check_seeds, check_copies, check_texts, check_moves)


def play(
    game: Environment, random: Random, *, hostile_share: float = 0.0, answer: str | None = None
) -> Iterator[tuple[Step, Step]]:
    """Play random legal moves or hostile answers, and yield each step with the step before it.

    Raises:
        Fault: the game breaks a rule.
    """
    step = game.reset(random)
    raise_fault("reset", fault_of_start(step, game.seats))
    if any(rewards_by_seat(step.rewards, game.seats).values()):
        raise Fault(f"reset paid {step.rewards!r:.80}; its rewards are not counted; pay in step")
    total = dict.fromkeys(game.seats, 0.0)
    for _ in range(game.turns):
        before, step = step, game.step(choose_answers(game, step, random, hostile_share, answer))
        raise_fault("step", fault_of(step, game.seats))
        for seat, reward in rewards_by_seat(step.rewards, game.seats).items():
            total[seat] += reward
        raise_fault("render", fault_of_state(game.render()))
        yield before, step
        if step.ended:
            check_returns(game, total)
            return
    raise Fault(f"a game did not end within {game.turns} turns, the maximum in `turns`")


def choose_answers(
    game: Environment, step: Step, random: Random, hostile_share: float, answer: str | None
) -> dict[str, str]:
    """Return an answer for each seat that must act: a legal move, or a hostile text for a
    `hostile_share` of the answers. If `answer` is set, every seat gives that."""
    legal = game.moves()
    if strangers := set(legal) - set(step.observations):
        raise Fault(f"moves returns moves for {', '.join(strangers)}, who does not act now")
    answers = {}
    for seat in step.observations:
        texts = legal.get(seat) or HOSTILE_ANSWERS
        text = random.choice(HOSTILE_ANSWERS if random.random() < hostile_share else texts)
        answers[seat] = text if answer is None else answer
    return answers


def raise_fault(method: str, fault: str) -> None:
    """Raise Fault if what a method returned has a fault."""
    if fault:
        raise Fault(f"{method} returned {fault}")


def check_returns(game: Environment, total: Mapping[str, float]) -> None:
    """Check the return of each seat against `returns` and `zero_sum`."""
    least, largest = game.returns
    for seat, earned in total.items():
        if not (isfinite(earned) and least - 1e-9 <= earned <= largest + 1e-9):
            raise Fault(f"{seat} earned {earned:g}, but `returns` allows {least:g} to {largest:g}")
    if game.zero_sum and abs(sum(total.values())) > 1e-9:
        raise Fault(f"`zero_sum` is set, but the seats earned {sum(total.values()):g} together")


def play_game(game: Environment, deal: Random, random: Random) -> list[Any]:
    """Play a whole game with random moves, and return the steps as plain data."""
    step = game.reset(deal)
    return [plain_data(step), game.render(), *play_rest(game, step, random)]


def play_rest(game: Environment, step: Step, random: Random) -> list[Any]:
    """Play the rest of a game with random moves, and return it as plain data."""
    steps: list[Any] = []
    while not step.ended and len(steps) < game.turns:
        step = game.step(choose_answers(game, step, random, 0.1, None))
        steps.append((plain_data(step), game.render()))
    return steps


def plain_data(step: Step) -> Any:
    """Return a step as data that can be compared."""
    observed = {
        seat: (str(each), dict(each) if isinstance(each, Observation) else {})
        for seat, each in step.observations.items()
    }
    return observed, step.rewards, step.solved, step.summary, dict(step.values)
