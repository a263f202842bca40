"""AT-GRPO and its greedy tree: siblings share a state, and the best one continues."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.algorithm_runs import run
from support.algorithms import built_in, check_exact
from support.episodes import make_episode, make_score, make_turn
from support.trainer_recipes import make_game

from collab.recipe import Recipe
from collab.records import Episode, Turn, read_episodes
from collab.trainers.credit import Group
from collab.trainers.credit.games import Game, one_turn, paper_game, sample, two_turns
from collab.trainers.credit.group import make_group
from collab.trainers.credit.magrpo import at_grpo, magrpo
from collab.trainers.credit.normalize import normalize
from collab.trainers.credit.shape import Shape
from collab.trainers.credit.step_credit import Credit
from collab.trainers.learner.update import Update
from collab.trainers.training.metrics import StepData, _staleness_metrics
from collab.trainers.training.plan.plan import make_plan


def greedy(*rows: tuple[int, Sequence[float]], horizon: int = 2) -> Group:
    """Two siblings per turn; each row is a sample with its rewards."""
    episodes = [make_episode("t/1", n, *map(make_score, r), horizon=horizon) for n, r in rows]
    return make_group(
        episodes,
        ["main"],
        lambda node: {"main": float(episodes[node[0]].rewards[node[1]])},
        Shape("greedy", 2, horizon),
    )


def test_at_grpo_of_one_agent_and_turn_is_grpo() -> None:
    game = one_turn([3.0, 1.0, -2.0], [0.2, 0.3, 0.5])
    group = sample(game, 8, np.random.default_rng(0))
    [expected] = normalize([group], [magrpo(group)], "group")
    assert at_grpo(group) == pytest.approx(dict(expected))


def test_weights_do_not_grow_with_the_scale_of_an_agents_rewards() -> None:
    game = paper_game(0.4, 0.4)
    game = replace(game, rewards=(np.zeros((2, 2)),), extra={"a": game.rewards[0]})
    game = replace(game, extra={**game.extra, "b": 100 * game.extra["a"] - 7})
    weights = at_grpo(sample(game, 6, np.random.default_rng(3)))
    found = {agent: [weights[n, 0, agent] for n in range(6)] for agent in "ab"}
    assert found["a"] == pytest.approx(found["b"])
    assert np.std(found["a"]) == pytest.approx(1)


def test_turn_is_compared_with_its_siblings_by_immediate_rewards() -> None:
    group = greedy((0, [1.0]), (2, [3.0, 0.5]), (3, [3.0, 2.5]))
    assert group.baselines_over == (((0, 0), (1, 0)), ((1, 1), (2, 1)))
    assert set(group.visit_share.values()) == {0.5}
    assert group.returns == group.rewards
    assert at_grpo(group) == {
        (0, 0, "main"): -1.0,
        (1, 0, "main"): 1.0,
        (1, 1, "main"): -1.0,
        (2, 1, "main"): 1.0,
    }


def test_equal_rewards_give_zero_weights() -> None:
    assert set(at_grpo(greedy((0, [3.0]), (2, [3.0, 2.0]), (3, [3.0, 2.0]))).values()) == {0.0}


def test_independent_turns_are_learned_without_bias() -> None:
    """If turns are independent, a turn is worth only its own reward."""
    rng = np.random.default_rng(4)
    logits = {(agent, turn, 0): rng.normal(size=2) for agent in "ab" for turn in range(2)}
    game = Game(("a", "b"), tuple(rng.normal(size=(2, 2)) for _ in range(2)), logits)
    check_exact(game, built_in("marloo"), 2, shape=Shape("greedy", 2, 2))


def test_greedy_game_continues_from_its_best_turn() -> None:
    game = two_turns()
    group = sample(game, 4, np.random.default_rng(0), shape=Shape("greedy", 4, 2))
    assert len(group.episodes) == 7
    assert sorted(len(e.turns) for e in group.episodes) == [1] * 3 + [2] * 4
    going, *others = sorted(group.episodes, key=lambda e: -len(e.turns))
    assert all(e.rewards[0] <= going.rewards[0] for e in others)


def settings() -> dict[str, Any]:
    """Read the settings of `trainers/at-grpo.yaml`."""
    import yaml

    text = (Path(__file__).parents[3] / "trainers" / "at-grpo.yaml").read_text()
    found = yaml.safe_load(text)
    return {key: value for key, value in found.items() if key != "description"}


def of_turns(recipe: Recipe, turns: int) -> Recipe:
    return recipe.model_copy(update={"team": recipe.team.model_copy(update={"turns": turns})})


def test_each_turn_continues_from_its_best_sibling(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, **{**settings(), "group_size": 3, "steps": 1})
    recipe = of_turns(recipe, 3)
    [row] = run(recipe, tmp_path / "run")
    assert row["groups/dead"] < 1
    for number in range(2):
        group = [e for e in read_episodes(tmp_path / "run") if e.group == number]
        assert len(group) == row["episodes"] / 2 == 7
        check_group(group)
    first = [e for e in read_episodes(tmp_path / "run") if len(e.turns) == 3]
    assert row["return/mean"] == pytest.approx(np.mean([e.joint_return or 0 for e in first]))
    assert make_plan(recipe).episodes_per_step == 14


def test_metrics_count_each_response_once(tiny_words: Path, tmp_path: Path) -> None:
    """Episodes that continue from the same turn share its responses."""
    recipe = of_turns(make_game(tiny_words, tmp_path, **{**settings(), "steps": 1}), 2)
    [row] = run(recipe, tmp_path / "run")
    actions = {
        (episode.group, turn.index, d.action.token_ids, d.action.logprobs): d.action
        for episode in read_episodes(tmp_path / "run")
        for turn in episode.turns
        for d in turn.decisions
        if d.agent == "a"
    }.values()
    assert row["agent/a/length"] == pytest.approx(np.mean([len(a.token_ids) for a in actions]))
    logprobs = [value for action in actions for value in action.logprobs]
    assert row["agent/a/entropy"] == pytest.approx(-np.mean(logprobs))


def test_staleness_counts_each_response_once() -> None:
    """Two episodes share their first turn, which an older policy sampled."""
    shared, *later = (turn_of_version(version) for version in (1, 3, 3))
    group = [
        make_episode("t/1", n).model_copy(update={"turns": (shared, later[n])}) for n in (0, 1)
    ]
    data = StepData(groups=[group], credit=Credit(), update=Update(), version=4)
    assert dict(_staleness_metrics(data, ["main"])) == {"staleness": pytest.approx(5 / 3)}


def turn_of_version(version: int) -> Turn:
    turn = make_turn()
    decisions = (
        d.model_copy(update={"action": d.action.model_copy(update={"version": version})})
        for d in turn.decisions
    )
    return turn.model_copy(update={"decisions": tuple(decisions)})


def check_group(group: list[Episode]) -> None:
    """Siblings share their earlier turns, and no episode that ended scored higher."""
    for turn in (1, 2):
        siblings = [e for e in group if len(e.turns) >= turn + 1]
        histories = {e.model_dump_json(include={"turns": set(range(turn))}) for e in siblings}
        assert len(histories) == 1
        ended = [e for e in group if len(e.turns) == turn]
        assert all(e.rewards[turn - 1] <= siblings[0].rewards[turn - 1] for e in ended)
        sampled = {tuple(d.action.token_ids for d in e.turns[turn].decisions) for e in siblings}
        assert len(sampled) > 1


def test_greedy_structure_with_one_turn_equals_chains(tiny_words: Path, tmp_path: Path) -> None:
    for structure in ("greedy", "chains"):
        recipe = make_game(tiny_words, tmp_path, turn_structure=structure, steps=1)
        run(recipe, tmp_path / structure)
    files = [tmp_path / s / "adapters/a/adapter_model.safetensors" for s in ("greedy", "chains")]
    assert files[0].read_bytes() == files[1].read_bytes()
