"""The GPUs or processes that a training takes, or is planned for by `--dry-run`."""

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


REMEDY = "name one to plan for, as in --dry-run --card h100 (its name, or its memory in GB)"


class Asked(NamedTuple):
    """The machine options of the command."""

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
    from collab.cli.launch.slurm import parse_slurm
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
    """Resources of this machine that the run would use."""
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
