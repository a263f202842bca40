"""Credit of episodes whose task is solved before their last turn."""

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collab.records import Episode, Score, Turn, WhenSolved
from collab.trainers.credit import BUILT_IN, Group
from collab.trainers.credit.group import make_group
from collab.trainers.credit.normalize import normalize
from collab.trainers.credit.shape import Shape

points = st.floats(-10, 10, allow_nan=False)
discounts = st.floats(0.1, 1.0)
SOLVED = 4.0
"""Reward of a solved task in these tests; other turns earn less."""


PLAIN = [name for name, algorithm in BUILT_IN.items() if not isinstance(algorithm, type)]
"""Algorithms that are functions of one group."""


def episode(
    rewards: Sequence[float],
    horizon: int | None,
    *,
    sample: int = 0,
    solved: float = SOLVED,
    when: WhenSolved = "absorb",
) -> Episode:
    turns = tuple(
        Turn(
            index=t, decisions=(), score=Score(reward=reward, maximum=10.0, solved=reward == solved)
        )
        for t, reward in enumerate(rewards)
    )
    return Episode(
        id="t", task="t", team="x", sample=sample, turns=turns, horizon=horizon, when_solved=when
    )


def group_of(
    *rows: Sequence[float],
    horizon: int,
    samples: Sequence[int] | None = None,
    shape: Shape | None = None,
    discount: float = 1.0,
    when: WhenSolved = "absorb",
) -> Group:
    numbers = samples or range(len(rows))
    episodes = [
        episode(r, horizon, sample=n, when=when) for n, r in zip(numbers, rows, strict=True)
    ]
    return make_group(
        episodes,
        ("a", "b"),
        lambda node: {"a": rows[node[0]][node[1]], "b": 2 * rows[node[0]][node[1]]},
        shape or Shape("chains", len(rows), horizon),
        discount,
    )


@given(st.lists(points, max_size=4), points, st.integers(0, 3), discounts)
def test_an_earlier_solve_never_earns_less(
    before: list[float], last: float, more: int, discount: float
) -> None:
    """Solving earlier never earns less, as long as no earlier turn is worth more than solving."""
    horizon = len(before) + 1 + more
    before = [min(reward, last - 1) for reward in before]
    rows = [[*before[:turn], last] for turn in range(len(before) + 1)]
    episodes = [episode(row, horizon, sample=n, solved=last) for n, row in enumerate(rows)]
    earned = [found.joint_return or 0.0 for found in episodes]
    assert all(a >= b - 1e-9 for a, b in pairwise(earned))
    shape = Shape("chains", len(episodes), horizon)
    group = make_group(episodes, "a", lambda n: {"a": rows[n[0]][n[1]]}, shape, discount)
    credit = [group.returns[g, 0]["a"] for g in range(len(episodes))]
    assert all(a >= b - 1e-9 for a, b in pairwise(credit))


@given(st.lists(points.filter(lambda r: r != SOLVED), max_size=4), st.integers(0, 4), discounts)
def test_return_repeats_the_last_reward(before: list[float], more: int, discount: float) -> None:
    row = [*before, SOLVED]
    played = [*row, *[SOLVED] * more]
    group = group_of(row, horizon=len(played), discount=discount)
    for turn in range(len(row)):
        plain = sum(discount**k * reward for k, reward in enumerate(played[turn:]))
        assert group.returns[0, turn]["a"] == pytest.approx(plain, abs=1e-9)
        assert group.returns[0, turn]["b"] == pytest.approx(2 * plain, abs=1e-9)
    found = episode(row, len(played))
    assert found.rewards == tuple(played)
    assert found.joint_return == pytest.approx(sum(played), abs=1e-9)
    assert found.largest_return == pytest.approx(10.0 * len(played))


def test_solving_at_once_is_worth_more_than_failing_twice() -> None:
    """Rewards per turn as in the code task: all tests 4.0, half 3.5, syntax alone 1.5."""
    group = group_of([SOLVED], [1.5, 1.5], [3.5, 3.5], [3.5, SOLVED], horizon=2)
    assert [group.returns[g, 0]["a"] for g in range(4)] == [8.0, 3.0, 7.0, 7.5]


def test_unplayed_turns_do_not_count_with_stop_and_in_old_records() -> None:
    for found in (episode([SOLVED], 2, when="stop"), episode([SOLVED], None)):
        assert (found.joint_return, found.rewards) == (4.0, (4.0,))
    assert episode([SOLVED], 2, when="stop").largest_return == 20.0
    assert episode([SOLVED], None).largest_return == 10.0
    group = group_of([SOLVED], [1.0, 2.0], horizon=2, when="stop")
    assert [group.returns[g, 0]["a"] for g in range(2)] == [4.0, 3.0]


def test_unsolved_end_and_isolated_later_turn_are_not_absorbing() -> None:
    assert episode([1.0], 3).rewards == (1.0,)
    full = episode([1.0, SOLVED], 2)
    alone = full.model_copy(update={"turns": full.turns[1:]})
    assert (alone.unplayed, alone.rewards) == (0, (4.0,))


def test_tree_weights_are_correct_with_some_siblings_solved_early() -> None:
    shape = Shape("tree", group_size=2, n_turns=3)
    rows = ([SOLVED], [1, SOLVED], [1, 2, 3], [1, 2, 5])
    group = group_of(*rows, horizon=3, samples=(0, 4, 6, 7), shape=shape, discount=0.5)
    assert group.returns[0, 0]["a"] == SOLVED * 1.75
    assert group.returns[1, 1]["a"] == SOLVED * 1.5
    assert group.returns[2, 1]["a"] == 2 + 0.5 * (3 + 5) / 2
    assert group.returns[1, 0]["a"] == 1 + 0.5 * (SOLVED * 1.5 + 4) / 2
    weights = BUILT_IN["magrpo"](group)
    assert weights[0, 0, "a"] == -weights[1, 0, "a"] == (7.0 - 3.5) / 2
    assert weights[1, 1, "a"] == (6.0 - 4.0) / 2
    assert [weights[g, 2, "a"] for g in (2, 3)] == [-1.0, 1.0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("magrpo", 1.5 - (4.0 + 4.0 + 1.5) / 3),
        ("marloo", 1.5 - 4.0),
        ("maremax", 1.5 - 4.0),
        ("mareinforce", 1.5),
    ],
)
def test_only_unsolved_episode_is_compared_with_the_solved_ones(name: str, expected: float) -> None:
    weights = BUILT_IN[name](group_of([SOLVED], [SOLVED], [1.0, 1.5], horizon=2))
    assert weights[2, 1, "a"] == pytest.approx(expected)
    assert weights[2, 1, "b"] == pytest.approx(2 * expected)


def test_solving_in_the_last_turn_gets_zero_weight() -> None:
    weights = BUILT_IN["magrpo"](group_of([SOLVED], [1.0, SOLVED], horizon=3))
    assert weights[1, 1, "a"] == 0.0


def test_several_unsolved_episodes_are_compared_with_each_other() -> None:
    weights = BUILT_IN["magrpo"](group_of([SOLVED], [1.0, 1.0], [1.0, 2.0], horizon=2))
    assert [weights[g, 1, "a"] for g in (1, 2)] == [-0.5, 0.5]


def test_only_unsolved_episode_is_normalized_with_the_solved_ones() -> None:
    group = group_of([SOLVED], [1.0, 2.0], horizon=2)
    [found] = normalize([group], [BUILT_IN["magrpo"](group)], "group")
    assert found[1, 1, "a"] == pytest.approx(-1.0)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("how", ["none", "group", "agent", "step"])
def test_group_solved_at_once_has_weights_only_for_its_first_turn(name: str, how: str) -> None:
    group = group_of([SOLVED], [SOLVED], horizon=3)
    [found] = normalize([group], [BUILT_IN[name](group)], how)  # type: ignore[arg-type]
    assert {turn for _, turn, _ in found} == {0}
    if name != "mareinforce":
        assert set(found.values()) == {0.0}


@pytest.mark.parametrize("samples", [2, 3])
@pytest.mark.parametrize(("discount", "when"), [(1.0, "absorb"), (0.5, "absorb"), (0.5, "stop")])
@pytest.mark.parametrize(("first", "second"), [(0.9, 0.3), (0.2, 0.6)])
def test_the_gradient_of_both_turns_is_unbiased(
    samples: int, discount: float, when: WhenSolved, first: float, second: float
) -> None:
    """Compare leave-one-out over all possible groups with the derivative of the return.

    At each turn the team is right with a fixed chance; a wrong answer earns 1.
    """
    outcomes = {
        (SOLVED,): (first, {0: 1 - first}),
        (1.0, SOLVED): ((1 - first) * second, {0: -first, 1: 1 - second}),
        (1.0, 1.0): ((1 - first) * (1 - second), {0: -first, 1: -second}),
    }  # by rewards: the probability, and each turn's derivative of the log-probability
    found = {0: 0.0, 1: 0.0}
    for rows in product(outcomes, repeat=samples):
        chance = prod(outcomes[row][0] for row in rows)
        weights = BUILT_IN["marloo"](group_of(*rows, horizon=2, discount=discount, when=when))
        for (g, turn, agent), weight in weights.items():
            if agent == "a":
                found[turn] += chance * weight * outcomes[rows[g]][1][turn] / samples
    later = SOLVED * second + 1.0 * (1 - second)
    at_once = SOLVED * (1 + discount if when == "absorb" else 1)
    gain = at_once - (1.0 + discount * later)
    wanted = first * (1 - first) * gain
    assert found[0] == pytest.approx(wanted)
    # Credit at a turn is the return from that turn on, not discounted to the start.
    assert found[1] == pytest.approx((1 - first) * second * (1 - second) * (SOLVED - 1.0))
