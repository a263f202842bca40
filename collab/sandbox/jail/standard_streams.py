"""Standard input and output of one run of a program, both as descriptors and as Python objects."""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MAX_OUTPUT_BYTES = 1 << 24
"""Maximum number of bytes to keep of a run's output. The rest is read and dropped."""
_READ_BYTES = 1 << 16
_WRITE_BYTES = select.PIPE_BUF
"""Number of bytes that a writable pipe accepts without waiting."""


@contextmanager
def standard_streams(input_bytes: bytes) -> Iterator[bytearray]:
    """Context manager that feeds `input_bytes` to the standard input, and collects the output in
    the array.

    A thread serves both pipes, so a program never waits for a full or an empty one.
    """
    saved = os.dup(0), os.dup(1)
    (source, feed), (drain, sink), (run_end, end) = (os.pipe() for _ in range(3))
    for fd, place in ((source, 0), (sink, 1)):
        os.dup2(fd, place)
        os.close(fd)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    out = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
    sys.stdout = out
    pipes = _Pipes(input_bytes, feed, drain, run_end)
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
        os.close(run_end)


class _Pipes:
    """The other ends of a program's standard streams, until `run_end` has ended."""

    def __init__(self, input_bytes: bytes, feed: int, drain: int, run_end: int) -> None:
        self.printed = bytearray()
        self._unwritten, self._feed = memoryview(input_bytes), feed
        self._drain, self._run_end = drain, run_end

    def serve(self) -> None:
        """Serve until the run is over and its output is read, even if another process holds a
        pipe's end."""
        over = drained = False
        while not (over and drained):
            read = [self._drain] * (not drained) + [self._run_end] * (not over)
            write = [self._feed] * (self._feed >= 0 and not over)
            ready, free, _ = select.select(read, write, [], 0 if over else None)
            if free:
                self._write_input()
            if self._drain in ready:
                part = os.read(self._drain, _READ_BYTES)
                self.printed += part[: MAX_OUTPUT_BYTES - len(self.printed)]
                drained = not part
            elif over:
                drained = True
            else:
                over = self._run_end in ready
        self._close_input()

    def _write_input(self) -> None:
        """Write as much as the pipe accepts without waiting. Close it when nothing is left to
        write, or the reader has closed it.
        """
        try:
            written = os.write(self._feed, self._unwritten[:_WRITE_BYTES]) if self._unwritten else 0
        except OSError:
            written = 0
        self._unwritten = self._unwritten[written:]
        if not written:
            self._close_input()

    def _close_input(self) -> None:
        if self._feed >= 0:
            os.close(self._feed)
            self._feed = -1
