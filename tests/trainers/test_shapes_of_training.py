"""Teams, protocols and policies that can be trained."""

import asyncio
from pathlib import Path

import pytest
import torch
from support.algorithm_runs import run as train
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS, changed, make_game

from collab.recipe import Recipe, load_recipe
from collab.records import Episode, read_episodes
from collab.runtime import Team
from collab.trainers.learner.policy import open_policies

pytestmark = pytest.mark.slow


def changed_policies(run: Path, kind: str = "adapters") -> set[str]:
    """Names of policies whose last checkpoint differs from the first."""
    found: dict[str, list[bytes]] = {}
    for step in ("step-000000", "step-000002"):
        for path in (run / "checkpoints" / step / "policies").glob("*/*.safetensors"):
            found.setdefault(path.parent.name, []).append(path.read_bytes())
    assert kind == "adapters" or found
    return {name for name, (first, last) in found.items() if first != last}


KEEP_ALL = {"steps": 2, "checkpoint_every": 1, "keep_checkpoints": 9}


def test_one_agent_is_grpo(tiny_words: Path, tmp_path: Path) -> None:
    game = make_game(tiny_words, tmp_path, **KEEP_ALL)
    data = game.model_dump()
    del data["team"]["agents"]["b"]
    data["team"]["protocol"] = "single"
    train(Recipe.model_validate(data), tmp_path / "run")
    assert changed_policies(tmp_path / "run") == {"a"}


def test_frozen_teammate_may_use_any_engine(tiny_words: Path, tmp_path: Path) -> None:
    game = make_game(tiny_words, tmp_path, **KEEP_ALL)
    frozen = changed(game, "team.agents.b.trainable", False)
    train(changed(frozen, "team.agents.b.model", "echo"), tmp_path / "run")
    assert changed_policies(tmp_path / "run") == {"a"}
    assert load_recipe(str(tmp_path / "run")).team.agents["b"].adapter is None


def test_different_base_models_in_one_team(tiny_words: Path, tmp_path: Path) -> None:
    other = save_tiny(tmp_path / "other", WORDS, hidden=64, seed=1)
    game = make_game(tiny_words, tmp_path, **KEEP_ALL)
    spec = {"name": str(other), "dtype": "float32", "device": "cpu"}
    train(changed(game, "team.agents.b.model", spec), tmp_path / "run")
    assert changed_policies(tmp_path / "run") == {"a", "b"}


def test_shared_adapter_for_all_agents(tiny_words: Path, tmp_path: Path) -> None:
    game = make_game(tiny_words, tmp_path, policies="shared_adapter", **KEEP_ALL)
    train(game, tmp_path / "run")
    assert changed_policies(tmp_path / "run") == {"shared"}
    agents = load_recipe(str(tmp_path / "run")).team.agents
    assert {agent.adapter for agent in agents.values()} == {str(tmp_path / "run/adapters/shared")}


@pytest.mark.parametrize(("dtype", "kl_coef"), [("float32", 0.1), ("bfloat16", 0.0)])
def test_full_models_are_trained(
    tiny_words: Path, tmp_path: Path, dtype: str, kl_coef: float, capfd: pytest.CaptureFixture[str]
) -> None:
    game = make_game(tiny_words, tmp_path, policies="full", kl_coef=kl_coef, **KEEP_ALL)
    rows = train(changed(game, "model.dtype", dtype), tmp_path / "run")
    assert capfd.readouterr().err == ""  # transformers shows progress bars while saving
    assert changed_policies(tmp_path / "run") == {"a", "b"}
    assert ("agent/a/kl" in rows[-1]) == bool(kl_coef)
    episode = Team(load_recipe(str(tmp_path / "run"))).run("game/8").episode
    assert episode.failure is None
    assert {d.action.model for t in episode.turns for d in t.decisions} == {
        str(tmp_path / "run" / "models" / name) for name in "ab"
    }


def test_a_tree_plays_every_branch_once(tiny_words: Path, tmp_path: Path) -> None:
    game = make_game(tiny_words, tmp_path, turn_structure="tree", group_size=2, **KEEP_ALL)
    rows = train(changed(game, "team.turns", 3), tmp_path / "run")
    leaves = [e for e in read_episodes(tmp_path / "run") if e.group == 0]
    assert [e.sample for e in leaves] == list(range(8))
    assert tokens_of_turn(leaves[0], 0) == tokens_of_turn(leaves[3], 0)
    assert tokens_of_turn(leaves[0], 1) == tokens_of_turn(leaves[1], 1)
    assert rows[0]["episodes"] == 16
    # 2 tasks x (2 + 4 + 8) joint actions x 2 agents: nothing is sampled twice.
    assert rows[0]["tokens"] <= 2 * 14 * 2 * 3


def tokens_of_turn(episode: Episode, turn: int) -> list[tuple[int, ...]]:
    return [d.action.token_ids for d in episode.turns[turn].decisions]


def test_crossing_scores_every_combination(tiny_words: Path, tmp_path: Path) -> None:
    """With crossing, a reward that depends only on `a` teaches `b` nothing."""
    game = make_game(tiny_words, tmp_path, algorithm="cross", **KEEP_ALL)
    data = game.model_dump()
    del data["task"]["reward"]["parts"]["b_left"]
    train(Recipe.model_validate(data), tmp_path / "run")
    assert changed_policies(tmp_path / "run") == {"a"}


def test_a_curriculum_begins_with_one_turn(tiny_words: Path, tmp_path: Path) -> None:
    game = make_game(
        tiny_words, tmp_path, steps=3, curriculum=[{"steps": 2, "turns": 1, "feedback": ["self"]}]
    )
    train(changed(game, "team.turns", 2), tmp_path / "run")
    turns = {e.group // 2: len(e.turns) for e in read_episodes(tmp_path / "run")}
    assert turns == {0: 1, 1: 1, 2: 2}


def test_a_shared_base_is_in_memory_once(tiny_words: Path, tmp_path: Path) -> None:
    game = make_game(tiny_words, tmp_path)
    assert game.trainer is not None
    policies = open_policies(game, game.trainer)
    modules = {id(policy.engine.module) for policy in policies}
    assert len(modules) == 1
    base = [p for k, p in next(iter(policies)).engine.module.named_parameters() if "lora" not in k]
    assert not any(p.requires_grad for p in base)
    assert len({p.data_ptr() for p in base}) == len(base)
    asyncio.run(policies.aclose())


def test_metrics_match_the_episodes(tiny_words: Path, tmp_path: Path) -> None:
    [row] = train(make_game(tiny_words, tmp_path, steps=1), tmp_path / "run")
    episodes = list(read_episodes(tmp_path / "run"))
    returns = torch.tensor([e.joint_return for e in episodes], dtype=torch.float64)
    assert row["return/mean"] == pytest.approx(float(returns.mean()))
    assert row["return/std"] == pytest.approx(float(returns.std(correction=0)))
    lengths = [len(d.action.token_ids) for e in episodes for d in e.decisions("a")]
    assert row["agent/a/length"] == pytest.approx(sum(lengths) / len(lengths))
    assert row["mismatch"] < 1e-4
