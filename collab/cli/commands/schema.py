"""`collab schema`."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    part: Annotated[
        str, typer.Argument(metavar="recipe|team|task|reward|trainer", help="What to describe.")
    ] = "recipe",
) -> None:
    """Print the JSON Schema of what you write, for editors and checkers.

    The files of collab init name such a schema in their first line.

    [bold]Examples[/]
      collab schema
      collab schema team > team.schema.json
    """
    import json
    from typing import cast

    from collab.cli.options import one_of
    from collab.recipe.schema import PARTS, Part, json_schema

    chosen = cast(Part, one_of("schema", part, list(PARTS)))
    print(json.dumps(json_schema(chosen), indent=2))
