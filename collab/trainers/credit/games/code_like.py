"""Games that resemble writing code: agent `aux` may write a helper, and `main` writes a function
that may use it.

Each kind of answer has several variants. The reward is that of the coding tasks, or 1 if all
tests pass. The probabilities are those of a weak team.
"""

from __future__ import annotations

import numpy as np

from collab.trainers.credit.games.game import Game, GameTable
from collab.trainers.credit.games.known import logits

AUX_KINDS = ("missing", "syntax", "wrong", "right")
MAIN_KINDS = ("missing", "syntax", "solo_wrong", "solo_right", "wrapper", "uses", "fallback")
CALLING_KINDS = ("wrapper", "uses", "fallback")

CHANCES = (0.35, 0.15, 0.35, 0.15), (0.25, 0.12, 0.25, 0.06, 0.17, 0.10, 0.05)
NOISE = 0.15
"""Deviation of the rewards of an answer's variants."""

AGENTS = ("aux", "main")
EMPTY_ACTIONS = {"aux": 0, "main": 0}


def code_like(*, variants: int = 6) -> Game:
    """Return a game of one parallel turn, with `variants` of every answer."""
    return _parallel_game(_rewards(variants, NOISE), variants)


def only_tests() -> Game:
    """Return the game of `code_like` without variants, paid 1 if all tests pass and 0 otherwise."""
    table = np.zeros((len(AUX_KINDS), len(MAIN_KINDS)))
    for i, aux in enumerate(AUX_KINDS):
        for j, main in enumerate(MAIN_KINDS):
            passes_with_aux = main in CALLING_KINDS and aux == "right"
            table[i, j] = aux != "syntax" and (main == "solo_right" or passes_with_aux)
    return _parallel_game(table, 1)


def sequential_code() -> Game:
    """Return a game in which `main` reads the text of `aux`, and prefers a matching answer."""
    table = _rewards(2, NOISE)
    aux, main = _split_logits(2)
    logits_of = {("aux", 0, 0): aux, ("main", 0, 0): main + 0.5 * table}
    return Game(AGENTS, (table,), logits_of, sees={"main": ("aux",)}, empty=EMPTY_ACTIONS)


def two_turns() -> Game:
    """Return a game of two parallel turns. Agents see which of four bands the first earned."""
    table = _rewards(1, 0.0)
    bands = np.digitize(table, [0.9, 1.6, 2.6])
    aux, main = _split_logits(1)
    logits_of = {("aux", 0, 0): aux, ("main", 0, 0): main}
    for band in range(4):
        better_aux = 0.7 * band * np.array([-1, -0.5, 0.2, 1.0])
        better_main = 0.4 * band * np.array([-1, -0.5, 0, 0.5, 0.3, 0.6, 0.6])
        logits_of["aux", 1, band] = aux + better_aux
        logits_of["main", 1, band] = main + better_main
    return Game(AGENTS, (table, table), logits_of, states=bands, empty=EMPTY_ACTIONS)


def _parallel_game(table: GameTable, variants: int) -> Game:
    aux, main = _split_logits(variants)
    return Game(AGENTS, (table,), {("aux", 0, 0): aux, ("main", 0, 0): main}, empty=EMPTY_ACTIONS)


def _split_logits(variants: int) -> tuple[GameTable, GameTable]:
    """Return each agent's logits if its chances are divided among `variants` of every answer."""
    aux, main = (np.repeat(np.asarray(c) / variants, variants) for c in CHANCES)
    return logits(aux), logits(main)


def _rewards(variants: int, noise: float) -> GameTable:
    """Return the reward of every pair of answers, 4.0 at most."""
    rng = np.random.default_rng(1)
    table = np.zeros((len(AUX_KINDS) * variants, len(MAIN_KINDS) * variants))
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            table[i, j] = _reward(AUX_KINDS[i // variants], MAIN_KINDS[j // variants], noise, rng)
    return table


def _reward(aux: str, main: str, noise: float, rng: np.random.Generator) -> float:
    earned = 0.4 * (aux != "missing")
    if main == "missing":
        return earned
    earned += 0.6
    if "syntax" in (aux, main):
        return earned
    tests = _passed_share(aux, main)
    if 0 < tests < 1:
        tests = float(np.clip(tests + noise * rng.standard_normal(), 0, 1))
    cooperation = 0.0
    if tests > 0 and aux != "missing" and main in CALLING_KINDS:
        cooperation = 0.5 if main == "wrapper" else 1.5
    return earned + 0.5 + tests + cooperation


def _passed_share(aux: str, main: str) -> float:
    """Return the share of the tests that pass."""
    if main in ("solo_wrong", "solo_right"):
        return 1.0 if main == "solo_right" else 0.2
    if main == "fallback":
        return {"right": 1.0, "wrong": 0.5, "missing": 0.9}[aux]
    return {"right": 1.0, "wrong": 0.3, "missing": 0.0}[aux]
