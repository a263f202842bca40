"""Teams of one turn whose agents answer one after the other, each once."""

from __future__ import annotations

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.runtime.rehearsal import rehearsed


def acting_order(algorithm: str, recipe: Recipe, spec: TrainerSpec) -> list[str]:
    """The agents of such a team, in the order in which they act.

    Raises:
        RecipeError: it plays more turns, or agents act at the same time, or twice; `algorithm` is
            the name of the one that needs it.
    """
    turns = max([recipe.team.turns, *(phase.turns for phase in spec.curriculum)])
    if turns > 1:
        raise RecipeError(
            f"algorithm '{algorithm}' is for one turn, and the team plays {turns}; set team.turns"
            " to 1, or algorithm to 'marloo'"
        )
    rounds = [round_.agents for round_ in rehearsed(recipe).rounds]
    order = [agents[0] for agents in rounds]
    if any(len(agents) > 1 for agents in rounds) or len(set(order)) < len(order):
        raise RecipeError(
            f"algorithm '{algorithm}' is for agents that answer one after the other: each must act"
            f" once and by itself, and protocol '{recipe.team.protocol}' has them act as {rounds};"
            " set protocol to 'sequential', or algorithm to 'cross'"
        )
    return order
