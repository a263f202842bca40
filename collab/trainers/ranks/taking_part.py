"""Being one of the ranks that torchrun has started."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from collab.trainers.learner.ranks import ALONE, Ranks


@contextmanager
def leading() -> Iterator[Ranks]:
    """The ranks that this process is the first of, which go when it is left; alone, just itself."""
    if not is_rank():
        yield ALONE
        return
    _prepare()
    from collab.trainers.ranks.group import Group
    from collab.trainers.ranks.leading import end

    ranks = Group()
    try:
        yield ranks
    finally:
        end(ranks)


def following() -> None:
    """Do what the first rank says, to its end."""
    _prepare()
    from collab.trainers.ranks.following import follow

    follow()


def _prepare() -> None:
    _take_own_gpu()
    _end_with_parent()


def is_rank() -> bool:
    """Whether torchrun has started this process."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()


def is_first() -> bool:
    """Whether this process is alone, or the first rank."""
    return not is_rank() or os.environ["RANK"] == "0"


def _take_own_gpu() -> None:
    """Let this rank see one of the machine's GPUs alone; before torch has looked for them."""
    place = int(os.environ.get("LOCAL_RANK", "0"))
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(place)] if seen is None else [name for name in seen.split(",") if name]
    if seen is None or len(names) > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = names[place if len(names) > place else 0]


def _end_with_parent() -> None:
    """Have this rank ended when torchrun is killed, so that nothing trains on unseen."""
    if sys.platform == "linux":
        from collab.sandbox.jail.layers import linux

        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGTERM)
