"""`collab trainers`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from collab.cli.options import JSON_LIST, argument
from collab.cli.screen.page import Block, open_page, show_components
from collab.cli.screen.streams import json_text

if TYPE_CHECKING:
    from collab.recipe import TrainerSpec


def command(
    trainer: str | None = argument("TRAINER", "A trainer's name or file.", default=None),
    json: bool = JSON_LIST,
) -> None:
    """List the trainers, or show one with its settings.

    Trainers come from the library and from your project's folder trainers/. For
    the meaning of a setting, see docs/algorithms.md and collab schema trainer.

    Examples:
      collab trainers
      collab trainers cross
      collab train coding --task humaneval --trainer cross
    """
    from collab.recipe import read_trainer
    from collab.recipe.library import is_shipped
    from collab.trainers.results import RESULTS

    def row(path: Path) -> list[Any]:
        spec = read_trainer(str(path))
        result = RESULTS.get(path.stem) if is_shipped(path) else None
        return [str(spec.algorithm), spec.group_size, result, spec.description]

    if trainer is None:
        show_components(
            "trainer",
            ["trainer", "algorithm", ">group_size", "result", "description"],
            row,
            "result: measured on a real model, see docs/results_135m.md; -: no result yet",
            "to show the settings of a trainer: collab trainers TRAINER",
            json=json,
        )
    elif json:
        print(json_text(read_trainer(trainer)))
    else:
        _show_trainer(read_trainer(trainer))


def _show_trainer(spec: TrainerSpec) -> None:
    page = open_page()
    page.line((spec.name, "bold"), f": {spec.description}")
    page.blocks([Block("its settings", _settings(spec), "yaml")])
    page.line(("all others have their defaults: collab schema trainer", "dim"))


def _settings(spec: TrainerSpec) -> str:
    """Return the settings in the trainer's file, and in the files that it extends."""
    from yaml import safe_dump

    settings = spec.model_dump(mode="json", exclude={"name", "description"}, exclude_unset=True)
    return safe_dump(settings, sort_keys=False).strip()
