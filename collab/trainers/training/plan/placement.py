"""Chooses the ranks of a training run, and the card that its plan is for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from collab.errors import RecipeError
from collab.recipe import Recipe
from collab.recipe.model import local_weights
from collab.runs.about import read_about
from collab.runs.layout import LOGS
from collab.trainers.training.plan.cards import Card, find_card, local_card, may_have_gpus
from collab.wording import counted

_REMEDY = "to plan for another GPU use --dry-run --card h100 (its name, or its memory in GiB)"


class RankPlan(NamedTuple):
    """Number of ranks to start, and their place."""

    ranks: int
    on_gpus: bool

    def text(self, folder: Path) -> str:
        """Return a line about the ranks, their logs, and how to stop them."""
        where = "each on its own GPU" if self.on_gpus else "on CPUs"
        fewer = "; --gpus 1 takes one" if self.on_gpus else ""
        logs = f"; logs of the other ranks are in {folder / LOGS}" if self.ranks > 1 else ""
        return f"learning in {counted(self.ranks, 'rank')}, {where}{logs}; Ctrl-C ends all{fewer}"


def choose_ranks(
    recipe: Recipe, gpus: int | None, ranks: int | None, resume: Path | None
) -> RankPlan | None:
    """Return the ranks to start, or None for this process alone.

    Raises:
        RecipeError: more GPUs than there are, or ranks on CPUs although the models use a GPU.
    """
    if ranks is not None and gpus is not None:
        raise RecipeError(
            "--gpus sets the number of GPUs, --ranks the number of processes"
            " without a GPU; use only one of them"
        )
    visible = visible_gpus() if _can_use_gpus(recipe) else 0
    if ranks is not None:
        if visible:
            raise RecipeError(
                f"--ranks {ranks} runs on CPUs, but the recipe's models use one of"
                f" {counted(visible, 'GPU')}; use --gpus, or set model.device=cpu"
            )
        return RankPlan(ranks, on_gpus=False)
    if gpus is not None and gpus > visible:
        raise RecipeError(
            f"--gpus {gpus}, but the recipe's models can use only {visible}; lower it, train on"
            f" CPUs with --ranks N, or check CUDA_VISIBLE_DEVICES and model.device; {_REMEDY}"
        )
    if visible:
        wanted = gpus or visible
        return RankPlan(wanted, on_gpus=True) if wanted > 1 else None
    # A resumed run sums its gradients as before.
    before = read_about(resume).get("ranks") if resume is not None else None
    return RankPlan(before, on_gpus=False) if isinstance(before, int) else None


def visible_gpus() -> int:
    """Return the number of GPUs that this process may use."""
    if not may_have_gpus():
        return 0
    import torch

    return torch.cuda.device_count()


def _can_use_gpus(recipe: Recipe) -> bool:
    """Return True if every trained model may be on any GPU."""
    return all(device in ("auto", "cuda") for device in _devices(recipe, recipe.team.trained))


def _devices(recipe: Recipe, agents: Iterable[str]) -> list[str]:
    """Return the device of each agent's weights; "" if they are not on this machine."""
    weights = [local_weights(recipe.model_of(name)) for name in agents]
    return [each.device if each else "" for each in weights]


def choose_card_and_ranks(
    recipe: Recipe, card_name: str | None, gpus: int | None, ranks: int | None, resume: Path | None
) -> tuple[Card | None, int]:
    """Return the card to plan for, or None for a run on CPUs, and the number of ranks.

    Raises:
        RecipeError: options exclude each other, or GPUs are missing here and `--card` is not given.
        UnknownName: no such card.
    """
    if card_name is not None:
        return find_card(card_name), gpus or 1
    devices = _devices(recipe, recipe.team.agents)
    on_gpu = next((device for device in devices if device.startswith("cuda")), None)
    cards = [local_card(n) for n in range(visible_gpus())] if _can_use_gpus(recipe) else []
    if not cards and on_gpu:
        import torch

        from collab.models.weights import gpu_problem

        if not torch.cuda.is_available():
            why = gpu_problem() or f"this machine has no GPU; {_REMEDY}"
            raise RecipeError(f"model.device is {on_gpu!r}, but {why}")
    wanted = choose_ranks(recipe, gpus, ranks, resume)
    n_ranks = wanted.ranks if wanted else 1
    # Each rank has to fit, so plan for the card with the least memory.
    return min(cards[:n_ranks], key=lambda gpu: gpu.memory, default=None), n_ranks
