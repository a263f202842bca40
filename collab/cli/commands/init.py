"""`collab init`."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Literal

from collab.cli.options import argument, option
from collab.errors import RecipeError

SCAFFOLDS = Path(__file__).with_name("scaffold")


def command(
    folder: Path = argument("FOLDER", "The project's folder.", default=Path()),
    kind: Literal["code", "text", "environment"] = option(
        "--kind",
        "KIND",
        "Kind of tasks: code (scored by tests), text (scored by your functions) or"
        " environment (a game).",
        default="code",
    ),
) -> None:
    """Start a project: a team, a suite and a recipe.

    The command overwrites nothing. The YAML files refer to their JSON
    Schema, which editors use to complete and check them.

    Examples:
      collab init my-project
      cd my-project && collab run recipe.yaml --task my-task/0
      collab init my-game --kind environment
    """
    from collab.recipe.schema import PARTS, json_schema

    scaffold = SCAFFOLDS / kind
    paths = [path for path in sorted(scaffold.rglob("*")) if "__pycache__" not in path.parts]
    files = [path.relative_to(scaffold) for path in paths if path.is_file()]
    schemas = {Path(".schema") / f"{part}.json": part for part in PARTS}
    if folder.exists() and not folder.is_dir():
        raise RecipeError(f"{folder} is a file; choose a folder")
    shown_paths = (*files, Path(".schema"))
    existing = [str(path) for path in shown_paths if (folder / path).exists()]
    if existing:
        raise RecipeError(f"{folder} already has {', '.join(existing)}; choose an empty folder")
    try:
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(scaffold / path, folder / path)
        (folder / ".schema").mkdir()
        for path, part in schemas.items():
            (folder / path).write_text(json.dumps(json_schema(part), indent=2) + "\n")
    except OSError as error:
        raise RecipeError(f"{folder} cannot be written: {error.strerror}") from error
    for path in shown_paths:
        print(folder / path)
    step = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    print(f"next: {step}collab run recipe.yaml --task my-task/0")
    print("then: collab train recipe.yaml --dry-run")
