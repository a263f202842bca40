"""Shipped trainers and recipes are valid, and reading recipes needs no torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from collab.recipe import TrainerSpec, library, load_recipe
from collab.trainers.training.check import check_recipe
from collab.trainers.training.data import choose_tasks

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "examples" / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("name", [name for name, _ in library.components("trainer")])
def test_every_shipped_trainer_loads(name: str) -> None:
    recipe = load_recipe("coding", task="humaneval", trainer=name)
    assert recipe.trainer is not None
    assert recipe.trainer.description


def some_rows(file: Path) -> list[str]:
    """Settings that read a suite of the hub from a file."""
    row = {
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "test": "def check(f):\n    assert f(1) == 1",
        "raw_problem": "# One.\ndef g(x):\n",
        "raw_solution": "    return 1",
        "new_problem": "# The same.\ndef f(x):\n",
        "new_solution": "    return g(x)",
        "test_code": "assert f(1) == 1\nassert f(2) == 1",
    }
    rows = ({"task_id": str(n), "id": n, **row} for n in range(4))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    splits = "{train: '0-2', test: '3-3', validation: '3-3'}"
    return [f"task.source.path={file}", f"task.splits={splits}"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_shipped_recipe_can_be_trained(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(str(path))
    if recipe.task and recipe.task.source.hub:
        settings = some_rows(tmp_path / "rows.jsonl")
        if recipe.task.source.adapt and recipe.task.source.adapt.use == "pro":
            settings.append("task.source.adapt.options.known=null")
        recipe = load_recipe(str(path), settings=settings)
    spec = check_recipe(recipe)
    tasks = choose_tasks(recipe, spec)
    assert tasks.training
    assert bool(tasks.held_out) == (spec.evaluation is not None)


def test_only_self_play_recipe_has_no_evaluation() -> None:
    trainers = {path.stem: load_recipe(str(path)).trainer for path in RECIPES}
    without = [name for name, spec in trainers.items() if spec is None or not spec.evaluation]
    assert without == ["kuhn"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_for_a_gpu_or_vllm_corrects_for_its_sampler(path: Path) -> None:
    recipe = load_recipe(str(path))
    assert recipe.trainer is not None
    for model in map(recipe.model_of, recipe.team.agents):
        if model.engine == "vllm" or getattr(model, "device", None) == "cuda":
            assert recipe.trainer.importance_cap == 2.0


def test_defaults_match_the_paper() -> None:
    shipped = load_recipe("coding", task="humaneval", trainer="magrpo").trainer
    assert shipped is not None
    labels = {"name", "description"}
    assert shipped.model_dump(exclude=labels) == TrainerSpec().model_dump(exclude=labels)
    assert (shipped.algorithm.use, shipped.group_size, shipped.discount) == ("magrpo", 4, 1.0)
    assert (shipped.normalize, shipped.clip_ratio, shipped.kl_coef) == ("none", None, 0.0)


def test_algorithms_need_no_torch() -> None:
    code = "import sys, collab.trainers, collab.trainers.credit; print('torch' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert found.stdout.strip() == "False", found.stderr
