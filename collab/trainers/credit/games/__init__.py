"""Games: small teams whose true gradient is known, to check a rule of credit on.

A team here draws each action from a table, so every outcome can be enumerated. `estimate` gives a
rule many groups and tells its bias, its variance and how often it had nothing to say;
`expectation` enumerates every group, and so tells the bias exactly.
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
