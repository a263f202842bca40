"""Bias, variance and cost of credit algorithms, on small teams whose true gradient is known.

    python benchmarks/credit.py [--groups 4000] [--algorithms "marloo;cross"] [--games code,and]
        [--warmup 800]

A row is an algorithm on a game, with groups of 8 (4 for the paper's game), and one value per agent:

bias      distance of the mean estimate from the gradient, in standard errors; up to 3 is chance.
          MAGRPO is short by 1/G, which acts as a smaller learning rate and shows here
variance  variance of a group's estimate, relative to MARLOO's at the same tokens
cosine    mean cosine between a group's estimate and the gradient
dead      share of groups without any gradient
judged    joint actions scored per group, except those that were played

Algorithms with a network (critics and heads) learn during the measurement, in steps of 8 groups.
The first `--warmup` groups do not count. Their features distinguish histories and responses, and
nothing else.

It prints a table in Markdown, for docs/credit.md.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

from collab.recipe.base import Component
from collab.trainers.credit import Algorithm, Group, Node, algorithm_for
from collab.trainers.credit.base import TeamModels
from collab.trainers.credit.games import (
    Estimate,
    Game,
    GameModels,
    all_right,
    code_like,
    dummy,
    estimate,
    only_tests,
    paper_game,
    sequential_code,
    two_turns,
    word_pair,
)
from collab.trainers.credit.group import Choice, Weights

BASE = "marloo"

ALGORITHMS: dict[str, Component] = {
    BASE: Component(use=BASE),
    "magrpo": Component(use="magrpo"),
    "removal": Component(use="removal"),
    "coma": Component(use="coma"),
    "shapley": Component(use="shapley"),
    "cross, 3 shifts": Component(use="cross", options={"shifts": 3}),
    "cross": Component(use="cross"),
    "cross, all": Component(use="cross", options={"shifts": "all"}),
    "iac": Component(use="iac", options={"trace": 1.0, "rate": 0.03}),
    "maac": Component(use="maac", options={"trace": 1.0, "rate": 0.03}),
}

MOST_ERRORS = 1000.0
"""Above this number of standard errors, the estimate has practically no noise."""

GROUPS_A_STEP = 8
"""Groups per step, for algorithms that learn from a step."""

MOST_TEXTS = 1536
"""Maximum number of different histories, responses and joint answers of a game that a network
reads.
"""

GAMES: dict[str, tuple[str, Game, int]] = {
    "paper": ("the paper's game, p = 1/2", paper_game(), 4),
    "and": ("both must be right, p = .2 each", word_pair("and", 0.2, 0.2), 8),
    "code": ("code reward, weak team", code_like(), 8),
    "tests": ("all tests pass, weak team", only_tests(), 8),
    "dummy": ("the first has no influence", dummy(), 8),
    "three": ("three agents all right, p = .4", all_right(), 8),
    "sequential": ("code reward, main reads aux", sequential_code(), 8),
    "turns": ("code reward, two turns", two_turns(), 4),
}


class Counting(Algorithm):
    """An algorithm that counts the additional joint actions that it requests."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm, self.judged = algorithm, 0

    async def credit(self, groups: Sequence[Group]) -> Sequence[Weights]:
        return await self.algorithm.credit([self._counted(group) for group in groups])

    def _counted(self, group: Group) -> Group:
        asked = set[tuple[tuple[str, str], ...]]()

        async def ask(
            nodes: Sequence[Node], choices: Sequence[Choice]
        ) -> list[Mapping[str, float] | None]:
            turns = [group.episodes[episode].turns[turn] for episode, turn in nodes]
            played = {tuple(t.artifacts.items()) for e in group.episodes for t in e.turns}
            for choice in choices:
                picks = {a: choice.get(a, 0) for a in turns[0].artifacts}
                texts = tuple(
                    (a, "" if n is None else turns[n].artifacts[a]) for a, n in picks.items()
                )
                if texts not in asked and texts not in played:
                    asked.add(texts)
                    self.judged += 1
            return await group.score(nodes, choices)

        return replace(group, ask=ask)

    async def open(self, models: TeamModels) -> None:
        """Give a game's models to an algorithm that reads models."""
        await self.algorithm.open(models)

    def state(self) -> Mapping[str, object]:
        return self.algorithm.state()

    def restore(self, state: Mapping[str, object]) -> None:
        self.algorithm.restore(state)


async def measure(
    game: Game, size: int, algorithm: Component, groups: int, warmup: int
) -> tuple[Estimate, float]:
    """Return the estimate, and the number of joint actions judged per group."""
    counting = Counting(algorithm_for(algorithm))
    if type(counting.algorithm).open is Algorithm.open:
        found = await estimate(game, counting, groups=groups, group_size=size)
        return found, counting.judged / groups
    await counting.open(GameModels(hidden_size=MOST_TEXTS))
    many = GROUPS_A_STEP
    if before := warmup // many * many:
        await estimate(game, counting, groups=before, group_size=size, groups_per_step=many, seed=1)
    counting.judged, groups = 0, groups // many * many
    found = await estimate(game, counting, groups=groups, group_size=size, groups_per_step=many)
    return found, counting.judged / groups


def fits(algorithm: str, game: Game) -> bool:
    """Return True if an algorithm is meaningful for a game."""
    if algorithm == "removal":
        return bool(game.empty)  # otherwise no agent can be left out
    if algorithm == "cross, all":
        return len(game.agents) > 2  # the default for two agents
    if algorithm == "cross, 3 shifts":
        return len(game.agents) == 2  # the default for more agents
    return True


async def compare(
    games: Sequence[str], algorithms: Sequence[str], groups: int, warmup: int
) -> None:
    """Print the table, each row as soon as it is measured."""
    print("| game | algorithm | bias | variance | cosine | dead | judged |")
    print("|---|---|---|---|---|---|---|")
    for name in games:
        told, game, size = GAMES[name]
        base, _ = await measure(game, size, ALGORITHMS[BASE], groups, warmup)
        for algorithm in algorithms:
            if not fits(algorithm, game):
                continue
            found, judged = await measure(game, size, ALGORITHMS[algorithm], groups, warmup)
            agents = game.agents[:2]
            columns = [
                told if algorithm == algorithms[0] else "",
                algorithm,
                " / ".join(_told(found.errors(agent)) for agent in agents),
                " / ".join(f"{found.variance[a] / base.variance[a]:.2f}" for a in agents),
                " / ".join(f"{found.cosine[agent]:.2f}" for agent in agents),
                " / ".join(f"{found.dead[agent]:.2f}" for agent in agents),
                f"{judged:.0f}",
            ]
            print("| " + " | ".join(columns) + " |", flush=True)


def _told(errors: float) -> str:
    """Format a bias in standard errors, or `-` for an estimate without noise."""
    return f"{errors:.1f}" if isfinite(errors) and errors < MOST_ERRORS else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--groups", type=int, default=4000)
    parser.add_argument("--warmup", type=int, default=800)
    parser.add_argument("--algorithms", default=";".join(ALGORITHMS), help="separated by ';'")
    parser.add_argument("--games", default=",".join(GAMES))
    given = parser.parse_args()
    asyncio.run(
        compare(given.games.split(","), given.algorithms.split(";"), given.groups, given.warmup)
    )


if __name__ == "__main__":
    main()
