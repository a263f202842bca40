"""Algorithms that score more joint actions (CROSS, COMA, Shapley, removal): means and variances."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.algorithms import built_in, check_exact, weights_of
from support.shares import one_in, one_row_in

from collab.trainers.credit import Algorithm, Group, Node, Weights
from collab.trainers.credit.games import (
    Game,
    additive,
    all_right,
    code_like,
    dummy,
    estimate,
    gradient,
    one_turn,
    only_tests,
    paper_game,
    sample,
    sequential_code,
    two_turns,
    word_pair,
)
from collab.trainers.credit.games.estimate import gradient_of
from collab.trainers.credit.games.game import outcomes, play
from collab.trainers.credit.group import Choice
from collab.trainers.credit.shape import Shape

ALGORITHMS = ["cross", "coma", "shapley", "removal"]


def of(weights: Weights, agent: str, turn: int = 0) -> list[float]:
    return [float(w) for (_, t, a), w in sorted(weights.items()) if (t, a) == (turn, agent)]  # type: ignore[arg-type]


def random_game(*shape: int, **fields: Any) -> Game:
    rng = np.random.default_rng(5)
    chances = [rng.dirichlet(np.ones(size)) for size in shape]
    game = one_turn(rng.normal(size=shape), *chances)
    return replace(game, empty=dict.fromkeys(game.agents, 0), **fields)


def seen_game(sees: Mapping[str, tuple[str, ...]], *shape: int) -> Game:
    """Each agent's logits depend on the actions that it sees."""
    rng = np.random.default_rng(7)
    game = random_game(*shape)
    logits = {}
    for n, agent in enumerate(game.agents):
        sizes = [shape[game.agents.index(name)] for name in sees.get(agent, ())]
        logits[agent, 0, 0] = rng.normal(size=(*sizes, shape[n]))
    return replace(game, logits=logits, sees=sees)


def turns_game() -> Game:
    """Two turns; the first decides the state of the second."""
    rng = np.random.default_rng(3)
    logits = {(agent, 0, 0): rng.normal(size=2) for agent in "ab"}
    logits |= {(agent, 1, state): rng.normal(size=2) for agent in "ab" for state in range(2)}
    rewards = (rng.normal(size=(2, 2)), 3 * rng.normal(size=(2, 2)))
    states = np.array([[0, 1], [1, 0]])
    return Game(("a", "b"), rewards, logits, states=states, empty={"a": 0, "b": 0})


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_unbiased_on_a_parallel_turn(name: str, size: int) -> None:
    check_exact(random_game(3, 2), built_in(name), size)


@pytest.mark.parametrize(
    "options", one_in(2, [{}, {"shifts": 2}, {"shifts": "samples"}, {"shifts": "all"}])
)
def test_unbiased_for_three_agents(options: dict[str, Any]) -> None:
    check_exact(random_game(2, 2, 2), built_in("cross", **options), 3)


@pytest.mark.parametrize("name", one_in(2, ["coma", "shapley"]))
def test_coma_and_shapley_are_unbiased_for_three_agents(name: str) -> None:
    check_exact(random_game(2, 2, 2), built_in(name), 3)


SEES: list[dict[str, tuple[str, ...]]] = [
    {"b": ("a",)},
    {"b": ("a",), "c": ("a", "b")},
    {"b": ("a",), "c": ()},
]


@pytest.mark.parametrize(("name", "sees"), one_row_in(2, product(ALGORITHMS, SEES)))
def test_unbiased_if_agents_see_each_other(name: str, sees: Mapping[str, tuple[str, ...]]) -> None:
    shape = (2,) * (3 if "c" in sees else 2)
    check_exact(seen_game(sees, *shape), built_in(name), 2 if len(shape) == 3 else 3)


@pytest.mark.parametrize("name", one_in(2, ALGORITHMS))
def test_unbiased_over_two_turns(name: str) -> None:
    check_exact(turns_game(), built_in(name), 2)


@pytest.mark.parametrize("name", one_in(2, ALGORITHMS))
def test_unbiased_among_the_siblings_of_a_tree(name: str) -> None:
    game = turns_game()
    one = {("a", 0, 0): np.zeros(1), ("b", 0, 0): np.zeros(1)}  # the first turn offers no choice
    logits = {where: table for where, table in game.logits.items() if where[1:] == (1, 0)}
    rewards = (np.ones((1, 1)), game.rewards[1])
    game = replace(game, rewards=rewards, logits={**one, **logits}, states=None)
    check_exact(game, built_in(name), 2, shape=Shape("tree", 2, 2))


def test_naive_crossing_of_a_sequential_turn_would_be_biased() -> None:
    """Ignoring what an agent saw gives a biased gradient; the forms exist to prevent that."""
    game = seen_game({"b": ("a",)}, 3, 2)
    mean = game.zeros()
    for chance, group in outcomes(game, 2):
        blind = replace(
            group,
            episodes=tuple(
                e.model_copy(update={"turns": tuple(_blind(turn) for turn in e.turns)})
                for e in group.episodes
            ),
        )
        for agent, part in gradient_of(game, group, weights_of("cross", blind)).items():
            mean[agent] += chance * part
    off = [np.linalg.norm(mean[a] - true) for a, true in gradient(game).items()]
    assert min(off) > 0.01


def _blind(turn: Any) -> Any:
    unseen = tuple(d.model_copy(update={"saw": (), "round": 0}) for d in turn.decisions)
    return turn.model_copy(update={"decisions": unseen})


def test_cross_ignores_the_luck_of_teammates() -> None:
    """With an additive reward, a weight is the leave-one-out of the agent's own part."""
    alpha, group = (0, 1, 3), sample(additive((0, 1, 3), (5, -4)), 5, np.random.default_rng(1))
    values = np.array([alpha[e.turns[0].decisions[0].action.token_ids[0]] for e in group.episodes])
    expected = (values - values.mean()) * 5 / 4
    for options in ({}, {"shifts": 2}, {"shifts": 3}):
        assert of(weights_of("cross", group, **options), "a") == pytest.approx(expected)


def test_one_agent_gets_leave_one_out() -> None:
    group = sample(random_game(3), 4, np.random.default_rng(0))
    for name in ("cross", "coma", "shapley"):
        assert weights_of(name, group) == pytest.approx(weights_of("marloo", group))


def test_equal_texts_get_equal_weights() -> None:
    group = sample(random_game(3, 2), 6, np.random.default_rng(0))
    texts = [e.turns[0].artifacts["a"] for e in group.episodes]
    by_text: dict[str, set[float]] = {}
    for text, weight in zip(texts, of(weights_of("cross", group), "a"), strict=True):
        by_text.setdefault(text, set()).add(round(weight, 9))
    assert len(by_text) > 1
    assert all(len(weights) == 1 for weights in by_text.values())


def test_the_order_of_a_teammates_samples_changes_nothing() -> None:
    game = code_like(variants=1)
    group = sample(game, 4, np.random.default_rng(0))
    joint = [[d.action.token_ids[0] for d in e.turns[0].decisions] for e in group.episodes]
    draws = iter([n for g, (a, _) in enumerate(joint) for n in (a, joint[g - 1][1])])
    turned = play(game, 4, lambda _: next(draws))
    ours, theirs = weights_of("cross", group), weights_of("cross", turned)
    assert of(ours, "aux") == pytest.approx(of(theirs, "aux"))
    assert of(weights_of("marloo", group), "aux") != pytest.approx(
        of(weights_of("marloo", turned), "aux")
    )


@pytest.mark.parametrize("name", ["cross", "coma", "shapley"])
def test_constant_added_to_the_rewards_changes_nothing(name: str) -> None:
    game = code_like(variants=1)
    more = replace(game, rewards=(game.rewards[0] + 7,))
    groups = [sample(g, 4, np.random.default_rng(0)) for g in (game, more)]
    assert weights_of(name, groups[0]) == pytest.approx(weights_of(name, groups[1]))


def test_shapley_is_the_mean_of_coma_and_cross_for_two() -> None:
    group = sample(code_like(), 4, np.random.default_rng(0))
    found = [weights_of(name, group) for name in ("coma", "cross", "shapley")]
    for key, weight in found[2].items():
        assert weight == pytest.approx((found[0][key] + found[1][key]) / 2)  # type: ignore[operator]


def test_a_dummy_gets_exactly_nothing() -> None:
    for seed in range(5):
        group = sample(dummy(), 4, np.random.default_rng(seed))
        for name in ("cross", "coma", "shapley"):
            assert of(weights_of(name, group), "a") == pytest.approx([0.0] * 4, abs=1e-12)


class Losing(Algorithm):
    """An algorithm that loses the scores of given cells."""

    def __init__(self, algorithm: Algorithm, lost: Sequence[tuple[int, int]]) -> None:
        self.algorithm, self.lost = algorithm, lost

    async def credit(self, groups: Sequence[Group]) -> Sequence[Weights]:
        return await self.algorithm.credit([self._of(group) for group in groups])

    def _of(self, group: Group) -> Group:
        async def ask(
            nodes: Sequence[Node], choices: Sequence[Choice]
        ) -> list[Mapping[str, float] | None]:
            found = await group.score(nodes, choices)
            return [
                None if (choice.get("a", 0), choice.get("b", 0)) in self.lost else score
                for choice, score in zip(choices, found, strict=True)
            ]

        return replace(group, ask=ask)


LOST = {
    "one": [(0, 1)],
    "a row": [(0, 1), (0, 2)],
    "a column": [(1, 0), (2, 0)],
    "half": [(0, 1), (1, 2), (2, 0)],
    "all but one": [(0, 1), (1, 2), (2, 0), (0, 2), (1, 0)],
    "all": [(g, h) for g in range(3) for h in range(3)],
}


@pytest.mark.parametrize(
    ("name", "lost"), one_row_in(4, product(["cross", "coma", "shapley"], LOST))
)
def test_lost_cells_change_the_value_but_not_the_mean(name: str, lost: str) -> None:
    game = random_game(3, 2)
    check_exact(game, Losing(built_in(name), LOST[lost]), 3)
    group = next(g for _, g in outcomes(game, 3) if _all_matter(g))
    [found] = asyncio.run(Losing(built_in(name), LOST[lost]).credit([group]))
    assert found != pytest.approx(weights_of(name, group))


def _all_matter(group: Group) -> bool:
    """Return True if every cell affects the result."""
    drawn = [[d.action.token_ids[0] for d in e.turns[0].decisions] for e in group.episodes]
    return [a for a, _ in drawn] == [0, 1, 2] and [b for _, b in drawn] == [0, 1, 1]


def measures_of(name: str, game: Game, size: int = 4, **options: Any) -> dict[str, float]:
    algorithm = built_in(name, **options)
    asyncio.run(algorithm.credit([sample(game, size, np.random.default_rng(0))]))
    return dict(algorithm.measures())


def test_variance_shares_show_who_decides_the_reward() -> None:
    found = measures_of("cross", dummy(), 8)
    assert (found["credit/a/own"], found["credit/a/influence"]) == pytest.approx((0, 0), abs=1e-9)
    assert found["credit/b/own"] == pytest.approx(1)
    found = measures_of("cross", additive(), 8)
    assert found["credit/interaction"] == pytest.approx(0, abs=1e-9)
    assert found["credit/a/own"] + found["credit/b/own"] == pytest.approx(1)


def test_the_shares_of_the_variance_are_unbiased() -> None:
    """The table of the weak team gives shares of .20, .62 and .18."""
    game, rng = code_like(), np.random.default_rng(0)
    algorithm = built_in("cross", shifts=3)
    asyncio.run(algorithm.credit([sample(game, 8, rng) for _ in range(250)]))
    found = algorithm.measures()
    assert found["credit/aux/own"] == pytest.approx(0.20, abs=0.03)
    assert found["credit/main/own"] == pytest.approx(0.62, abs=0.03)
    assert found["credit/interaction"] == pytest.approx(0.18, abs=0.03)


def test_pure_interaction_has_influence_but_no_main_effect() -> None:
    rng = np.random.default_rng(0)
    algorithm = built_in("cross")
    asyncio.run(algorithm.credit([sample(word_pair("xor"), 8, rng) for _ in range(100)]))
    assert algorithm.measures()["credit/a/own"] == pytest.approx(0, abs=0.05)
    assert algorithm.measures()["credit/a/influence"] == pytest.approx(1, abs=0.05)


def test_form_of_crossing_is_reported() -> None:
    found = measures_of("cross", sequential_code())
    assert (found["credit/aux/alone"], found["credit/main/swapped"]) == (1.0, 1.0)
    found = measures_of("cross", two_turns())
    assert (found["credit/aux/crossed"], found["credit/aux/swapped"]) == (0.5, 0.5)


def test_removal_reports_the_contribution_of_an_answer() -> None:
    game = random_game(2, 2)
    game = replace(game, rewards=(np.array([[0.0, 0.0], [1.0, 1.0]]),))
    group = sample(game, 4, np.random.default_rng(0))
    algorithm = built_in("removal")
    asyncio.run(algorithm.credit([group]))
    second = np.mean([e.turns[0].decisions[0].action.token_ids[0] for e in group.episodes])
    assert algorithm.measures()["credit/a/contribution"] == pytest.approx(second)
    assert algorithm.measures()["credit/b/contribution"] == pytest.approx(0)


VARIANCE = [
    # game, group size, and per agent the variance of COMA, Shapley and CROSS over leave-one-out's
    (paper_game(), 4, [(0.40, 0.40), (0.39, 0.39), (0.38, 0.38)]),
    (paper_game(0.2, 0.2), 8, [(0.87, 0.89), (0.84, 0.85), (0.83, 0.84)]),
    (word_pair("and", 0.2, 0.2), 4, [(0.70, 0.70), (0.48, 0.48), (0.40, 0.40)]),
    (code_like(), 4, [(0.38, 0.79), (0.28, 0.69), (0.25, 0.66)]),
    (only_tests(), 8, [(0.62, 0.82), (0.38, 0.61), (0.29, 0.54)]),
]


@pytest.mark.slow
@pytest.mark.parametrize("row", range(len(VARIANCE)))
def test_variance_ratios_match_the_table(row: int) -> None:
    game, size, expected = VARIANCE[row]
    measured = partial(estimate, groups=400, group_size=size)
    base = asyncio.run(measured(game, built_in("marloo")))
    for name, ratios in zip(("coma", "shapley", "cross"), expected, strict=True):
        found = asyncio.run(measured(game, built_in(name)))
        for agent, ratio in zip(game.agents, ratios, strict=True):
            assert found.variance[agent] / base.variance[agent] == pytest.approx(ratio, rel=0.15)
            assert found.errors(agent) < 3


@pytest.mark.slow
def test_variance_ratio_for_three_agents_is_as_expected() -> None:
    measured = partial(estimate, all_right(), groups=400, group_size=8)
    base = asyncio.run(measured(built_in("marloo")))
    full = asyncio.run(measured(built_in("cross", shifts="all")))
    assert full.variance["a"] / base.variance["a"] == pytest.approx(0.26, rel=0.15)
    assert (base.dead["a"], full.dead["a"]) == pytest.approx((0.59, 0.05), abs=0.02)


def test_crossing_has_less_variance_at_equal_tokens() -> None:
    measured = partial(estimate, groups=600, group_size=4)
    base = asyncio.run(measured(code_like(), built_in("marloo")))
    found = asyncio.run(measured(code_like(), built_in("cross")))
    assert found.variance["aux"] / base.variance["aux"] == pytest.approx(0.25, abs=0.04)
    assert found.variance["main"] / base.variance["main"] == pytest.approx(0.66, abs=0.08)
