"""Reading files of lines while another process appends to them; nothing is opened for writing."""

from __future__ import annotations

from pathlib import Path

BLOCK = 1 << 16
"""Bytes that are read at a time from the end of a file."""


class Tail:
    """The lines of a file as they come; those that were taken back are not missed."""

    def __init__(self, path: Path) -> None:
        """The file need not be there yet."""
        self.path = path
        self._read = 0

    def lines(self) -> list[bytes]:
        """The whole lines that were added since the last call.

        Where the file has become shorter, as when a run goes on from a checkpoint, what is
        written from there on is new.
        """
        try:
            with self.path.open("rb") as stream:
                size = stream.seek(0, 2)
                self._read = min(self._read, size)
                stream.seek(self._read)
                data = stream.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.splitlines()


def last_line(path: Path) -> bytes | None:
    """The last line of a file that ends; None where there is none."""
    try:
        with path.open("rb") as stream:
            place, data = stream.seek(0, 2), b""
            while place and data.rstrip(b"\n").count(b"\n") < 1 + (not data.endswith(b"\n")):
                step = min(BLOCK, place)
                place -= step
                stream.seek(place)
                data = stream.read(step) + data
    except OSError:
        return None
    lines = data.split(b"\n")[:-1]
    return lines[-1] if lines else None
