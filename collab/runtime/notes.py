"""What a user should know of a team before its numbers: what of it is not used."""

from __future__ import annotations

from collab.recipe import Recipe
from collab.recipe.model import local_weights


def unused(recipe: Recipe, model: str | None) -> list[str]:
    """What is named and yet not used, a sentence each; `model` is what `--model` says."""
    notes = []
    agents = recipe.team.agents
    bare = [n for n, a in agents.items() if a.adapter and local_weights(recipe.model_of(n)) is None]
    if bare:
        engines = ", ".join(dict.fromkeys(recipe.model_of(name).engine for name in bare))
        notes.append(
            f"the trained adapters of {', '.join(bare)} are not used: {engines} answers without"
            " weights"
        )
    own = [name for name, agent in agents.items() if agent.model is not None]
    if model is not None and own:
        notes.append(
            f"--model {model} is not used for {', '.join(own)}: each has a model of its own; set"
            " agents.NAME.model to change it"
        )
    return notes
