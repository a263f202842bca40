"""The warm start: maximize the likelihood of the team's own correct answers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.episodes import make_episode, make_score
from support.trainer_recipes import make_game, make_solvable, steps_of

from collab.errors import RecipeError, TrainingError
from collab.recipe import TrainerSpec, load_recipe
from collab.trainers import TrainingRun
from collab.trainers.credit.group import make_group
from collab.trainers.credit.sft import Sft
from collab.trainers.credit.shape import Shape
from collab.trainers.training.check import check_recipe


def group_of_scores(*scores: tuple[float, bool | None]) -> Any:
    """A group of one-turn episodes of two agents; each score is a reward out of 4 and solved."""
    episodes = [
        make_episode("suite/t", n, make_score(reward, solved=solved), horizon=1)
        for n, (reward, solved) in enumerate(scores)
    ]
    shape = Shape("chains", len(episodes), 1)
    return make_group(episodes, "ab", lambda node: dict.fromkeys("ab", scores[node[0]][0]), shape)


def weights_of(algorithm: Sft, group: Any) -> dict[str, list[float]]:
    weights: Any = asyncio.run(algorithm.credit([group]))[0]
    return {a: [float(weights[g, 0, a]) for g in range(len(group.episodes))] for a in "ab"}


def test_solved_episodes_have_weight_one_for_every_agent() -> None:
    algorithm = Sft()
    group = group_of_scores((4.0, True), (3.9, False), (1.0, True), (0.0, False))
    assert weights_of(algorithm, group) == {"a": [1, 0, 1, 0], "b": [1, 0, 1, 0]}
    assert algorithm.measures() == {"sft/kept": 0.5}


def test_threshold_on_the_return_replaces_solved() -> None:
    group = group_of_scores((4.0, None), (2.0, None), (2.1, None), (-1.0, None))
    assert weights_of(Sft(above=0.5), group)["a"] == [1, 0, 1, 0]


def test_reward_that_does_not_define_solved_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"suite/t does not define solved; set its option"):
        weights_of(Sft(), group_of_scores((4.0, None)))


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        ({"turn_structure": "tree"}, "turn_structure 'tree'"),
        ({"normalize": "group"}, "normalize 'group'"),
        ({"clip_ratio": 0.2}, "a likelihood has no ratio to clip; leave out objective, clip_ratio"),
        ({"algorithm": {"use": "sft", "options": {"above": 1.0}}}, "'above': must be less than 1"),
    ],
)
def test_settings_without_meaning_for_a_likelihood_are_refused(
    trainer: dict[str, Any], message: str, tiny_words: Path, tmp_path: Path
) -> None:
    with pytest.raises(RecipeError, match=message):
        check_recipe(make_game(tiny_words, tmp_path, **{"algorithm": "sft", **trainer}))


def test_likelihood_may_take_several_steps_on_the_same_episodes() -> None:
    assert TrainerSpec.model_validate({"algorithm": "sft", "inner_epochs": 3}).inner_epochs == 3
    with pytest.raises(ValueError, match="set objective to ppo and clip_ratio"):
        TrainerSpec(inner_epochs=3)


@pytest.mark.slow
def test_warm_started_team_solves_more_and_can_go_on(tiny_words: Path, tmp_path: Path) -> None:
    warm = make_solvable(
        tiny_words, tmp_path, algorithm="sft", group_size=16, learning_rate=0.02, steps=12
    )
    asyncio.run(TrainingRun(warm, tmp_path / "warm").run())
    rows = steps_of(tmp_path / "warm")
    assert rows[-1]["solved"] > rows[0]["solved"] + 0.3
    after = load_recipe(str(tmp_path / "warm"), trainer="cross", settings=["trainer.steps=1"])
    assert after.trainer is not None
    assert after.trainer.algorithm.use == "cross"
    asyncio.run(TrainingRun(after, tmp_path / "after").run())
    [row] = steps_of(tmp_path / "after")
    assert row["solved"] > rows[0]["solved"] + 0.2, "training starts from the warm start"


@pytest.mark.parametrize("when_solved", ["stop", "absorb"])
def test_episode_solved_early_is_kept_with_stop_and_absorb(when_solved: str) -> None:
    [episode] = group_of_scores((4.0, True)).episodes
    early = episode.model_copy(update={"horizon": 3, "when_solved": when_solved})
    assert Sft(above=0.5).keeps(early)
    poor = early.model_copy(update={"turns": group_of_scores((1.0, False)).episodes[0].turns})
    assert not Sft(above=0.2).keeps(poor)


def test_zero_sum_game_is_refused() -> None:
    recipe = load_recipe("kuhn", task="kuhn", trainer={"extends": "rae"})
    assert recipe.trainer is not None
    with pytest.raises(RecipeError, match="zero-sum game 'kuhn'"):
        Sft(above=0.5).check(recipe, recipe.trainer)
