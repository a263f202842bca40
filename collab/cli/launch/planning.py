"""`--dry-run` of `collab train`: the GPUs or processes that a run is planned for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from collab.cli.launch.slurm import parse_slurm

if TYPE_CHECKING:
    from collab.recipe import Recipe
    from collab.trainers.training.plan.cards import Card

REMEDY = "name one to plan for, as in --dry-run --card h100 (its name, or its memory in GB)"


class Asked(NamedTuple):
    """What the command was told of the machines."""

    card: str | None = None
    slurm: str | None = None
    gpus: int | None = None
    ranks: int | None = None
    resume: Path | None = None


def place_of(recipe: Recipe, asked: Asked) -> tuple[Card | None, int]:
    """The card to plan for, and how many ranks; no card where a run would be on processors.

    Without `--card` it is what the command would take here, on SLURM a card of 80 GB.

    Raises:
        RecipeError: options that exclude each other, or GPUs that are not here without `--card`.
        UnknownName: no such card.
    """
    from collab.trainers.training.plan.cards import Card, card

    check_options(asked)
    if asked.slurm is not None:
        ranks = parse_slurm(asked.slurm).ranks
        named = "80 GB (name another with --card)"
        return card(asked.card) if asked.card else Card(named, card("80").memory), ranks
    if asked.card is not None:
        return card(asked.card), asked.gpus or 1
    return _here(recipe, asked)


def check_options(asked: Asked) -> None:
    """Raise RecipeError for options of which one says what another one says otherwise."""
    from collab.errors import RecipeError

    given = {"--gpus": asked.gpus, "--ranks": asked.ranks}
    for option in (name for name, value in given.items() if value is not None):
        if asked.slurm is not None:
            raise RecipeError(
                f"--slurm says how many nodes and GPUs a job has, and {option} how many are taken"
                f" here; leave out {option}, and write --slurm nodes=N,gpus=N"
            )
        if asked.card is not None and option == "--ranks":
            raise RecipeError(
                f"--ranks {asked.ranks} is for processors, and --card {asked.card} plans for GPUs;"
                " give --gpus, or leave out --card"
            )


def _here(recipe: Recipe, asked: Asked) -> tuple[Card | None, int]:
    """What the run would take of this machine."""
    from collab.cli.arguments.ranks import ranks_wanted, usable_gpus
    from collab.errors import RecipeError

    gpus = usable_gpus(recipe)
    if asked.gpus is not None and asked.gpus > len(gpus):
        raise RecipeError(
            f"--gpus {asked.gpus} is more than the {len(gpus)} of this machine that the recipe's"
            f" models can use; {REMEDY}, or lower it"
        )
    if not gpus and (device := _missing_gpu(recipe)):
        raise RecipeError(f"model.device is {device!r}, and this machine has no GPU; {REMEDY}")
    wanted = ranks_wanted(recipe, asked.gpus, asked.ranks, asked.resume)
    taken = wanted.ranks if wanted else 1
    # The one with the least memory, as each rank has to fit on its own.
    return min(gpus[:taken], key=lambda gpu: gpu.memory, default=None), taken


def _missing_gpu(recipe: Recipe) -> str | None:
    """The device of a model that says that it is on a GPU, where torch sees none."""
    from collab.recipe.model import local_weights

    held = [local_weights(recipe.model_of(name)) for name in recipe.team.agents]
    named = [own.device for own in held if own is not None and own.device.startswith("cuda")]
    if not named:
        return None
    import torch

    return None if torch.cuda.is_available() else named[0]
