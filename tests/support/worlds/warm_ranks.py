"""Worlds of ranks, forked from one process that has already imported torch.

They behave like torchrun's: each rank has its place in the environment, and a failure ends the
others. A fault can be planted in one rank.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from support.warm_collab import WARM

SECONDS = 150
"""Time limit of a world; then its ranks write their stacks to `stderr-RANK` and abort."""


@dataclass
class Ended:
    """The end of a world."""

    statuses: list[int]
    """Exit status per rank; negative after a signal."""
    stderr: str
    """Standard error of rank 0."""
    seconds: float


class WarmRanks:
    """Runs `collab` in one world of ranks after another."""

    def __enter__(self) -> WarmRanks:
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def run(self, folder: Path, world: int, *arguments: str, fault: str = "") -> Ended:
        """Run `collab` in `folder` on `world` ranks to the end; `fault` is one of `FAULTS`."""
        stdin, stdout = self._server.stdin, self._server.stdout
        assert stdin
        assert stdout
        began = time.monotonic()
        print(json.dumps([str(folder), world, fault, *arguments]), file=stdin, flush=True)
        statuses = json.loads(stdout.readline())
        return Ended(statuses, (folder / "stderr-0").read_text(), time.monotonic() - began)

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, traceback: TracebackType | None
    ) -> None:
        self._server.communicate()


def serve() -> None:
    """Fork a world per line of stdin, and print its ranks' statuses."""
    for module in (*WARM, "collab.trainers.ranks.orders", "torch.distributed"):
        import_module(module)
    gc.freeze()  # forked processes do not copy these objects when they collect garbage

    for line in sys.stdin:
        folder, world, fault, *arguments = json.loads(line)
        store, port = start_store()
        place = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "WORLD_SIZE": str(world),
            "LOCAL_WORLD_SIZE": str(world),
        }
        ranks = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                variables = {**place, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                be_rank(folder, rank, variables, fault if rank == 1 else "", arguments)
            ranks.append(pid)
        statuses = wait(ranks)
        os.kill(store, signal.SIGKILL)
        os.waitpid(store, 0)
        print(json.dumps(statuses), flush=True)


def start_store() -> tuple[int, int]:
    """Start a process in which ranks find each other, like torchrun's; return its id and port."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        store = TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
        os.write(writer, str(store.port).encode())
        while True:
            signal.pause()
    port = int(os.read(reader, 16))
    os.close(reader)
    os.close(writer)
    return pid, port


def wait(ranks: list[int]) -> list[int]:
    """Wait for all ranks like torchrun: if one fails, end the others."""
    statuses: dict[int, int] = {}
    until = time.monotonic() + SECONDS
    while len(statuses) < len(ranks):
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            time.sleep(0.01)
            if time.monotonic() > until:
                until += SECONDS
                for stuck in set(ranks) - set(statuses):
                    os.kill(stuck, signal.SIGABRT)
            continue
        statuses[pid] = os.waitstatus_to_exitcode(status)
        if statuses[pid]:
            for other in set(ranks) - set(statuses):
                os.kill(other, signal.SIGTERM)
    return [statuses[pid] for pid in ranks]


def be_rank(
    folder: str, rank: int, environment: Mapping[str, str], fault: str, arguments: list[str]
) -> None:
    """Run `collab` as one of the ranks and exit."""
    os.environ.update(environment)
    os.chdir(folder)
    for number, name, flags in [
        (0, os.devnull, os.O_RDONLY),
        (1, f"stdout-{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, f"stderr-{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ]:
        os.dup2(os.open(name, flags, 0o644), number)
    faulthandler.enable(2)
    sys.argv = ["collab", *arguments]
    if fault:
        plant(FAULTS[fault])
    from collab.cli import main

    main()


def plant(fault: Callable[[], None]) -> None:
    """Raise `fault` once in a backward pass, in this rank's second learning step or later."""
    from collab.trainers.learner.learner import Learner
    from collab.trainers.learner.passes import Passes

    learn, backward = Learner.learn, Passes.backward
    steps, faults_left = 0, 1

    def counted(self: Any, *arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return learn(self, *arguments)

    def faulty(self: Any, *arguments: Any) -> None:
        nonlocal faults_left
        backward(self, *arguments)
        if steps >= 2 and faults_left:
            faults_left = 0
            fault()

    setattr(Learner, "learn", counted)  # noqa: B010
    setattr(Passes, "backward", faulty)  # noqa: B010


def no_number() -> None:
    from collab.trainers.learner.update import NotFinite

    raise NotFinite("the loss of policy 'a' is nan")


def no_memory() -> None:
    import torch

    raise torch.OutOfMemoryError("CUDA out of memory")


def bug() -> None:
    raise KeyError("oops")


def outside() -> None:
    """From now on, fail between two synchronizations of the ranks."""
    from collab.trainers.learner.optimizer import Optimizer

    def broken(*arguments: Any) -> None:
        raise ValueError("between two agreements")

    setattr(Optimizer, "step", broken)  # noqa: B010


def differ() -> None:
    """From now on, report log-probs that differ from the sampler's."""
    from collab.runs import metric_names as names
    from collab.trainers.learner import passes

    columns_of = passes._token_metrics

    def shifted(*arguments: Any) -> Any:
        columns = columns_of(*arguments)
        return columns | {names.AGENT_MISMATCH: columns[names.AGENT_MISMATCH] + 3.0}

    setattr(passes, "_token_metrics", shifted)  # noqa: B010


FAULTS: dict[str, Callable[[], None]] = {
    "nan": no_number,
    "memory": no_memory,
    "bug": bug,
    "outside": outside,
    "mismatch": differ,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
    "sleep": lambda: time.sleep(60),
}


if __name__ == "__main__":
    serve()
