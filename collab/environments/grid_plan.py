"""A scout with the map guides a walker through a grid with walls."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from random import Random
from typing import Annotated

from pydantic import Field

from collab.environments.base import Environment, Observation, Step

GridCell = tuple[int, int]

MOVES = {"U": (0, -1), "D": (0, 1), "L": (-1, 0), "R": (1, 0)}
WALL_SHARE = 0.22
"""Share of cells that are walls."""

MOVE_REWARD, BLOCKED_REWARD, MISSED_REWARD = -0.01, -0.1, -1.0
GOAL_REWARD, SHORTEST_WAY_REWARD = 1.0, 0.5
"""Rewards, in addition to the share of the way."""


class GridPlan(Environment):
    """The scout sees the map with the walker, and the walker only adjacent walls. Both are paid.

    The walker's action consists of the letters U, D, L and R, joined or separated. The first
    `stride` count. Any other answer costs 0.1. The scout's answer changes nothing in the
    grid, and reaches the walker if the protocol shows it, such as `sequential`. Each move costs
    0.01, and 0.1 more if it is blocked. Each cell closer to the goal pays its share of the whole
    way. Reaching the goal pays 1, and 0.5 more by a shortest way. Otherwise the end of the game
    costs 1. The game is Plan-Path of PettingLLMs without its discount of nearness by 0.99, which
    would pay for waiting far from the goal.

    Args:
        size: number of cells each way.
        stride: number of moves per turn.
    """

    seats = ("scout", "walker")

    def __init__(
        self,
        *,
        size: Annotated[int, Field(ge=4, le=12)] = 5,
        turns: Annotated[int, Field(ge=1, le=8)] = 4,
        stride: Annotated[int, Field(ge=1, le=24)] = 6,
    ) -> None:
        self.size, self.turns, self.stride = size, turns, stride
        self.returns = (
            MISSED_REWARD + (MOVE_REWARD + BLOCKED_REWARD) * turns * stride - size,
            1 + GOAL_REWARD + SHORTEST_WAY_REWARD,
        )
        self._walls: frozenset[GridCell] = frozenset()
        self._walker: GridCell = (0, 0)
        self._goal: GridCell = (0, 0)
        self._goal_distances: dict[GridCell, int] = {}
        self._start_distance, self._moves_made, self._turns_played = 1, 0, 0

    def reset(self, random: Random) -> Step:
        cells = [(x, y) for x in range(self.size) for y in range(self.size)]
        while True:
            walls = random.sample(cells, int(WALL_SHARE * len(cells)))
            self._walls = frozenset(walls)
            free = [cell for cell in cells if cell not in self._walls]
            self._walker, self._goal = random.sample(free, 2)
            self._goal_distances = self._find_distances()
            self._start_distance = self._goal_distances.get(self._walker, 0)
            if self._start_distance >= self.size - 1:
                break
        self._moves_made = self._turns_played = 0
        return Step(self._observations())

    def step(self, actions: Mapping[str, str]) -> Step:
        self._turns_played += 1
        before, reward = self._goal_distances[self._walker], 0.0
        letters = read_moves(actions["walker"], self.stride)
        blocked = not letters
        if not letters:
            reward += BLOCKED_REWARD
        for letter in letters:
            if self._walker == self._goal:
                break
            to = neighbor(self._walker, letter)
            moved = self._is_free(to)
            if moved:
                self._walker = to
            blocked |= not moved
            reward += MOVE_REWARD if moved else MOVE_REWARD + BLOCKED_REWARD
            self._moves_made += 1
        reward += (before - self._goal_distances[self._walker]) / self._start_distance
        is_at_goal, is_over = self._walker == self._goal, self._turns_played == self.turns
        if is_at_goal:
            is_shortest = self._moves_made == self._start_distance
            reward += GOAL_REWARD + SHORTEST_WAY_REWARD * is_shortest
        elif is_over:
            reward += MISSED_REWARD
        summary = f"the walker goes {''.join(letters) or 'nowhere'}" + ", and is blocked" * blocked
        near = max(0.0, 1 - self._goal_distances[self._walker] / self._start_distance)
        seen = {} if is_at_goal or is_over else self._observations()
        return Step(
            seen, reward, is_at_goal, summary + ", to the goal" * is_at_goal, {"near": near}
        )

    def render(self) -> str:
        marks = {**dict.fromkeys(self._walls, "#"), self._goal: "G", self._walker: "W"}
        places = range(self.size)
        return "\n".join("".join(marks.get((x, y), ".") for x in places) for y in places)

    def moves(self) -> Mapping[str, Sequence[str]]:
        if self._walker == self._goal or self._turns_played == self.turns:
            return {}
        return {"scout": ["go on"], "walker": [*MOVES, "".join(self._shortest_way())]}

    def _shortest_way(self) -> list[str]:
        """Return a shortest way to the goal, or its first `stride` moves."""
        place = self._walker
        letters: list[str] = []
        while place != self._goal and len(letters) < self.stride:
            letter = min(MOVES, key=lambda m: self._goal_distances.get(neighbor(place, m), 10**6))
            letters.append(letter)
            place = neighbor(place, letter)
        return letters

    def _is_free(self, cell: GridCell) -> bool:
        return cell not in self._walls and all(0 <= c < self.size for c in cell)

    def _find_distances(self) -> dict[GridCell, int]:
        """Return the number of moves from each reachable cell to the goal."""
        distances, waiting = {self._goal: 0}, deque([self._goal])
        while waiting:
            cell = waiting.popleft()
            for to in (neighbor(cell, letter) for letter in MOVES):
                if self._is_free(to) and to not in distances:
                    distances[to] = distances[cell] + 1
                    waiting.append(to)
        return distances

    def _observations(self) -> dict[str, Observation]:
        ways = [letter for letter in MOVES if self._is_free(neighbor(self._walker, letter))]
        drawn = self.render()
        text = f"{drawn}\nW is the walker, G the goal, # a wall. Tell the walker where to go."
        walker_text = f"You can go {', '.join(ways)}. Say up to {self.stride} moves: U, D, L or R."
        return {
            "scout": Observation(text, map=drawn, stride=self.stride),
            "walker": Observation(walker_text, ways=ways, stride=self.stride),
        }


def neighbor(cell: GridCell, letter: str) -> GridCell:
    """Return the cell next to `cell` in the direction U, D, L or R."""
    dx, dy = MOVES[letter]
    return cell[0] + dx, cell[1] + dy


def read_moves(text: str, limit: int) -> list[str]:
    """Return the first `limit` moves in an answer, or an empty list if it contains other text."""
    letters = "".join(text[:200].upper().replace(",", " ").rstrip(". \n").split())
    return list(letters[:limit]) if set(letters) <= set(MOVES) else []
