"""The index links every page; the pages on evaluation and protocols are complete."""

import inspect
import re
from pathlib import Path

import pytest
import yaml
from support.blocks import DOCS, blocks

from collab.recipe import load_recipe
from collab.recipe.trainer import EvaluationSpec
from collab.runtime.protocols import BUILT_IN
from collab.trainers.training.check import check_recipe


def test_index_links_to_every_page() -> None:
    linked = set(re.findall(r"\]\((\w+\.md)\)", (DOCS / "index.md").read_text()))
    assert linked == {page.name for page in DOCS.glob("*.md")} - {"index.md"}


def test_evaluation_settings_of_the_page_are_valid() -> None:
    [data] = [yaml.safe_load(text) for text in blocks("held_out.md", "yaml")]
    settings = [f"trainer.{key}={value}" for key, value in data["trainer"].items()]
    recipe = load_recipe("pocket", task="pocket-code", trainer="magrpo", settings=settings[1:])
    spec = check_recipe(recipe)
    assert spec.tasks == "train"
    assert spec.evaluation == EvaluationSpec.model_validate(data["trainer"]["evaluation"])
    keys = re.findall(r"^\| `(\w+)` \|", (DOCS / "held_out.md").read_text(), re.MULTILINE)
    assert keys == list(EvaluationSpec.model_fields)


def test_the_first_recipe_can_be_trained(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(blocks("start.md", "yaml")[0])
    spec = check_recipe(load_recipe(recipe))
    assert (spec.steps, spec.evaluation) == (10, EvaluationSpec(samples=2))


@pytest.mark.parametrize("name", BUILT_IN)
def test_page_names_the_templates_of_every_protocol(name: str) -> None:
    page = (DOCS / "protocols.md").read_text()
    section = page.partition("## Templates by protocol")[2].partition("\n## ")[0]
    [row] = [line for line in section.splitlines() if re.match(rf"\|.*`{name}`.*\|.*\|", line)]
    source = inspect.getsource(inspect.getmodule(BUILT_IN[name]) or BUILT_IN[name])
    templates = re.findall(r'"(discuss|rebut|criticise|answer_critic)"', source)
    assert all(f"{template}`" in row for template in ["prompt", *templates])
