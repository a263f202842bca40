"""Credit algorithms against numbers worked out by hand."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.episodes import make_episode, make_score
from support.trainer_recipes import make_game

from collab.errors import RecipeError, TrainingError, UnknownName
from collab.recipe.base import Component
from collab.records import Episode
from collab.trainers.credit import BUILT_IN, Group, Weights, algorithm_for
from collab.trainers.credit.checks import check_weights
from collab.trainers.credit.group import make_group
from collab.trainers.credit.normalize import normalize
from collab.trainers.credit.shape import Shape
from collab.trainers.training.check import check_recipe


def episode(sample: int, rewards: Sequence[float]) -> Episode:
    return make_episode("t", sample, *map(make_score, rewards))


def group_of(episodes: list[Episode], shape: Shape, discount: float = 1.0) -> Group:
    return make_group(
        episodes,
        ("a", "b"),
        lambda node: dict.fromkeys("ab", float(episodes[node[0]].rewards[node[1]])),
        shape,
        discount,
    )


def chains(*rewards: Sequence[float], discount: float = 1.0) -> Group:
    episodes = [episode(g, row) for g, row in enumerate(rewards)]
    return group_of(episodes, Shape("chains", len(rewards), 2), discount)


def of_agent(weights: Weights, turn: int, agent: str = "a") -> list[float]:
    found = sorted(weights.items())
    return [number(w) for (_, t, name), w in found if (t, name) == (turn, agent)]


def number(weight: float | Sequence[float]) -> float:
    assert not isinstance(weight, Sequence)
    return weight


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("magrpo", [-1.0, 0.0, 1.0]),
        ("marloo", [-1.5, 0.0, 1.5]),
        ("maremax", [-2.0, -1.0, 0.0]),
        ("mareinforce", [1.0, 2.0, 3.0]),
    ],
)
def test_baselines(name: str, expected: list[float]) -> None:
    weights = BUILT_IN[name](chains([1.0], [2.0], [3.0]))
    assert of_agent(weights, 0) == pytest.approx(expected)
    assert of_agent(weights, 0, "b") == of_agent(weights, 0, "a")


def test_returns_sum_rewards_from_each_turn_to_the_end() -> None:
    weights = BUILT_IN["mareinforce"](chains([1.0, 2.0], [3.0, 4.0]))
    assert of_agent(weights, 0) == [3.0, 7.0]
    assert of_agent(weights, 1) == [2.0, 4.0]


def test_discount_is_used() -> None:
    weights = BUILT_IN["mareinforce"](chains([1.0, 2.0], [3.0, 4.0], discount=0.5))
    assert of_agent(weights, 0) == [2.0, 5.0]


def test_episode_that_ended_early_is_excluded_from_later_turns() -> None:
    group = chains([1.0, 2.0], [5.0], [3.0, 4.0])
    assert of_agent(BUILT_IN["magrpo"](group), 1) == [-1.0, 1.0]
    assert of_agent(BUILT_IN["magrpo"](group), 0) == [-2.0, 0.0, 2.0]


def test_a_tree_compares_siblings_and_averages_over_children() -> None:
    shape = Shape("tree", group_size=2, n_turns=2)
    leaves = [episode(n, row) for n, row in enumerate([(1, 2), (1, 4), (3, 1), (3, 9)])]
    group = group_of(leaves, shape)
    assert group.returns[0, 0]["a"] == 1 + 3
    assert group.returns[2, 0]["a"] == 3 + 5
    weights = BUILT_IN["magrpo"](group)
    assert of_agent(weights, 0) == [-2.0, 2.0]
    assert of_agent(weights, 1) == [-1.0, 1.0, -4.0, 4.0]
    assert group.visit_share == {(0, 0): 0.5, (2, 0): 0.5, **{(n, 1): 0.25 for n in range(4)}}


def test_tree_with_an_early_end_has_correct_returns() -> None:
    leaves = [episode(0, [7]), episode(2, [1, 1]), episode(3, [1, 3])]
    group = group_of(leaves, Shape("tree", group_size=2, n_turns=2))
    assert [group.returns[node]["a"] for node in ((0, 0), (1, 0))] == [7, 3]
    assert group.visit_share[0, 0] == 0.5


def of_rewards(*rewards: dict[str, float]) -> Group:
    """One turn with separate rewards per agent."""
    episodes = [episode(g, [0.0]) for g in range(len(rewards))]
    shape = Shape("chains", len(rewards), 1)
    return make_group(episodes, ("a", "b"), lambda node: rewards[node[0]], shape)


def test_normalizing_by_agent_is_independent_per_task_and_agent() -> None:
    """Dr. MAS: an agent's weights do not depend on other tasks or on other agents' rewards."""
    one = of_rewards({"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 1.0}, {"a": 5.0, "b": 2.0})
    other = of_rewards(*({"a": 7 * r["a"], "b": 100 * r["b"]} for r in one.rewards.values()))
    plain = [BUILT_IN["magrpo"](group) for group in (one, other)]
    first, second = normalize([one, other], plain, "agent")
    assert [second[key] for key in second] == pytest.approx([first[key] for key in second])
    assert first == pytest.approx(normalize([one], plain[:1], "group")[0])
    for agent in ("a", "b"):
        values = of_agent(first, 0, agent)
        assert sum(v * v for v in values) / 3 == pytest.approx(1.0)


def test_normalizing_by_agent_is_shared_over_the_turns_of_a_task() -> None:
    group = chains([0.0, 1.0], [0.0, 3.0])
    [found] = normalize([group], [BUILT_IN["mareinforce"](group)], "agent")
    assert (of_agent(found, 0), of_agent(found, 1)) == ([1.0, 3.0], [1.0, 3.0])


def test_normalizing_by_step_keeps_the_difference_of_tasks() -> None:
    groups = [chains([0.0], [1.0]), chains([0.0], [10.0])]
    weights = [BUILT_IN["magrpo"](group) for group in groups]
    small, large = normalize(groups, weights, "step")
    assert of_agent(large, 0)[1] / of_agent(small, 0)[1] == pytest.approx(10.0)
    together = [*of_agent(small, 0), *of_agent(large, 0)]
    assert sum(v * v for v in together) / 4 == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["magrpo", "marloo", "maremax"])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e6 + 0.1])
def test_equal_returns_have_no_weight(name: str, value: float) -> None:
    group = chains(*[[value]] * 7)
    for how in ("none", "group", "agent", "step"):
        [weights] = normalize([group], [BUILT_IN[name](group)], how)
        assert max(abs(number(w)) for w in weights.values()) <= 1e-9


def test_unknown_algorithm_names_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="did you mean 'magrpo'"):
        algorithm_for(Component(use="magrop"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pass", "without the methods of an algorithm: credit"),
        ("def credit(self, groups): return []", "not async; use async def credit"),
    ],
)
def test_class_that_cannot_give_credit_is_refused(tmp_path: Path, body: str, message: str) -> None:
    imports = "from collab.trainers.credit import Algorithm\n"
    (tmp_path / "mine.py").write_text(f"{imports}class Mine(Algorithm):\n    {body}\n")
    with pytest.raises(RecipeError, match=message):
        algorithm_for(Component(use=f"{tmp_path}/mine.py:Mine"))


def test_the_credit_of_a_class_may_have_a_decorator(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from functools import wraps\n"
        "from collab.trainers.credit import Algorithm\n"
        "def logged(method):\n"
        "    @wraps(method)\n"
        "    def call(*given):\n"
        "        return method(*given)\n"
        "    return call\n"
        "class Mine(Algorithm):\n"
        "    @logged\n"
        "    async def credit(self, groups): return []\n"
    )
    algorithm = algorithm_for(Component(use=f"{tmp_path}/mine.py:Mine"))
    assert asyncio.run(algorithm.credit([])) == []


def test_invalid_weights_are_refused() -> None:
    group = chains([1.0], [2.0])
    with pytest.raises(TrainingError, match="returned the weight nan for agent 'a'"):
        check_weights([{(0, 0, "a"): float("nan")}], [group], "mine")
    with pytest.raises(TrainingError, match="which the group does not have"):
        check_weights([{(0, 5, "a"): 1.0}], [group], "mine")


@pytest.mark.parametrize("given", [None, {0: 1.0}, {(0, 0, "a"): np.ones(3)}])
def test_weights_of_another_form_are_refused(given: Any) -> None:
    with pytest.raises(TrainingError, match="a list of one number per token"):
        check_weights([given], [chains([1.0])], "mine")


@pytest.mark.parametrize("name", BUILT_IN)
def test_docstring_of_every_algorithm_states_its_rule_and_source(name: str) -> None:
    text = BUILT_IN[name].__doc__ or ""
    assert re.search(r"A_\S+( = |: )", text)
    assert re.search(r"arXiv|\b(19|20)\d\d\b", text)


def test_normalizing_skips_an_agent_that_did_not_act() -> None:
    group = of_rewards({"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 1.0}, {"a": 5.0, "b": 2.0})
    weights = dict(BUILT_IN["magrpo"](group))
    for absent in ((0, 0, "a"), *((g, 0, "b") for g in range(3))):
        del weights[absent]
    for how in ("group", "agent", "step"):
        [found] = normalize([group], [weights], how)
        assert set(found) == set(weights)


@pytest.mark.parametrize("name", ["rae", "iac", "maac"])
def test_baseline_over_other_steps_refuses_group_normalization(name: str, tmp_path: Path) -> None:
    recipe = make_game(Path("model"), tmp_path, algorithm=name, normalize="group")
    with pytest.raises(RecipeError, match="set normalize to 'none' or 'step'"):
        check_recipe(recipe)
