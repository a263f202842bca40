"""A small study of the game, and a replacement for its training command."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from collab.cli.app import app
from collab.recipe import load_recipe
from collab.study.results import StudyResults
from collab.trainers import TrainingRun

STUDY = """\
recipe: game.yaml
trainers: [magrpo, {name: cross, trainer: cross, settings: {trainer.learning_rate: 0.02}}]
seeds: 2
tokens: 100
evaluations: 2
settings:
  trainer.group_size: 4
  trainer.tasks_per_step: 2
  trainer.learning_rate: 0.01
  trainer.checkpoint_every: 1
  trainer.evaluation.samples: 1
  trainer.evaluation.tasks: "8-9"
"""
OWN_ALGORITHM = """\
def mine(group):
    return {(e, t, a): 1.0 for e, t in group.returns for a in group.agents}
"""


async def train_here(arguments: Sequence[str], log: Path, *, threads: int) -> tuple[int, str]:
    """Train in this process; a new one would import torch again."""
    assert threads >= 1
    log.write_text("")
    if arguments[0] == "--resume":
        out = Path(arguments[1])
        await TrainingRun(load_recipe(str(out / "training.yaml")), out, resume=True).run()
        return 0, ""
    pairs = list(zip(arguments[1::2], arguments[2::2], strict=True))
    options = dict(pairs)
    assert Path(options["--written-in"]).is_file()
    recipe = load_recipe(
        arguments[0],
        settings=[value for key, value in pairs if key == "--set"],
        trainer=options["--trainer"],
        seed=int(options["--seed"]),
    )
    await TrainingRun(recipe, Path(options["--out"])).run()
    return 0, ""


def collab(*arguments: str, status: int = 0) -> Any:
    found = CliRunner().invoke(app, ["study", *arguments])
    assert found.exit_code == status, (found.stdout, found.stderr, found.exception)
    return found


def results(project: Path) -> StudyResults:
    return StudyResults.model_validate_json((project / "studies/s/study.json").read_text())
