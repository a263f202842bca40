"""The other ranks: they hold the same parameters, and learn when rank 0 says so."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from threading import Event

import torch

from collab.runs.layout import LOGS
from collab.signals import ending_signals
from collab.trainers.learner.learner import TorchLearner
from collab.trainers.learner.policy import open_policies
from collab.trainers.ranks.group import TorchRanks
from collab.trainers.ranks.leading import (
    Begin,
    End,
    Learn,
    Order,
    Restore,
    device_of,
    learn_together,
    open_together,
)
from collab.trainers.ranks.samplers import with_servers
from collab.trainers.ranks.sharding import parts_told
from collab.trainers.ranks.telling import is_told


def follow() -> None:
    """Take part in a training until its first rank ends it.

    Raises:
        What failed on any rank before the training began. RankLost: another rank is not there.
    """
    for number in ending_signals():
        signal.signal(number, signal.SIG_DFL)  # nothing is left to be done: rank 0 records
    ranks = TorchRanks()
    begin: Order = ranks.hand_over()
    if not isinstance(begin, Begin):
        return ranks.close()
    ranks.wait_no_longer_than(begin.spec.ranks)
    try:
        learner = _open(begin, ranks)
    except Exception as error:
        if not (is_told(error) and ranks.is_whole):
            raise
        ranks.hand_over()  # the first rank tells of it, and ends
        return ranks.close()
    order: Order = ranks.hand_over()
    if not isinstance(order, End):
        write_log(begin.folder, ranks.rank)
        if told := parts_told(learner.policies):
            print(told, flush=True)
    while isinstance(order, Learn | Restore):
        _obey(order, learner, ranks)
        order = ranks.hand_over()
    asyncio.run(learner.policies.aclose())
    return ranks.close()


def _open(begin: Begin, ranks: TorchRanks) -> TorchLearner:
    recipe = with_servers(begin.recipe, begin.spec, begin.folder, ranks)
    policies = open_together(ranks, lambda load: open_policies(recipe, begin.spec, load=load))
    ranks.compute_on(device_of(policies))
    return TorchLearner(policies, begin.spec, begin.total_steps, begin.recipe.seed, ranks)


def _obey(order: Learn | Restore, learner: TorchLearner, ranks: TorchRanks) -> None:
    if isinstance(order, Restore):
        restore(learner, order)
        return
    began = time.perf_counter()
    try:
        learn_together(learner.learn, learner.policies, ranks, order, Event())
    except Exception as error:
        if not (is_told(error) and ranks.is_whole):
            raise
        print(f"step {order.step + 1}: {error}", flush=True)
    else:
        print(f"step {order.step + 1}: {time.perf_counter() - began:.1f} s", flush=True)


@torch.no_grad()
def restore(learner: TorchLearner, order: Restore) -> None:
    """Take the parameters and the state that rank 0 has read from a checkpoint."""
    for policy in learner.policies:
        for name, parameter in policy.parameters.items():
            parameter.copy_(order.parameters[policy.name][name])
    learner.restore(order.state)


def write_log(folder: Path, rank: int) -> None:
    """Send what this process says to a log in the run's folder from here on."""
    path = folder / LOGS / f"rank-{rank}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    with path.open("ab") as stream:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
