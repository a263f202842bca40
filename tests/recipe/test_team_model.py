"""The model that a team was written for."""

from pathlib import Path

import pytest

from collab.errors import RecipeError
from collab.recipe import load_recipe
from collab.recipe.model import TransformersSpec

TEAM = """\
model: {engine: transformers, name: written-for, dtype: float32}
agents: {main: {prompt: hi}}
"""


@pytest.fixture
def team(here: Path) -> str:
    path = here / "mine.yaml"
    path.write_text(TEAM)
    return str(path)


def test_recipe_without_a_model_uses_the_team_model(team: str) -> None:
    model = load_recipe(team).model
    assert isinstance(model, TransformersSpec)
    assert (model.name, model.dtype) == ("written-for", "float32")


def test_a_fault_of_the_team_model_is_listed_once(here: Path) -> None:
    (here / "bad.yaml").write_text("model: {engine: echo, typo: 1}\nagents: {main: {prompt: hi}}\n")
    with pytest.raises(RecipeError, match=r"bad\.yaml: team\.model: unknown key 'typo'") as refused:
        load_recipe("bad.yaml")
    assert len(str(refused.value).splitlines()) == 1


def test_a_named_model_wins(team: str) -> None:
    assert load_recipe(team, model="echo").model.engine == "echo"
    changed = load_recipe(team, settings=["model.dtype=bfloat16"]).model
    assert isinstance(changed, TransformersSpec)
    assert (changed.name, changed.dtype) == ("written-for", "bfloat16")


@pytest.mark.usefixtures("team")
@pytest.mark.parametrize(
    ("start", "settings", "model"),
    [
        ("mine.yaml", ["team.model.name=other"], ("other", "float32")),
        ("mine.yaml", ["model.dtype=float16", "team.model.name=other"], ("other", "float16")),
        ("coding", ["team=mine.yaml"], ("written-for", "float32")),
        ("mine.yaml", ["team.model=a", "team.model.name=other"], ("other", "auto")),
    ],
)
def test_settings_choose_the_team_or_its_model(
    start: str, settings: list[str], model: tuple[str, str]
) -> None:
    used = load_recipe(start, settings=settings).model
    assert isinstance(used, TransformersSpec)
    assert (used.name, used.dtype) == model


def test_engines_of_vllm_are_found_beside_an_engine_with_options(here: Path) -> None:
    (here / "own.py").write_text("def open_it(spec):\n    raise NotImplementedError\n")
    own = {"engine": "own.py:open_it", "options": {"sizes": [1]}}
    vllm = "vllm:smollm2-135m"
    agents = {"a": {"model": own}, "b": {"model": vllm}, "c": {"model": vllm}}
    recipe = load_recipe({"team": {"agents": agents}})
    assert recipe.vllm_engines == [recipe.model_of("b")]
