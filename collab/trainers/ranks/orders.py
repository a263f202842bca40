"""Rank 0's orders to the other ranks, and how every rank carries them out."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

import torch

from collab.errors import RecipeError
from collab.models.store import StoreProgress
from collab.models.vllm.adapter_files import check_servable, is_adapter
from collab.models.vllm.backend import Capacity
from collab.models.vllm.own_server import OwnServer
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import VLLMSpec
from collab.runs.layout import LOGS, RANK_LOG, SERVER_LOG
from collab.signals import ending_signals
from collab.trainers.learner.learner import Learner
from collab.trainers.learner.policy import Policies, open_policies
from collab.trainers.learner.ranks import Ranks
from collab.trainers.learner.samples import Sample
from collab.trainers.learner.update import Update
from collab.trainers.ranks.group import ProcessRanks, is_known_to_all


@dataclass(frozen=True)
class Begin:
    """Order to open the policies of a recipe and keep them ready."""

    recipe: Recipe
    spec: TrainerSpec
    total_steps: int
    folder: Path
    """Folder of the run, for a log."""


@dataclass(frozen=True)
class Restore:
    """Order to restore parameters, by policy and name, and the state of a learner."""

    parameters: Mapping[str, Mapping[str, Any]]
    state: Mapping[str, Any]


@dataclass(frozen=True)
class Learn:
    """Order to take part in a step, counted from 0."""

    samples: Sequence[Sample]
    step: int


Order = Begin | Restore | Learn | None
"""None ends the training."""


STEPS_PER_CHECK = 10
"""Number of steps between two comparisons of all ranks' parameters."""


def open_learner(begin: Begin, ranks: Ranks, loading: StoreProgress | None) -> Learner:
    """Open a team's policies on every rank, and return their learner."""
    if isinstance(ranks, ProcessRanks):
        return open_on_rank(ranks.send_order(begin), ranks, LeadingLearner, loading)
    policies = open_policies(begin.recipe, begin.spec, loading=loading)
    return Learner(policies, begin.spec, begin.total_steps, ranks)


def open_on_rank(
    begin: Begin,
    ranks: ProcessRanks,
    learner_class: type[Learner] = Learner,
    loading: StoreProgress | None = None,
) -> Learner:
    """Open this rank's policies and its learner, with a vLLM server on each rank.

    Every rank calls this, because it makes collective calls.
    """
    spec = begin.spec
    ranks.set_timeout(spec.rank_timeout)
    recipe = with_servers(begin.recipe, spec, begin.folder, ranks)
    policies = ranks.run_on_each(lambda: open_policies(recipe, spec, loading=loading))
    ranks.announce_device(next(iter(policies)).device.type)
    return learner_class(policies, spec, begin.total_steps, ranks)


class LeadingLearner(Learner):
    """Rank 0's learner: all ranks learn and restore, and rank 0 does everything else."""

    _ranks: ProcessRanks

    def learn(self, samples: Sequence[Sample], step: int, cancelled: Event) -> Update:
        """Learn from the step's samples on every rank, and return the statistics of rank 0."""
        order = self._ranks.send_order(Learn(samples, step))
        return learn_together(super().learn, self.policies, self._ranks, order, cancelled)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore, after `load`, and send the parameters and the state to the other ranks."""
        super().restore(state)
        parameters = {
            policy.name: {name: p.detach().cpu() for name, p in policy.parameters.items()}
            for policy in self.policies
        }
        self._ranks.send_order(Restore(parameters, state))


TakeStep = Callable[[Sequence[Sample], int, Event], Update]


def learn_together(
    learn: TakeStep, policies: Policies, ranks: ProcessRanks, order: Learn, cancelled: Event
) -> Update:
    """Take a step together with every other rank, and return this rank's statistics. A failure on
    one rank is raised on all.

    A failure between two checks is reported at the next check.
    """
    try:
        if order.step % STEPS_PER_CHECK == 0:
            ranks.check_same("the digest of the parameters", checksum(policies))
        update = learn(order.samples, order.step, cancelled)
    except Exception as error:
        if not is_known_to_all(error):
            ranks.run_on_each(partial(_raise, error))
        raise
    ranks.run_on_each(lambda: None)
    return update


def _raise(error: Exception) -> None:
    raise error


def checksum(policies: Policies) -> str:
    """Return a digest that differs if any bit of a parameter differs."""
    digest = sha256()
    for policy in policies:
        for parameter in policy.parameters.values():
            tensor = parameter.detach().cpu().contiguous()
            digest.update(tensor.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def run_following_rank() -> None:
    """Take part in a training run until its first rank ends it.

    Raises:
        RankLost: another rank is missing.
        CollabError: a rank failed before the training began.
    """
    for number in ending_signals():
        signal.signal(number, signal.SIG_DFL)  # nothing to save: rank 0 keeps the record
    ranks = ProcessRanks()
    begin: Order = ranks.send_order()
    if not isinstance(begin, Begin):
        return ranks.close()
    try:
        learner = open_on_rank(begin, ranks)
    except Exception as error:
        if not (is_known_to_all(error) and ranks.is_complete):
            raise
        ranks.send_order()  # rank 0 reports the failure, and ends
        return ranks.close()
    order: Order = ranks.send_order()
    if order is not None:
        redirect_output_to_log(begin.folder, ranks.rank)
    while isinstance(order, Learn | Restore):
        _carry_out(order, learner, ranks)
        order = ranks.send_order()
    asyncio.run(learner.policies.aclose())
    return ranks.close()


def _carry_out(order: Learn | Restore, learner: Learner, ranks: ProcessRanks) -> None:
    if isinstance(order, Restore):
        restore(learner, order)
        return
    began = time.perf_counter()
    try:
        learn_together(learner.learn, learner.policies, ranks, order, Event())
    except Exception as error:
        if not (is_known_to_all(error) and ranks.is_complete):
            raise
        print(f"step {order.step + 1}: {error}", flush=True)
    else:
        print(f"step {order.step + 1}: {time.perf_counter() - began:.1f} s", flush=True)


@torch.no_grad()
def restore(learner: Learner, order: Restore) -> None:
    """Load the parameters and the state that rank 0 has read from a checkpoint."""
    for policy in learner.policies:
        for name, parameter in policy.parameters.items():
            parameter.copy_(order.parameters[policy.name][name])
    learner.restore(order.state)


def redirect_output_to_log(folder: Path, rank: int) -> None:
    """Redirect the rest of this process's output to a log in the run's folder."""
    path = folder / LOGS / RANK_LOG.format(rank=rank)
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    with path.open("ab") as stream:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)


def with_servers(recipe: Recipe, spec: TrainerSpec, folder: Path, ranks: ProcessRanks) -> Recipe:
    """Return the recipe with a server on each rank for its vLLM models. Every rank calls this.

    The servers are stopped when `ranks` are closed. Their output is in `logs/` of `folder`.

    Raises:
        RecipeError: an option that servers of ranks do not support, or ranks on several machines.
        ModelUnavailable, ModelTimeout: a server does not start. The error is raised on every rank,
            with the number of the rank.
    """
    models = recipe.vllm_engines
    if not models or ranks.world == 1:
        return recipe
    hosts = ranks.gather_results(lambda: [socket.gethostname()])
    ranks.run_on_each(partial(_check_servers, models, hosts))
    changed: dict[VLLMSpec, VLLMSpec] = {}
    for place, model in enumerate(models):
        log = folder / LOGS / SERVER_LOG.format(place=place, rank=ranks.rank)
        capacity = _capacity(model, recipe, spec)
        start = partial(_start_server, model.divide_memory(len(models)), capacity, log, ranks)
        urls = tuple(ranks.gather_results(start))
        changed[model] = model.with_servers(urls)
    return recipe.with_agents(
        {
            name: {"model": changed[before]}
            for name in recipe.team.agents
            if isinstance(before := recipe.model_of(name), VLLMSpec) and before in changed
        }
    )


def _check_servers(models: Sequence[VLLMSpec], hosts: Sequence[str]) -> None:
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


def _start_server(model: VLLMSpec, capacity: Capacity, log: Path, ranks: ProcessRanks) -> list[str]:
    server = OwnServer(model, capacity, log)
    ranks.servers.callback(server.stop)
    return [server.wait()]


def _capacity(model: VLLMSpec, recipe: Recipe, spec: TrainerSpec) -> Capacity:
    """Return the capacity for two versions of each agent's adapter: an old and a new one."""
    agents = [a for name, a in recipe.team.agents.items() if recipe.model_of(name) == model]
    starts = [Path(agent.adapter) for agent in agents if agent.adapter]
    ranks = [check_servable(folder) for folder in starts if is_adapter(folder)]
    return Capacity(adapters=2 * len(agents), rank=max([spec.lora.rank, *ranks]), training=True)
