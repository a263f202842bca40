"""The process that connects to a ray cluster: jobs come in as frames, and results go out.

It is a separate process because a ray driver prints at will, takes over signals, and ends at once
when its cluster does. None of that may happen to a run.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Timer
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from collab.errors import one_line
from collab.sandbox.executors.base import Job, Result
from collab.sandbox.executors.node import judge, sandbox_code
from collab.sandbox.jail import wire

TRIES = 3
"""Attempts at a job whose nodes are lost."""
PATIENCE = 600.0
"""Seconds beyond a program's own limit after which a node counts as silent."""
GREETING_SECONDS, CONNECT_SECONDS = 5.0, 60.0
"""Time limits for the cluster's address to answer, and for ray to join the cluster."""
FRAME_BYTES = 1 << 28
_POLL_SECONDS = 1.0


def main(caller: int, address: str, isolation: str, workers: int) -> None:
    """Serve jobs on the standard streams for the process `caller`, until it has ended."""
    replies = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)

    def refuse(why: str) -> None:
        with suppress(wire.Closed):
            wire.send(replies, {"unavailable": _unreachable(address, why)})

    late = Timer(CONNECT_SECONDS, _give_up, (refuse,))
    late.daemon = True
    late.start()
    try:
        _connect(address)
    except Exception as error:
        refuse(one_line(error))
        return
    finally:
        late.cancel()
    driver = Driver(replies, isolation, workers or int(ray.cluster_resources().get("CPU", 1)))
    with suppress(wire.Closed):
        asyncio.run(driver.serve(caller))
    ray.shutdown()


def _give_up(refuse: Callable[[str], None]) -> None:
    """End a process that still waits for its cluster; ray itself would wait forever."""
    refuse(f"no answer within {CONNECT_SECONDS:g} s")
    os._exit(1)


def _connect(address: str) -> None:
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), GREETING_SECONDS).close()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        address=address,
        namespace="collab",
        log_to_driver=False,
        logging_level="ERROR",
        **({"include_dashboard": False} if address == "local" else {}),
    )


def _unreachable(address: str, why: str) -> str:
    return (
        f"the ray cluster at {address!r} (sandbox.address) cannot be reached: {why}; start a"
        " cluster with `ray start --head`, or give the address of a running one"
    )


class Driver:
    """Sends jobs to nodes, `workers` at the same time, and jobs of lost nodes again."""

    def __init__(self, replies: int, isolation: str, workers: int) -> None:
        self._replies, self._isolation = replies, isolation
        self._free = asyncio.Semaphore(max(1, workers))
        self._judge = ray.remote(num_cpus=1, max_retries=0)(judge)
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self, caller: int) -> None:
        """Serve requests until the caller has ended."""
        requests: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        reading = asyncio.create_task(
            asyncio.to_thread(_read, requests, asyncio.get_running_loop())
        )
        watching = asyncio.create_task(_gone(caller))
        watching.add_done_callback(lambda _: requests.put_nowait(None))
        while (request := await requests.get()) is not None:
            self._take(request)
        for task in [*self._tasks.values()]:
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if not reading.done():
            ray.shutdown()
            os._exit(0)  # the thread that reads waits for a caller that is gone

    def _take(self, request: dict[str, Any]) -> None:
        number = request["id"]
        if "job" not in request:
            if task := self._tasks.get(number):
                task.cancel()
            return
        task = self._tasks[number] = asyncio.create_task(self._answer(number, request["job"]))
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _answer(self, number: int, job: Job) -> None:
        try:
            async with self._free:
                result = await self._run(job)
        except asyncio.CancelledError:
            result = {"trouble": "the trial was cancelled"}
        except Exception as error:
            result = {"trouble": f"the ray cluster failed: {one_line(error)}"}
        wire.send(self._replies, {"id": number, "result": result})

    async def _run(self, job: Job) -> Result:
        lost = []
        for _ in range(TRIES):
            try:
                result = await self._on_a_node(job)
            except RayTaskError as error:
                return {"trouble": _failed(error)}
            except RayError as error:
                lost.append(_first_line(error))
                continue
            if "lost" not in result:
                return result
            lost.append(f"on {result['node']}: {result['lost']}")
        return {"trouble": f"the trial was lost {TRIES} times, last error: {lost[-1]}"}

    async def _on_a_node(self, job: Job) -> Result:
        waiting = self._judge.remote(job, self._isolation, sandbox_code())
        seconds = job["limits"]["seconds"] + PATIENCE
        try:
            async with asyncio.timeout(seconds):
                result: Result = await waiting
        except TimeoutError:
            ray.cancel(waiting, force=True)
            return {"trouble": f"no node of the ray cluster answered within {seconds:g} s"}
        except asyncio.CancelledError:
            ray.cancel(waiting, force=True)
            raise
        return result


def _failed(error: RayTaskError) -> str:
    return (
        f"a node cannot judge: {_first_line(error.cause or error)}; install the same version of"
        " collab-agents on every node of the ray cluster"
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _read(requests: asyncio.Queue[dict[str, Any] | None], loop: asyncio.AbstractEventLoop) -> None:
    """Pass the caller's requests on; None at the end. Runs in a thread."""
    reader = wire.Reader(0, FRAME_BYTES)
    while True:
        try:
            request = reader.receive()
        except (wire.Closed, wire.Malformed):
            request = None
        with suppress(RuntimeError):  # the loop is over
            loop.call_soon_threadsafe(requests.put_nowait, request)
        if request is None:
            return


async def _gone(caller: int) -> None:
    """Return once the caller has ended; a fork may keep its pipe open."""
    while os.getppid() == caller:
        await asyncio.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
