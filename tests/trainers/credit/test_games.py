"""Games for checking credit algorithms, and the simple algorithms on them."""

import asyncio
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from support.algorithms import built_in, check_exact

from collab.trainers.credit.games import (
    Game,
    additive,
    all_right,
    code_like,
    dummy,
    estimate,
    expectation,
    gradient,
    one_turn,
    outcomes,
    paper_game,
    sample,
    sequential_code,
    two_turns,
    value,
    word_pair,
)
from collab.trainers.credit.shape import Shape


def random_game(turns: int = 1) -> Game:
    """Two agents with 3 and 2 actions; b sees a's action and decides the next turn's state."""
    rng = np.random.default_rng(5)
    states = [range(2 if turn else 1) for turn in range(turns)]
    logits = {("a", t, s): rng.normal(size=3) for t in range(turns) for s in states[t]}
    logits |= {("b", t, s): rng.normal(size=(3, 2)) for t in range(turns) for s in states[t]}
    return Game(
        ("a", "b"),
        tuple(rng.normal(size=(3, 2)) for _ in range(turns)),
        logits,
        sees={"b": ("a",)},
        states=np.array([[0, 1], [0, 1], [1, 0]]),
        solved=np.array([[False, True], [False, False], [False, False]]),
    )


def expected_return(game: Game, turn: int = 0, state: int = 0) -> float:
    """The game's value, from its tables alone."""
    total, left = 0.0, float(game.turns - 1 - turn)
    for joint, reward in np.ndenumerate(game.rewards[turn]):
        chance = prod(
            float(game.policies[agent, turn, state][tuple(joint[n] for n in game.axes(agent))])
            for agent in game.agents
        )
        later = left * float(reward)
        if left and not game.solves(joint):
            later = expected_return(game, turn + 1, game.state_after(joint))
        total += chance * (reward + later)
    return total


@pytest.mark.parametrize(
    "game", [paper_game(0.3, 0.6), all_right(), random_game(), random_game(2), two_turns()]
)
def test_gradient_matches_the_numeric_slope_of_the_value(game: Game) -> None:
    assert value(game) == pytest.approx(expected_return(game))
    found = gradient(game)
    for where, table in game.logits.items():
        place = np.unravel_index(table.size - 1, table.shape)
        sides = []
        for change in (-1e-5, 1e-5):
            moved = table.copy()
            moved[place] += change
            sides.append(expected_return(replace(game, logits={**game.logits, where: moved})))
        slope = (sides[1] - sides[0]) / 2e-5
        assert found[where[0]][game.offsets[where] + table.size - 1] == pytest.approx(
            slope, abs=1e-7
        )


def test_gradient_of_the_paper_game_matches_the_formula() -> None:
    p, q = 0.3, 0.6
    slope = p * (1 - p) * (7 - 4 * q)
    assert gradient(paper_game(p, q))["a"] == pytest.approx([slope, -slope])


def test_gradients_of_the_standard_games_are_as_expected() -> None:
    assert gradient(word_pair("xor"))["a"] == pytest.approx([0, 0])
    assert gradient(dummy())["a"] == pytest.approx([0, 0, 0])
    assert np.linalg.norm(gradient(dummy())["b"]) > 0.3
    assert gradient(additive((0, 1, 3)))["a"] == pytest.approx(np.array([-4, -1, 5]) / 9)
    assert value(sequential_code()) > value(code_like(variants=2))  # main can use the code it reads


@pytest.mark.parametrize(
    ("game", "size"), [(random_game(), 2), (random_game(), 3), (random_game(2), 2)]
)
def test_probabilities_of_all_outcomes_sum_to_one(game: Game, size: int) -> None:
    assert sum(chance for chance, _ in outcomes(game, size)) == pytest.approx(1)


@pytest.mark.parametrize("size", [2, 3])
def test_marloo_is_unbiased_and_magrpo_scaled_by_a_known_factor(size: int) -> None:
    game = random_game()
    check_exact(game, built_in("marloo"), size)
    check_exact(game, built_in("magrpo"), size, share=(size - 1) / size)


def test_mareinforce_is_exact_over_two_turns_with_early_ends() -> None:
    """Leave-one-out algorithms compare the last running episode with those solved earlier."""
    check_exact(random_game(2), built_in("mareinforce"), 2)


def test_marloo_is_unbiased_in_a_tree() -> None:
    rng = np.random.default_rng(2)
    game = replace(
        paper_game(0.3, 0.6),
        rewards=(rng.normal(size=(2, 2)), rng.normal(size=(2, 2))),
        logits={(agent, t, 0): rng.normal(size=2) for agent in "ab" for t in range(2)},
    )
    # only the last turn varies; the first is certain
    game = replace(game, logits={**game.logits, ("a", 0, 0): np.array([40.0, 0.0])})
    game = replace(game, logits={**game.logits, ("b", 0, 0): np.array([40.0, 0.0])})
    shape = Shape("tree", 2, 2)
    group = sample(game, 2, rng, shape=shape)
    assert [len(nodes) for nodes in group.baselines_over] == [2, 2, 2]
    assert len(group.episodes) == 4
    found = asyncio.run(estimate(game, built_in("marloo"), groups=1500, group_size=2, shape=shape))
    assert max(found.errors("a"), found.errors("b")) < 3


def test_sampled_estimates_agree_with_enumerated_ones() -> None:
    table = np.random.default_rng(5).normal(size=(3, 2))
    game, size = one_turn(table, [0.5, 0.3, 0.2], [0.6, 0.4]), 3
    exact = asyncio.run(expectation(game, built_in("magrpo"), size))
    found = asyncio.run(estimate(game, built_in("magrpo"), groups=3000, group_size=size))
    for agent in game.agents:
        distance = np.linalg.norm(found.mean[agent] - exact[agent])
        assert distance < 3 * (found.variance[agent] / found.groups) ** 0.5
        assert found.errors(agent) > 2, "a third of the gradient is missing"
        assert found.bias(agent) == pytest.approx(1 / 3, abs=0.1)
        assert 0 < found.dead[agent] < 0.5
        assert 0.1 < found.cosine[agent] < 1


def test_a_group_scores_joint_actions_that_were_not_played() -> None:
    game = code_like(variants=1)
    group = sample(game, 4, np.random.default_rng(0))
    [nodes] = group.baselines_over
    table = {node: group.episodes[node[0]].turns[0] for node in nodes}
    [crossed, alone] = asyncio.run(
        group.score(nodes, [{"aux": 1, "main": 2}, {"aux": None, "main": 2}])
    )
    aux, main = (table[nodes[n]].decisions[k].action.token_ids[0] for n, k in ((1, 0), (2, 1)))
    assert crossed == {"aux": game.rewards[0][aux, main], "main": game.rewards[0][aux, main]}
    assert alone == {"aux": game.rewards[0][0, main], "main": game.rewards[0][0, main]}


def test_records_state_which_agents_saw_which() -> None:
    group = sample(sequential_code(), 2, np.random.default_rng(0))
    aux, main = group.episodes[0].turns[0].decisions
    assert (aux.round, aux.saw, main.round, main.saw) == (0, (), 1, ("aux",))
