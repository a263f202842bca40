"""The page about small models: its settings are valid and have their effect."""

import re
from pathlib import Path

import yaml

from collab.recipe import Recipe, load_recipe
from collab.trainers.training.check import check_recipe

PAGE = (Path(__file__).parents[2] / "docs" / "small_models.md").read_text()
SNIPPETS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def pocket(**changes: object) -> Recipe:
    data = load_recipe("pocket", task="pocket-levels", trainer="magrpo").model_dump(mode="json")
    return Recipe.model_validate({**data, **changes})


def test_each_agent_has_its_own_sampling_limits() -> None:
    [agents] = [snippet["agents"] for snippet in SNIPPETS if "agents" in snippet]
    team = {"agents": agents, "sampling": {"temperature": 0.5, "max_new_tokens": 100}}
    recipe = pocket(team=team)
    aux, main = recipe.sampling_of("aux"), recipe.sampling_of("main")
    assert (aux.max_new_tokens, aux.stop, aux.temperature) == (24, ("\n",), 0.5)
    assert (main.max_new_tokens, main.stop, main.temperature) == (48, (), 0.8)


def test_trainers_of_the_page_can_train() -> None:
    trainers = [snippet["trainer"] for snippet in SNIPPETS if "trainer" in snippet]
    assert {key for trainer in trainers for key in trainer} >= {"episodes"}
    for trainer in trainers:
        assert check_recipe(pocket(trainer=trainer)) is not None
