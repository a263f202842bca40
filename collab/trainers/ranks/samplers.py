"""Runs a vLLM server on each rank, from which rank 0 samples."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from collab.errors import RecipeError
from collab.models.vllm.adapter_files import check_servable, is_adapter
from collab.models.vllm.backend import Capacity
from collab.models.vllm.own_server import OwnServer
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import VLLMModel
from collab.runs.layout import LOGS
from collab.trainers.ranks.group import TorchRanks


def with_servers(recipe: Recipe, spec: TrainerSpec, folder: Path, ranks: TorchRanks) -> Recipe:
    """Return the recipe with a server on each rank for its vLLM models. Every rank calls this.

    The servers are stopped when `ranks` are closed. Their output is in `logs/` of `folder`.

    Raises:
        RecipeError: an option that servers of ranks do not support, or ranks on several machines.
        ModelUnavailable, ModelTimeout: a server does not start. The error is raised on every rank,
            with the number of the rank.
    """
    every_model = [recipe.model_of(name) for name in recipe.team.agents]
    wanted = [m for m in every_model if isinstance(m, VLLMModel) and not m.servers]
    models = list(dict.fromkeys(wanted))
    if not models or ranks.world == 1:
        return recipe
    hosts = ranks.together(lambda: [socket.gethostname()])
    ranks.each(partial(_check, models, hosts))
    changed: dict[VLLMModel, VLLMModel] = {}
    for place, model in enumerate(models):
        log = folder / LOGS / f"vllm-{place}-rank-{ranks.rank}.log"
        start = partial(_started, model, len(models), _capacity(model, recipe, spec), log, ranks)
        urls = tuple(ranks.together(start))
        changed[model] = model.run_by(urls)
    return recipe.with_agents(
        {
            name: {"model": changed[model]}
            for name, model in zip(recipe.team.agents, every_model, strict=True)
            if isinstance(model, VLLMModel) and model in changed
        }
    )


def _check(models: Sequence[VLLMModel], hosts: Sequence[str]) -> None:
    if len(set(hosts)) > 1:
        raise RecipeError(
            f"ranks are on several machines ({', '.join(dict.fromkeys(hosts))}), but a vLLM server"
            " that collab starts listens on its own machine only; start one server on each, then"
            " set the model's `servers` and set adapter_folder to a folder on a shared disk"
        )
    for model in models:
        if model.sleep or model.tensor_parallel > 1:
            option = "sleep" if model.sleep else f"tensor_parallel {model.tensor_parallel}"
            raise RecipeError(
                f"the model's {option} does not work with one vLLM server per rank, which has one"
                " GPU and keeps its memory; remove it and set memory_share, or use `servers`"
                " started with it"
            )


def _started(
    model: VLLMModel, models: int, capacity: Capacity, log: Path, ranks: TorchRanks
) -> list[str]:
    server = OwnServer(model.among(models), capacity, log)
    ranks.on_close(server.stop)
    return [server.wait()]


def _capacity(model: VLLMModel, recipe: Recipe, spec: TrainerSpec) -> Capacity:
    """Return the capacity for two versions of each agent's adapter: an old and a new one."""
    agents = [a for name, a in recipe.team.agents.items() if recipe.model_of(name) == model]
    starts = [Path(agent.adapter) for agent in agents if agent.adapter]
    given = [check_servable(folder) for folder in starts if is_adapter(folder)]
    return Capacity(adapters=2 * len(agents), rank=max([spec.lora.rank, *given]), training=True)
