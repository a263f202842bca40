"""One writer per folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from collab.errors import RecordError
from collab.runs.layout import LOCK


class Lock:
    """The right to write a folder, which one process has at a time; it ends with the process."""

    def __init__(self, folder: Path, *, seconds: float = 0.0) -> None:
        """Make the folder and lock it, or wait up to `seconds` for another writer to end.

        Raises:
            RecordError: another process writes the folder, or it cannot be written.
        """
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = FileLock(folder / LOCK, timeout=seconds, thread_local=False)
            self._file.acquire()
        except Timeout:
            raise RecordError(
                f"{folder} is being written by another process; wait for its end, or give another"
                " folder with --out (in Python: out=)"
            ) from None
        except (OSError, NotImplementedError) as error:  # the latter: no locks on its file system
            why = getattr(error, "strerror", None) or error
            raise RecordError(f"{folder} cannot be written: {why}") from error

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let others write; a folder that holds nothing else is removed."""
        with suppress(OSError):
            if [path.name for path in self.folder.iterdir()] == [LOCK]:
                (self.folder / LOCK).unlink()
                self.folder.rmdir()
        self._file.release()
