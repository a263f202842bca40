"""`collab trainers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from collab.cli.options import argument
from collab.cli.screen.page import Block, Column, open_page
from collab.errors import RecipeError

if TYPE_CHECKING:
    from collab.recipe import TrainerSpec


def command(
    trainer: str | None = argument("TRAINER", "A trainer's name or file.", default=None),
) -> None:
    """List the trainers, or show one with its settings.

    Trainers come from the library and from your project's folder trainers/. For
    the meaning of a setting, see docs/algorithms.md and collab schema trainer.

    Examples:
      collab trainers
      collab trainers cross
      collab train pair --task words --trainer cross
    """
    if trainer is None:
        _trainers()
    else:
        _trainer(trainer)


def _trainers() -> None:
    from collab.recipe import read_trainer
    from collab.recipe.library import components, is_shipped
    from collab.trainers.results import RESULTS

    rows: list[Any] = []
    for name, path in components("trainer"):
        try:
            spec = read_trainer(str(path))
        except RecipeError as error:
            rows.append([(name, "bold"), "-", "-", "-", (f"broken: {error}", "red")])
            continue
        result = RESULTS.get(name, "-") if is_shipped(path) else "-"
        settings = [str(spec.algorithm), str(spec.group_size)]
        rows.append([(name, "bold"), *settings, result, spec.description])
    columns = [Column("trainer"), Column("algorithm"), Column("G", right=True)]
    columns += [Column("result"), Column("description")]
    page = open_page()
    page.table(columns, rows)
    page.line(("result: measured on a real model (docs/results.md); -: no result yet", "dim"))
    page.line(("its settings: collab trainers TRAINER", "dim"))


def _trainer(name: str) -> None:
    from collab.recipe import read_trainer

    spec = read_trainer(name)
    page = open_page()
    page.line((spec.name, "bold"), f": {spec.description}")
    page.blocks([Block("its settings", _settings(spec), "yaml")])
    page.line(("all others have their defaults: collab schema trainer", "dim"))


def _settings(spec: TrainerSpec) -> str:
    """Settings in the trainer's file, and in the files that it extends."""
    from yaml import safe_dump

    settings = spec.model_dump(mode="json", exclude={"name", "description"}, exclude_unset=True)
    return safe_dump(settings, sort_keys=False).strip()
