"""Whether a base can be shared out over the ranks of a training, by what a recipe says."""

from __future__ import annotations

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import TransformersModel, local_weights


def check_shard(recipe: Recipe, spec: TrainerSpec) -> None:
    """Raise RecipeError for what would have one rank run a base that all of them hold parts of."""
    if not spec.ranks.shard:
        return
    if spec.policies == "full":
        raise RecipeError(
            "trainer.ranks.shard shares out a frozen base, and trainer.policies 'full' trains whole"
            " models; set trainer.policies to 'adapters', or trainer.ranks.shard to false"
        )
    agents = recipe.team.agents.items()
    held = [local_weights(recipe.model_of(name)) for name, agent in agents if agent.trainable]
    if any(weights is not None and weights.load_in for weights in held):
        raise RecipeError(
            "trainer.ranks.shard and a model's load_in '4bit' are two ways to hold a base that does"
            " not fit, and weights in bits are not shared out; set trainer.ranks.shard to false, or"
            " leave out load_in"
        )
    for name, _ in agents:
        model = recipe.model_of(name)
        if isinstance(model, TransformersModel) and model in held:
            raise RecipeError(
                f"agent '{name}' samples by transformers from {model.name!r}, which"
                " trainer.ranks.shard shares out over the ranks: the first one would wait for the"
                " others; set model.engine to 'vllm', with servers that hold the whole model, or"
                " trainer.ranks.shard to false"
            )
