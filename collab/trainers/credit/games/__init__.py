"""Games: small teams with a known true gradient, to test a credit algorithm on.

A team draws each action from a table, so every outcome can be enumerated. `estimate` runs an
algorithm on many groups and reports its bias, its variance and how often it gave no gradient.
`expectation` enumerates every group, and gives the exact bias.
"""

from collab.trainers.credit.games.code_like import code_like, only_tests, sequential_code, two_turns
from collab.trainers.credit.games.estimate import Estimate, estimate, expectation, gradient, value
from collab.trainers.credit.games.game import Game, GameModels, outcomes, sample
from collab.trainers.credit.games.known import (
    additive,
    all_right,
    dummy,
    one_turn,
    paper_game,
    word_pair,
)

__all__ = [
    "Estimate",
    "Game",
    "GameModels",
    "additive",
    "all_right",
    "code_like",
    "dummy",
    "estimate",
    "expectation",
    "gradient",
    "one_turn",
    "only_tests",
    "outcomes",
    "paper_game",
    "sample",
    "sequential_code",
    "two_turns",
    "value",
    "word_pair",
]
