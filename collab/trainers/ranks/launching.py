"""Starts a training run on several ranks with torchrun, or acts as one of the ranks."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from collab.distribution import python_command
from collab.errors import TrainingError
from collab.processes import end_with_parent
from collab.runs.about import mark_interrupted, resume_hint
from collab.runs.layout import LOGS, RANK_LOG
from collab.runs.log import last_error
from collab.signals import INTERRUPTED_STATUS
from collab.trainers.learner.ranks import ALONE, Ranks


def torchrun_arguments(ranks: int, arguments: Sequence[str]) -> list[str]:
    """Return the torchrun command that runs `collab` with `arguments` on this many local ranks."""
    command = [*python_command(), "-u", "-m", "collab", *arguments]
    return ["--standalone", f"--nproc-per-node={ranks}", "--no-python", *command]


def launch(ranks: int, arguments: Sequence[str], folder: Path, on_gpus: bool) -> int:
    """Run `collab` on this many ranks until they end, and return the exit status.

    Raises:
        TrainingError: a rank ended by itself. Everything up to the last checkpoint is kept.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    cores = len(os.sched_getaffinity(0)) // ranks if on_gpus else 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores)))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine
    logging.disable()  # collab reports torchrun's errors itself, below
    try:
        run(parse_args(torchrun_arguments(ranks, arguments)))
    except (SignalException, KeyboardInterrupt):
        return INTERRUPTED_STATUS
    except ChildFailedError as error:
        statuses = {rank: failure.exitcode for rank, failure in error.failures.items()}
        return _explain_end(statuses, folder)
    finally:
        logging.disable(logging.NOTSET)
        mark_interrupted(folder)
    return 0


def _explain_end(statuses: dict[int, int], folder: Path) -> int:
    """Return the exit status of rank 0, which has reported its error."""
    killed = [rank for rank, status in sorted(statuses.items()) if status < 0]
    if 0 in statuses and not killed:
        return statuses[0]
    rank = killed[0] if killed else min(statuses)
    status = statuses[rank]
    why = f"signal {-status}" if status < 0 else f"exit status {status}"
    log = folder / LOGS / RANK_LOG.format(rank=rank)
    if log.is_file():
        error = last_error(log.read_text(encoding="utf-8", errors="replace"))
        why += f"{': ' * bool(error)}{error}; its log is {log}"
    raise TrainingError(f"rank {rank} ended: {why}{resume_hint(folder)}")


@contextmanager
def lead_ranks() -> Iterator[Ranks]:
    """Yield the ranks that this process leads, or itself without torchrun, and end them on exit."""
    if not is_rank():
        yield ALONE
        return
    _take_own_gpu()
    end_with_parent()
    from collab.trainers.ranks.group import ProcessRanks

    ranks = ProcessRanks()
    try:
        yield ranks
    finally:
        ranks.end()


def follow_rank_0() -> None:
    """Carry out the first rank's orders until it ends."""
    _take_own_gpu()
    end_with_parent()
    from collab.trainers.ranks.orders import run_following_rank

    run_following_rank()


def is_rank() -> bool:
    """Return True if torchrun has started this process."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()


def is_leader() -> bool:
    """Return True if this process is alone, or the first rank."""
    return not is_rank() or os.environ["RANK"] == "0"


def _take_own_gpu() -> None:
    """Limit this rank to one of the machine's GPUs. Call this before torch has looked for them."""
    place = int(os.environ.get("LOCAL_RANK", "0"))
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(place)] if seen is None else [name for name in seen.split(",") if name]
    if seen is None or len(names) > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = names[place if len(names) > place else 0]
