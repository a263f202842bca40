"""The table of docs/gpu.md matches the current plan."""

from pathlib import Path

import pytest
from support.blocks import DOCS

from collab.recipe import Recipe, load_recipe
from collab.trainers import make_plan
from collab.trainers.training.plan.cards import CARDS


def row_of(shape: str) -> list[str]:
    lines = (DOCS / "gpu.md").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"| {shape} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["0.5B", "1.5B", "7B"])
def test_table_matches_the_plan(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(DOCS.parent / "benchmarks"))
    from gpu_parts.shapes import save_description

    save_description(shape, tmp_path)
    recipe = load_recipe("coding", task="humaneval", defaults={"trainer": "magrpo"})
    data = recipe.model_dump()
    data["model"] = {"engine": "transformers", "name": str(tmp_path)}
    data["trainer"] |= {"tasks_per_step": 16, "group_size": 8, "steps": 10}
    data["sampling"]["max_new_tokens"] = 512
    cards = ("rtx4090", "l40s", "h100", "h200")
    for cell, name in zip(row_of(shape), cards, strict=True):
        found = make_plan(Recipe.model_validate(data), CARDS[name]).on_card
        assert found is not None
        assert found.fits
        assert cell.startswith(f"{found.micro_batch_tokens:,}"), name
        assert ("computed twice" in cell) == found.gradient_checkpointing, name
