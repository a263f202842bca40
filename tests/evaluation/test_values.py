"""From episodes to one value per metric and task; pass@k is compared with enumeration."""

from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.episodes import make_episode, make_part, make_score, make_turn

from collab.evaluation.results import ordered_metrics
from collab.evaluation.values import best_of_k, estimates_of, pass_at_k, task_values
from collab.records import Action, Decision, Episode, Feedback, Score, Usage


def group(task: str, *scores: Score) -> list[Episode]:
    return [make_episode(task, sample, score) for sample, score in enumerate(scores)]


def test_passes_and_best_test_fractions() -> None:
    passed = [make_score(solved=p, tests=t) for p, t in [(True, (4, 4)), (False, (2, 4))]]
    values = task_values(
        {"t": group("t", *passed, *[make_score(solved=False, tests=(0, 4))] * 2)}, [1, 2]
    )
    assert values["solved"]["t"] == 0.25
    assert values["pass@1"]["t"] == 0.25
    assert values["pass@2"]["t"] == pytest.approx(0.5)
    assert values["accuracy@1"]["t"] == pytest.approx(1.5 / 4)
    # Three of the 6 pairs contain the best value, and 2 the second best without it.
    assert values["accuracy@2"]["t"] == pytest.approx((3 * 1 + 2 * 0.5 + 1 * 0) / 6)


def test_levels_count_penalties_and_leave_out_what_does_not_apply() -> None:
    parts = (
        make_part("structure", 1.0, 0.6, name="entry_defined"),
        make_part("structure", 0.0, 0.4, name="helper_defined", applies=False),
        make_part("cooperation", 1.0, 0.5, name="calls"),
        make_part("cooperation", 0.0, 1.0, name="not_wrapper"),
        make_part("cooperation", 1.0, -0.5, name="ignores"),
        make_part("advice", 1.0, 1.0, applies=False),
    )
    values = task_values({"t": group("t", make_score(0.6, parts=parts))}, [1])
    assert values["level/structure"]["t"] == 1.0
    assert values["level/cooperation"]["t"] == 0.0
    assert values["value/calls"]["t"] == 1.0
    assert "value/helper_defined" not in values
    assert "level/advice" not in values


def test_level_without_points_uses_the_value_of_its_part() -> None:
    parts = (make_part("faithfulness", 0.25, 0.0), make_part("penalty", 1.0, -0.5))
    values = task_values({"t": group("t", make_score(parts=parts))}, [1])
    assert values["level/faithfulness"]["t"] == 0.25
    assert "level/penalty" not in values


def test_coop_at_k_is_the_best_share_of_the_cooperation_level() -> None:
    scores = [make_score(parts=(make_part("cooperation", v, 1.5),)) for v in (0.0, 1.0, 0.5)]
    values = task_values({"t": group("t", *scores)}, [1, 2])
    assert values["coop@1"]["t"] == pytest.approx(0.5)
    assert values["coop@2"]["t"] == pytest.approx((1.0 + 1.0 + 0.5) / 3)


def test_the_return_sums_the_turns_that_were_played() -> None:
    two = make_episode("t", 0, make_score(1.0), make_score(3.0))
    one = make_episode("t", 1, make_score(4.0))
    values = task_values({"t": [two, one]}, [1])
    assert values["return"]["t"] == 4.0
    assert values["return/share"]["t"] == pytest.approx((4 / 8 + 4 / 4) / 2)
    assert values["last_reward/share"]["t"] == pytest.approx((3 / 4 + 4 / 4) / 2)


def test_turns_are_listed_in_the_order_of_their_numbers() -> None:
    episode = make_episode("t", 0, *[make_score(solved=False)] * 11)
    rows = ordered_metrics([estimates_of(task_values({"t": [episode]}, ()), 1.0)])
    turns = [name for name in rows if name.startswith("solved/")]
    assert turns == [f"solved/turn_{number}" for number in range(1, 12)]


def test_without_tests_there_is_no_pass() -> None:
    values = task_values({"t": group("t", make_score(2.0))}, [1])
    assert set(values) == {"return", "return/share", "last_reward/share", "tokens/in_sequence"}


def test_agents_of_a_round_generate_at_the_same_time() -> None:
    moves = [("a", 0, 5), ("b", 0, 3), ("b", 0, 4), ("a", 1, 2), ("b", 2, 0)]
    decisions = tuple(
        Decision(
            agent=a, round=n, observation=(), action=Action(text="", usage=Usage(new_tokens=t))
        )
        for a, n, t in moves
    )
    turn = make_turn(make_score()).model_copy(update={"decisions": decisions})
    episode = make_episode("t", 0).model_copy(update={"turns": (turn, turn)})
    assert task_values({"t": [episode]}, [1])["tokens/in_sequence"]["t"] == 2 * (7 + 2 + 0)


def test_experts_tokens_are_in_sequence_with_those_of_agents() -> None:
    advice = [Feedback(source="expert", text="", usage=Usage(new_tokens=n)) for n in (30, 4)]
    turn = make_turn(make_score(), tokens=5).model_copy(update={"feedback": {"aux": tuple(advice)}})
    episode = make_episode("t", 0).model_copy(update={"turns": (turn, make_turn(make_score()))})
    assert task_values({"t": [episode]}, [1])["tokens/in_sequence"]["t"] == 5 + 34 + 10


def test_failed_episodes_have_no_value_and_lower_the_largest_k() -> None:
    finished = group("t", make_score(solved=True), make_score(solved=False))
    values = task_values(
        {"t": [*finished, make_episode("t", 2, make_score(0.0), failed=True)], "u": []}, [1, 2, 3]
    )
    assert values["pass@1"] == {"t": 0.5}
    assert values["pass@2"] == {"t": 1.0}
    assert "pass@3" not in values


def test_an_episode_with_a_turn_that_was_not_scored_has_no_value() -> None:
    assert task_values({"t": [make_episode("t", 0, make_score(), None)]}, [1]) == {}


SHARES = st.floats(0, 1).map(lambda value: round(value, 3))


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 9))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(counts())
def test_pass_at_k_is_the_share_of_subsets_with_a_pass(nck: tuple[int, int, int]) -> None:
    n, c, k = nck
    passed = [True] * c + [False] * (n - c)
    assert pass_at_k(n, c, k) == pytest.approx(fmean(map(any, combinations(passed, k))), abs=1e-12)


@given(st.lists(SHARES, min_size=1, max_size=8), st.data())
def test_best_of_k_is_the_mean_of_subsets_best(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    expected = fmean(map(max, combinations(values, k)))
    assert best_of_k(values, k) == pytest.approx(expected, abs=1e-12)


def test_large_numbers_of_samples_do_not_overflow() -> None:
    assert pass_at_k(10_000, 1, 5_000) == 0.5
    assert best_of_k([1.0, *[0.0] * 1999], 1000) == 0.5
    assert pass_at_k(10**6, 1, 1) == 1e-6
