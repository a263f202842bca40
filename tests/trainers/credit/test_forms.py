"""Checks of whether responses can be recombined, before anything runs."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from support.algorithms import built_in
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.trainers import credit
from collab.trainers.credit.games import one_turn, sample
from collab.trainers.credit.normalize import normalize
from collab.trainers.training.check import check_recipe


def team_of(tiny_words: Path, tmp_path: Path, trainer: dict[str, Any], **team: Any) -> Recipe:
    data = make_game(tiny_words, tmp_path, **{"algorithm": "cross", **trainer}).model_dump()
    data["team"] |= team
    for agent in data["team"]["agents"].values():
        agent["discuss"] = "again"
    return Recipe.model_validate(data)


def described(recipe: Recipe) -> str:
    assert recipe.trainer is not None
    algorithm = credit.algorithm_for(recipe.trainer.algorithm)
    return "\n".join(algorithm.describe(recipe, recipe.trainer))


def test_forms_of_a_parallel_team_are_described(tiny_words: Path, tmp_path: Path) -> None:
    found = described(team_of(tiny_words, tmp_path, {}, turns=2))
    assert "credit of a: crossed, its responses are scored with all" in found
    assert "from turn 2 on swapped" in found
    assert "at most 12 combinations" in found
    tree = described(team_of(tiny_words, tmp_path, {"turn_structure": "tree"}, turns=2))
    assert "swapped" not in tree


def test_removal_states_and_limits_the_combinations_that_it_scores(
    tiny_words: Path, tmp_path: Path
) -> None:
    recipe = team_of(tiny_words, tmp_path, {"algorithm": "removal", "group_size": 80})
    assert "at most 160 combinations" in described(recipe)
    check_recipe(recipe)


def test_forms_of_a_sequential_team_are_described(tiny_words: Path, tmp_path: Path) -> None:
    found = described(team_of(tiny_words, tmp_path, {}, protocol="sequential"))
    assert "credit of a: alone" in found
    assert "credit of b: swapped" in found


def test_agents_with_one_plan_are_not_crossed(tiny_words: Path, tmp_path: Path) -> None:
    """With an answer to another plan, the joint action would have the wrong probability."""
    data = team_of(tiny_words, tmp_path, {}).model_dump()
    data["team"]["agents"]["c"] = {"prompt": "x", "contributes": False}
    reads = {"a": ["c"], "b": ["c"]}
    data["team"]["protocol"] = {"use": "pipeline", "options": {"reads": reads}}
    found = described(Recipe.model_validate(data))
    assert "credit of a: swapped" in found
    assert "credit of b: swapped" in found


def test_team_with_nothing_to_cross_is_refused(tiny_words: Path, tmp_path: Path) -> None:
    for protocol in ("parallel", "sequential"):
        check_recipe(team_of(tiny_words, tmp_path, {}, protocol=protocol))
    with pytest.raises(RecipeError, match="set algorithm to 'marloo'"):
        check_recipe(team_of(tiny_words, tmp_path, {}, protocol="discussion"))


def test_reward_that_reads_an_agent_outside_the_joint_artifact_is_refused(
    tiny_words: Path, tmp_path: Path
) -> None:
    data = team_of(tiny_words, tmp_path, {}).model_dump()
    data["team"]["agents"]["c"] = {"prompt": "x", "contributes": False}
    check_recipe(Recipe.model_validate(data))
    options = {"phrases": ["x"], "agent": "c"}
    data["task"]["reward"]["parts"]["told"] = {"use": "contains", "options": options}
    with pytest.raises(RecipeError, match="but the reward's told reads another agent's"):
        check_recipe(Recipe.model_validate(data))


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        ({"group_size": 1}, "set group_size to 2"),
        ({"normalize": "agent"}, "set normalize to 'none', or to 'group'"),
        ({"normalize": "step"}, "set normalize to 'none', or to 'group'"),
        ({"group_size": 100}, "would score 9900 combinations"),
        ({"algorithm": {"use": "cross", "options": {"shifts": 1}}}, "'shifts': must be at least 2"),
        ({"algorithm": {"use": "coma", "options": {"shifts": 1}}}, "'shifts': must be at least 2"),
    ],
)
def test_invalid_settings_are_refused(
    trainer: dict[str, Any], message: str, tiny_words: Path, tmp_path: Path
) -> None:
    with pytest.raises(RecipeError, match=message):
        check_recipe(team_of(tiny_words, tmp_path, trainer))


@pytest.mark.parametrize("name", ["cross", "coma", "shapley"])
def test_agent_without_influence_keeps_small_normalized_weights(name: str) -> None:
    """Dividing by their own deviation would make weights that are pure noise as large as others."""
    rng = np.random.default_rng(0)
    table = np.tile([0.0, 1.0, 3.0], (4, 1)) + 1e-3 * rng.normal(size=(4, 3))
    group = sample(one_turn(table, [0.25] * 4, [0.3, 0.3, 0.4]), 8, rng)
    algorithm = built_in(name)
    weights = list(asyncio.run(algorithm.credit([group])))
    [found] = normalize([group], weights, "group", algorithm.spreads())
    [loud] = normalize([group], weights, "group")

    def size(agent: str, values: Any) -> float:
        return float(np.sqrt(np.mean([w**2 for (_, _, a), w in values.items() if a == agent])))

    assert size("a", found) < 0.01
    assert size("b", found) == pytest.approx(8 / 7, abs=0.05)
    assert size("a", loud) == pytest.approx(1, abs=0.1)


def test_removed_options_are_ignored_or_refused() -> None:
    old = {"joint_mode": "aligned", "max_dropped": 0.5, "max_skipped_steps": 3}
    assert not old.keys() & TrainerSpec.model_validate(old).model_dump().keys()
    with pytest.raises(ValidationError, match=r"max_dropped 0\.9 was removed; leave the key out"):
        TrainerSpec.model_validate({**old, "max_dropped": 0.9})
    with pytest.raises(ValidationError, match=r"joint_mode 'cross' was removed.*to 'cross'"):
        TrainerSpec.model_validate({**old, "joint_mode": "cross"})
    assert TrainerSpec.model_validate({"ranks": {"play_limit": 86400.0}}) == TrainerSpec()
    with pytest.raises(ValidationError, match=r"ranks\.play_limit 60\.0 was removed"):
        TrainerSpec.model_validate({"ranks": {"play_limit": 60.0}})


def test_removal_is_normalized_by_the_reward_with_and_without_the_answer() -> None:
    """Dividing by the deviation of the weights alone would blow up tiny differences."""

    async def without(_nodes: Any, choices: Any) -> Any:
        return [{"a": 0.9, "b": 0.9} for _ in choices]

    table = 1.0 + 1e-3 * np.arange(4).reshape(2, 2)
    group = sample(one_turn(table, [0.5, 0.5], [0.5, 0.5]), 8, np.random.default_rng(0))
    algorithm = built_in("removal")
    weights = list(asyncio.run(algorithm.credit([replace(group, ask=without)])))
    [found] = normalize([group], weights, "group", algorithm.spreads())
    assert list(found.values()) == pytest.approx([2.0] * 16, abs=0.05)
