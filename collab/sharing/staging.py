"""What of a run is handed on: the team, its functions and data, its weights, and a card."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from collab.errors import RecordError
from collab.recipe.documents import read_mapping
from collab.runs.layout import ADAPTERS, DATA, FUNCTIONS, MODELS, RECIPE
from collab.sharing.card import model_card

PARTS = (FUNCTIONS, DATA, ADAPTERS, MODELS)


def stage(run: Path, out: Path, *, repository: str, licence: str | None) -> list[str]:
    """Write to `out` the folder that the hub gets; gives notes, in words, of what is amiss.

    The record itself stays: neither episodes nor the command line are handed on.

    Raises:
        RecordError: the folder holds no team or a link out of it, or `out` is not empty.
    """
    if not (run / RECIPE).is_file():
        raise RecordError(f"{run} holds no {RECIPE}; give the folder of a run or a training")
    if out.exists() and any(out.iterdir()):
        raise RecordError(f"{out} is not empty; give another folder")
    _check_links(run)
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run / RECIPE, out / RECIPE)
    for part in PARTS:
        if (run / part).is_dir():
            shutil.copytree(run / part, out / part, ignore=shutil.ignore_patterns(".*", "__py*"))
    card = model_card(run, repository=repository, licence=licence)
    (out / "README.md").write_text(card, encoding="utf-8")
    notes = [
        f"{key} names {value}, which is on this machine alone"
        for key, value in _places(read_mapping(run / RECIPE), "")
    ]
    if licence is None:
        notes.append("the card names no licence; give --licence, e.g. apache-2.0")
    return notes


def _check_links(run: Path) -> None:
    """Refuse links to files outside the folder: the hub would get files that are no part of it."""
    parts = [path for part in PARTS for path in (run / part, *(run / part).rglob("*"))]
    for path in (run / RECIPE, *parts):
        if not path.resolve().is_relative_to(run.resolve()):
            raise RecordError(
                f"{path} is a link to {path.resolve()}, outside {run}; put the file itself there"
            )


def _places(data: Any, above: str) -> list[tuple[str, str]]:
    """Keys of the recipe that hold the whole path of something that is there."""
    if isinstance(data, dict):
        items = [(f"{above}.{k}" if above else str(k), v) for k, v in data.items()]
    elif isinstance(data, list):
        items = [(f"{above}[{n}]", v) for n, v in enumerate(data)]
    else:
        is_path = isinstance(data, str) and data.startswith("/") and len(data) < 1024
        return [(above, data)] if is_path and "\n" not in data and Path(data).exists() else []
    return [found for key, value in items for found in _places(value, key)]
