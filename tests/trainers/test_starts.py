"""Training that starts from adapters: the KL reference, and full models merged from adapters."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from support.algorithm_runs import run
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.recipe import Recipe, load_recipe
from collab.trainers import TrainingRun
from collab.trainers.learner.learner import Learner
from collab.trainers.learner.policy import Policies, open_policies
from collab.trainers.training.check import check_recipe

STRONG = {"learning_rate": 0.05, "steps": 3}
"""Settings for adapters far from the base: about one nat per token."""


@pytest.fixture(scope="module")
def trained(tiny_words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Adapters of a team trained earlier, by agent."""
    folder = tmp_path_factory.mktemp("trained")
    asyncio.run(TrainingRun(make_game(tiny_words, folder, **STRONG), folder / "run").run())
    return folder / "run" / "adapters"


def with_start_adapters(recipe: Recipe, adapters: dict[str, Path]) -> Recipe:
    data = recipe.model_dump()
    for agent, folder in adapters.items():
        data["team"]["agents"][agent]["adapter"] = str(folder)
    return Recipe.model_validate(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policies", "kl_coef"),
    [("adapters", 0.0), ("shared_adapter", 0.1), ("full", 0.0), ("full", 0.1)],
)
def test_kl_is_measured_from_the_start_of_training(
    trained: Path, tiny_words: Path, tmp_path: Path, policies: str, kl_coef: float
) -> None:
    game = make_game(tiny_words, tmp_path, policies=policies, kl_coef=kl_coef, steps=2)
    recipe = with_start_adapters(game, {"a": trained / "a", "b": trained / "a"})
    first, second = run(recipe, tmp_path / "run")
    keys = [
        key for key in first if key.endswith("/kl")
    ]  # without kl_coef, KL is measured on a few responses
    assert bool(keys) == (kl_coef > 0 or policies != "full")
    for key in keys:
        assert first[key] < 1e-6
        assert second[key] > 1e-6


def test_reference_stays_where_it_began(trained: Path, tiny_words: Path, tmp_path: Path) -> None:
    recipe = with_start_adapters(make_game(tiny_words, tmp_path), {"a": trained / "a"})
    policies = open_policies(recipe, check_recipe(recipe))
    ids = torch.tensor([[1, 2, 3]])
    began = answers(policies, ids)
    with torch.no_grad():
        for policy in policies:
            for parameter in policy.parameters.values():
                parameter.add_(0.1)
    for policy in policies:
        with policy.reference() as model:
            assert torch.equal(model(ids).logits, began[policy.name])
    asyncio.run(policies.aclose())


def answers(policies: Policies, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    found = {}
    for policy in policies:
        with policy.training() as model, torch.no_grad():
            found[policy.name] = model(ids).logits
    return found


def test_full_models_merge_their_adapters(trained: Path, tiny_words: Path, tmp_path: Path) -> None:
    ids = torch.tensor([[1, 2, 3, 4]])
    found = {}
    for policies in ("adapters", "full"):
        game = make_game(tiny_words, tmp_path, policies=policies)
        recipe = with_start_adapters(game, {"a": trained / "a"})
        opened = open_policies(recipe, check_recipe(recipe))
        found[policies] = answers(opened, ids)
        if policies == "full":
            opened.by_name["a"].save(tmp_path / "saved")
        asyncio.run(opened.aclose())
    for agent in "ab":
        torch.testing.assert_close(found["full"][agent], found["adapters"][agent])
    assert not torch.allclose(found["full"]["a"], found["full"]["b"], atol=0.1)
    from transformers import AutoModelForCausalLM

    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    torch.testing.assert_close(saved(ids).logits, found["full"]["a"])


def test_full_model_with_a_merged_adapter_trains_and_runs(
    trained: Path, tiny_words: Path, tmp_path: Path
) -> None:
    game = make_game(tiny_words, tmp_path, policies="full", steps=1)
    run(with_start_adapters(game, {"a": trained / "a"}), tmp_path / "run")
    agents = load_recipe(str(tmp_path / "run")).team.agents
    assert [agent.adapter for agent in agents.values()] == [None, None]
    training = TrainingRun(
        with_start_adapters(
            make_game(tiny_words, tmp_path, policies="full", steps=2), {"a": trained / "a"}
        ),
        tmp_path / "run",
        resume=True,
    )
    assert asyncio.run(training.run())["steps"] == 2


def test_full_model_with_a_missing_adapter_is_refused(tiny_words: Path, tmp_path: Path) -> None:
    game = make_game(tiny_words, tmp_path, policies="full")
    recipe = with_start_adapters(game, {"a": tmp_path / "nowhere"})
    with pytest.raises(RecipeError, match="nowhere"):
        asyncio.run(TrainingRun(recipe, tmp_path / "run").run())


@pytest.mark.parametrize("policies", ["adapters", "full"])
def test_row_sharing_is_probed_once_per_base(
    tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policies: str
) -> None:
    calls: list[object] = []
    from collab.trainers.learner import batch_sizes

    real = batch_sizes.supports_prefix_tree

    def watched(*arguments: Any) -> bool:
        calls.append(1)
        return real(*arguments)

    monkeypatch.setattr(batch_sizes, "supports_prefix_tree", watched)
    recipe = make_game(tiny_words, tmp_path, policies=policies)
    opened = open_policies(recipe, check_recipe(recipe))
    learner = Learner(opened, check_recipe(recipe), total_steps=1)
    assert len({learner._sizes.can_share_rows(policy) for policy in opened}) == 1
    assert len(calls) == 1
    asyncio.run(opened.aclose())
