"""How many processes a training takes: one, or a rank for each GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from collab.wording import counted

if TYPE_CHECKING:
    from collab.recipe import Recipe
    from collab.trainers.training.plan.cards import Card

Gpus = Annotated[
    int | None,
    typer.Option("--gpus", metavar="N", min=1, help="Use N GPUs. Default: all that are visible."),
]
RanksHere = Annotated[
    int | None,
    typer.Option(
        "--ranks", metavar="N", min=1, help="Learn in N processes on processors, without GPUs."
    ),
]


class Wanted(NamedTuple):
    """Ranks that are to be started."""

    ranks: int
    on_gpus: bool

    def told(self, folder: Path) -> str:
        """What is started, and how it is stopped."""
        from collab.runs.layout import LOGS

        where = "each on a GPU of its own" if self.on_gpus else "on processors"
        fewer = "; --gpus 1 takes one" if self.on_gpus else ""
        logs = f"; the others' logs are in {folder / LOGS}" if self.ranks > 1 else ""
        return f"learning in {counted(self.ranks, 'rank')}, {where}{logs}; Ctrl-C ends all{fewer}"


def ranks_wanted(
    recipe: Recipe, gpus: int | None, ranks: int | None, resume: Path | None
) -> Wanted | None:
    """How many ranks are to be started; None for this process alone.

    Raises:
        RecipeError: more GPUs than there are, or ranks on processors where models take a GPU.
    """
    from collab.errors import RecipeError

    if ranks is not None and gpus is not None:
        raise RecipeError("--gpus counts GPUs and --ranks processes without one; give one of them")
    visible = _visible_gpus() if _takes_gpus(recipe) else 0
    if ranks is not None:
        if visible:
            raise RecipeError(
                f"--ranks {ranks} is for processors, and the models take one of"
                f" {counted(visible, 'GPU')}; give --gpus, or set model.device=cpu"
            )
        return Wanted(ranks, on_gpus=False)
    if gpus is not None and gpus > visible:
        raise RecipeError(
            f"--gpus {gpus} is more than the {visible} that the recipe's models can use; lower it,"
            " see CUDA_VISIBLE_DEVICES and model.device, or give --ranks to learn on processors"
        )
    if visible:
        wanted = gpus or visible
        return Wanted(wanted, on_gpus=True) if wanted > 1 else None
    before = _ranks_of(resume)
    return Wanted(before, on_gpus=False) if before else None


def usable_gpus(recipe: Recipe) -> list[Card]:
    """The GPUs of this machine that a rank each could be on."""
    if not _takes_gpus(recipe):
        return []
    from collab.trainers.training.plan.cards import card_of_here

    return [card_of_here(number) for number in range(_visible_gpus())]


def _visible_gpus() -> int:
    from collab.trainers.training.plan.cards import may_have_gpus

    if not may_have_gpus():
        return 0
    import torch

    return torch.cuda.device_count()


def _takes_gpus(recipe: Recipe) -> bool:
    """Whether every model that is trained may lie on any GPU."""
    from collab.recipe.model import local_weights

    trained = [name for name, agent in recipe.team.agents.items() if agent.trainable]
    weights = [local_weights(recipe.model_of(name)) for name in trained]
    return all(own is not None and own.device in ("auto", "cuda") for own in weights)


def _ranks_of(run: Path | None) -> int | None:
    """Those that a run had which goes on; its gradients are added up as before."""
    from collab.runs.about import read_about

    found = read_about(run).get("ranks") if run is not None else None
    return found if isinstance(found, int) else None
