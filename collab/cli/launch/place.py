"""Chooses the GPUs or processes of a training, or of its plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from collab.wording import counted

if TYPE_CHECKING:
    from collab.recipe import Recipe
    from collab.trainers.training.plan.cards import Card


class Wanted(NamedTuple):
    """Ranks to start."""

    ranks: int
    on_gpus: bool

    def text(self, folder: Path) -> str:
        """The ranks, their logs, and how to stop them."""
        from collab.runs.layout import LOGS

        where = "each on a GPU of its own" if self.on_gpus else "on processors"
        fewer = "; --gpus 1 takes one" if self.on_gpus else ""
        logs = f"; the others' logs are in {folder / LOGS}" if self.ranks > 1 else ""
        return f"learning in {counted(self.ranks, 'rank')}, {where}{logs}; Ctrl-C ends all{fewer}"


def ranks_wanted(
    recipe: Recipe, gpus: int | None, ranks: int | None, resume: Path | None
) -> Wanted | None:
    """The ranks to start; None for this process alone.

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
    """The GPUs of this machine that can hold a rank each."""
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
    """True if every trained model may be on any GPU."""
    from collab.recipe.model import local_weights

    trained = [name for name, agent in recipe.team.agents.items() if agent.trainable]
    weights = [local_weights(recipe.model_of(name)) for name in trained]
    return all(each is not None and each.device in ("auto", "cuda") for each in weights)


def _ranks_of(run: Path | None) -> int | None:
    """The ranks of a run that is continued; it sums its gradients as before."""
    from collab.runs.about import read_about

    ranks = read_about(run).get("ranks") if run is not None else None
    return ranks if isinstance(ranks, int) else None


REMEDY = "name one to plan for, as in --dry-run --card h100 (its name, or its memory in GB)"


class MachineOptions(NamedTuple):
    """The options of `collab train` that choose machines."""

    card: str | None = None
    slurm: str | None = None
    gpus: int | None = None
    ranks: int | None = None
    resume: Path | None = None


def place_of(recipe: Recipe, machine: MachineOptions) -> tuple[Card | None, int]:
    """The card to plan for, and the number of ranks; no card for a run on processors.

    Without `--card`, the plan is for this machine, or for a card of 80 GB on SLURM.

    Raises:
        RecipeError: options that exclude each other, or GPUs that are not here without `--card`.
        UnknownName: no such card.
    """
    from collab.cli.launch.slurm import parse_slurm
    from collab.trainers.training.plan.cards import Card, card

    check_options(machine)
    if machine.slurm is not None:
        ranks = parse_slurm(machine.slurm).ranks
        named = "80 GB (name another with --card)"
        return card(machine.card) if machine.card else Card(named, card("80").memory), ranks
    if machine.card is not None:
        return card(machine.card), machine.gpus or 1
    return _here(recipe, machine)


def check_options(machine: MachineOptions) -> None:
    """Raise RecipeError for options that contradict each other."""
    from collab.errors import RecipeError

    given = {"--gpus": machine.gpus, "--ranks": machine.ranks}
    for name in (name for name, value in given.items() if value is not None):
        if machine.slurm is not None:
            raise RecipeError(
                f"--slurm says how many nodes and GPUs a job has, and {name} how many are taken"
                f" here; leave out {name}, and write --slurm nodes=N,gpus=N"
            )
        if machine.card is not None and name == "--ranks":
            raise RecipeError(
                f"--ranks {machine.ranks} is for processors, and --card {machine.card} for GPUs;"
                " give --gpus, or leave out --card"
            )


def _here(recipe: Recipe, machine: MachineOptions) -> tuple[Card | None, int]:
    """The card and the number of ranks that the run would use on this machine."""
    from collab.errors import RecipeError

    gpus = usable_gpus(recipe)
    if machine.gpus is not None and machine.gpus > len(gpus):
        raise RecipeError(
            f"--gpus {machine.gpus} is more than the {len(gpus)} of this machine that the recipe's"
            f" models can use; {REMEDY}, or lower it"
        )
    if not gpus and (device := _missing_gpu(recipe)):
        raise RecipeError(f"model.device is {device!r}, and this machine has no GPU; {REMEDY}")
    wanted = ranks_wanted(recipe, machine.gpus, machine.ranks, machine.resume)
    taken = wanted.ranks if wanted else 1
    # Each rank has to fit, so plan for the card with the least memory.
    return min(gpus[:taken], key=lambda gpu: gpu.memory, default=None), taken


def _missing_gpu(recipe: Recipe) -> str | None:
    """The device of a model that needs a GPU, if torch sees none."""
    from collab.recipe.model import local_weights

    held = [local_weights(recipe.model_of(name)) for name in recipe.team.agents]
    devices = [each.device for each in held if each is not None]
    named = [device for device in devices if device.startswith("cuda")]
    if not named:
        return None
    import torch

    return None if torch.cuda.is_available() else named[0]
