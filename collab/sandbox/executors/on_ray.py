"""Runs trials on the nodes of a ray cluster, through a separate process that imports ray."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from typing import Any

from collab.errors import SandboxError, SandboxUnavailable
from collab.sandbox.executors.base import Job, Result
from collab.sandbox.jail import wire

END_SECONDS = 10.0
_ANSWER_BYTES = 1 << 28
_MODULE = "collab.sandbox.executors.ray_driver"


class RayExecutor:
    """Runs at most `workers` jobs at the same time; 0: one per processor of the cluster.

    Raises:
        SandboxUnavailable: ray is not installed.
    """

    def __init__(self, isolation: str, workers: int, address: str) -> None:
        spec = find_spec("ray")
        if spec is None or spec.origin is None:  # a folder that is called so is no package
            raise SandboxUnavailable(
                "sandbox.executor 'ray' needs ray, which is not installed: pip install"
                " 'collab-agents[ray]', or leave the setting out to judge on this machine"
            )
        self._settings = (address, isolation, str(workers))
        self._lock = threading.Lock()
        self._driver: _Driver | None = None
        self._times_closed = 0

    async def run(self, job: Job) -> Result:
        driver = await asyncio.to_thread(self._running, self._times_closed)
        number, expected = driver.expect()
        waiting = asyncio.wrap_future(expected)
        try:
            await asyncio.to_thread(driver.send, {"id": number, "job": job})
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            await asyncio.to_thread(driver.send, {"id": number})
            await asyncio.wait([waiting])
            waiting.exception()  # of a job that nobody waits for any more
            raise
        result = waiting.result()
        if reason := result.get("unavailable"):
            raise SandboxUnavailable(reason)
        return result

    def close(self) -> None:
        with self._lock:
            driver, self._driver = self._driver, None
            self._times_closed += 1
        if driver is not None:
            driver.end()

    def _running(self, times_closed: int) -> _Driver:
        """Return the process for a job that arrived after so many calls of `close`."""
        with self._lock:
            if self._times_closed != times_closed:  # nobody would end what starts now
                raise SandboxError(
                    "the sandbox was closed before the trial started; the next trial opens it again"
                )
            if self._driver is None or not self._driver.alive:
                if self._driver is not None:
                    self._driver.end()
                self._driver = _Driver(self._settings)
            return self._driver


class _Driver:
    """The driver process, and its pending results; a thread receives them."""

    def __init__(self, settings: tuple[str, ...]) -> None:
        address, isolation, workers = settings
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, str(os.getpid()), address, isolation, workers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        self._numbers = count()
        self._expected: dict[int, Future[Result]] = {}
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._unavailable = ""
        self._is_over = False
        """Whether no more results will arrive."""
        self._thread = threading.Thread(target=self._receive, name="sandbox on ray", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None and self._thread.is_alive()

    def expect(self) -> tuple[int, Future[Result]]:
        """Return a number for the next job, and the future of its result."""
        number, waiting = next(self._numbers), Future[Result]()
        with self._lock:
            self._expected[number] = waiting
            is_over = self._is_over
        if is_over:
            self._fail()
        return number, waiting

    def send(self, request: dict[str, Any]) -> None:
        """Send a request; if no process receives it, its pending result fails by itself."""
        assert self._process.stdin is not None
        with self._sending, suppress(wire.Closed, ValueError):
            wire.send(self._process.stdin.fileno(), request)

    def end(self) -> None:
        """Let the process leave its cluster, and wait until it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()

    def _receive(self) -> None:
        assert self._process.stdout is not None
        reader = wire.Reader(self._process.stdout.fileno(), _ANSWER_BYTES)
        with suppress(wire.Closed, wire.Malformed):
            while True:
                frame = reader.receive()
                if "unavailable" in frame:
                    self._unavailable = frame["unavailable"]
                    break
                with self._lock:
                    waiting = self._expected.pop(frame["id"])
                waiting.set_result(frame["result"])
        self._process.stdout.close()
        self._fail()

    def _fail(self) -> None:
        with self._lock:
            self._is_over = True
            lost, self._expected = self._expected, {}
        for waiting in lost.values():
            if self._unavailable:
                waiting.set_result({"unavailable": self._unavailable})
            else:
                waiting.set_exception(
                    SandboxError(
                        "the process that talks to the ray cluster (sandbox.executor) ended"
                        " during a trial; check that the cluster still runs. The next trial"
                        " starts a new process"
                    )
                )
