"""The studies in examples/ can run: each of their cells is a valid training."""

from pathlib import Path

import pytest

from collab.study.spec import cells_of, load_study, marks_of

STUDIES = Path(__file__).resolve().parents[2] / "examples" / "studies"


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_cell_trains_with_the_same_tokens(path: Path) -> None:
    spec = load_study(path)
    for cell in cells_of(spec):
        recipe = cell.read()[0]
        assert recipe.task
        assert recipe.trainer
        assert recipe.trainer.tokens == spec.tokens
        assert recipe.trainer.evaluation
        assert recipe.trainer.evaluation.tasks
        assert recipe.trainer.evaluation.every_tokens == marks_of(spec)[1]


@pytest.mark.parametrize("name", ["same-name", "duet"])
def test_study_keeps_held_out_tasks_in_the_test_split(name: str) -> None:
    from collab.tasks import open_suite

    recipe = cells_of(load_study(STUDIES / f"{name}.yaml"))[0].read()[0]
    assert recipe.task
    assert recipe.trainer
    assert recipe.trainer.evaluation
    suite = open_suite(recipe.task)
    held_out = {p.address for p in suite.select(recipe.trainer.evaluation.tasks)}
    assert held_out <= {p.address for p in suite.select("test")}
    assert len(held_out) >= 30
