"""Standard input and output of one run of a program, both as descriptors and as Python objects."""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MOST_PRINTED = 1 << 24
"""Maximum number of bytes to keep of a run's output. The rest is read and dropped."""
_READ_BYTES = 1 << 16
_WRITE_BYTES = select.PIPE_BUF
"""Number of bytes that a writable pipe accepts without waiting."""


@contextmanager
def standard_streams(given: bytes) -> Iterator[bytearray]:
    """Context manager that feeds `given` to the standard input and collects the output in the
    array.

    A thread serves both pipes, so a program never waits for a full or an empty one.
    """
    saved = os.dup(0), os.dup(1)
    (source, feed), (drain, sink), (running, end) = (os.pipe() for _ in range(3))
    for fd, place in ((source, 0), (sink, 1)):
        os.dup2(fd, place)
        os.close(fd)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    out = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
    sys.stdout = out
    pipes = _Pipes(given, feed, drain, running)
    server = threading.Thread(target=pipes.serve, daemon=True)
    server.start()
    try:
        yield pipes.printed
    finally:
        with suppress(Exception):
            out.flush()
        for place, fd in enumerate(saved):
            os.dup2(fd, place)
            os.close(fd)
        os.close(end)
        server.join()
        os.close(drain)
        os.close(running)


class _Pipes:
    """The other ends of a program's standard streams, until `running` has ended."""

    def __init__(self, given: bytes, feed: int, drain: int, running: int) -> None:
        self.printed = bytearray()
        self._given, self._feed = memoryview(given), feed
        self._drain, self._running = drain, running

    def serve(self) -> None:
        """Serve until the run is over and its output is read, even if another process holds a
        pipe's end."""
        over = drained = False
        while not (over and drained):
            read = [self._drain] * (not drained) + [self._running] * (not over)
            write = [self._feed] * (self._feed >= 0 and not over)
            ready, free, _ = select.select(read, write, [], 0 if over else None)
            if free:
                self._give()
            if self._drain in ready:
                part = os.read(self._drain, _READ_BYTES)
                self.printed += part[: MOST_PRINTED - len(self.printed)]
                drained = not part
            elif over:
                drained = True
            else:
                over = self._running in ready
        self._close()

    def _give(self) -> None:
        """Write as much as the pipe accepts without waiting. Close it when nothing is left to
        write, or the reader has closed it.
        """
        try:
            written = os.write(self._feed, self._given[:_WRITE_BYTES]) if self._given else 0
        except OSError:
            written = 0
        self._given = self._given[written:]
        if not written:
            self._close()

    def _close(self) -> None:
        if self._feed >= 0:
            os.close(self._feed)
            self._feed = -1
