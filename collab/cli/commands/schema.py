"""`collab schema`."""

from __future__ import annotations

import json

from collab.cli.options import argument
from collab.recipe.schema import SchemaKind, json_schema


def command(
    part: SchemaKind = argument("KIND", "recipe, team, task, reward or trainer.", default="recipe"),
) -> None:
    """Print the JSON Schema of your YAML files, for editors.

    Files made by collab init name their schema in the first line.

    Examples:
      collab schema
      collab schema team > team.schema.json
    """
    print(json.dumps(json_schema(part), indent=2))
