"""`collab schema`."""

from __future__ import annotations

from collab.cli.options import argument


def command(
    part: str = argument("KIND", "recipe, team, task, reward or trainer.", default="recipe"),
) -> None:
    """Print the JSON Schema of your YAML files, for editors.

    Files made by collab init name their schema in the first line.

    Examples:
      collab schema
      collab schema team > team.schema.json
    """
    import json
    from typing import cast

    from collab.cli.options import one_of
    from collab.recipe.schema import PARTS, Part, json_schema

    chosen = cast(Part, one_of("schema", part, list(PARTS)))
    print(json.dumps(json_schema(chosen), indent=2))
