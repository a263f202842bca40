"""Replaces files atomically. A file is flushed to the disk before it gets its name."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os.path import samestat
from pathlib import Path
from weakref import WeakSet, finalize

from collab.errors import RecordError
from collab.runs.layout import LOCK
from collab.runs.reading import check_within
from collab.wording import format_option

_OTHER_FOLDER = "choose another folder with --out (in Python: out=)"


def write_atomically(path: Path, text: str, remedy: str = "") -> None:
    """Replace a file atomically: a reader sees the old text or the new one, never a part.

    Raises:
        RecordError: the file cannot be written (the message ends with `remedy`), or see
            `check_same_folder`.
    """
    check_same_folder(path)
    with explain_disk_errors(path, remedy):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            _set_default_mode(Path(temporary))
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def check_no_other_files(path: Path, *marks: str, given_by: str = "out") -> None:
    """Check that the folder `path` is new, has no visible files, or contains one of `marks`.

    `given_by` is the option that names the folder, for the error.

    Raises:
        RecordError: the folder contains other files, or cannot be read.
    """
    with explain_disk_errors(path):
        if not path.exists() or any((path / mark).exists() for mark in marks):
            return
        if any(not item.name.startswith(".") for item in path.iterdir()):
            raise RecordError(
                f"{path} contains other files; choose another folder with {format_option(given_by)}"
            )


@contextmanager
def creating_folder(path: Path, other: str = "") -> Iterator[None]:
    """Context manager that makes the folder `path`, and removes it if the block fails.

    `other` is the option for another folder, for the error.

    Raises:
        RecordError: the folder is not empty, or cannot be written.
    """
    with explain_disk_errors(path):
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            what = "is not empty" if path.is_dir() else "is a file"
            way = f" with {other}" if other else ""
            raise RecordError(f"{path} {what}; choose another folder{way}, or delete it")
        try:
            path.mkdir(parents=True, exist_ok=True)
            yield
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise


@contextmanager
def replacing_files(folder: Path) -> Iterator[Path]:
    """Yield an empty folder. At exit, its files replace those of `folder`, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".partial-{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        sync_files(partial)
        for path in [each for each in partial.rglob("*") if each.is_file()]:
            place = folder / path.relative_to(partial)
            place.parent.mkdir(parents=True, exist_ok=True)
            _set_default_mode(path)  # safetensors makes files readable by their owner only
            path.replace(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def explain_disk_errors(path: Path, remedy: str = "") -> Iterator[None]:
    """Context manager that adds `path` and a remedy to errors of the disk.

    Raises:
        RecordError: the block raised OSError.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "free some space on its disk"
        end = f"; {remedy}" if remedy else ""
        several = error.args[0] if isinstance(error, shutil.Error) else ()
        reason = "; ".join(why for *_, why in several) or error.strerror or error
        raise RecordError(f"{path} cannot be written: {reason}{end}") from error


def _set_default_mode(path: Path) -> None:
    """Set a temporary file's mode to that of an ordinary new file, by the umask."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def sync_files(folder: Path) -> None:
    """Flush the content of every file in a folder to the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())


def sync_names(folder: Path) -> None:
    """Flush the names of a folder's files to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_links(folder: Path) -> None:
    """Raise RecordError if writing into a folder could change files outside."""
    remedy = f", or choose another folder with {format_option('out')}"
    for above, folders, files in os.walk(folder):
        paths = (Path(above, name) for name in (*folders, *files))
        check_within(folder, filter(Path.is_symlink, paths), remedy)


def check_same_folder(path: Path) -> None:
    """Check that no folder that this process writes, and that contains `path`, was moved.

    Raises:
        RecordError: the folder was moved, removed or replaced.
    """
    for lock in list(_HELD_LOCKS):
        if path.is_relative_to(lock.folder) and not lock.is_in_place():
            place = "another place"
            with suppress(OSError):  # only Linux says where
                place = str(Path(f"/proc/self/fd/{lock.handle}").readlink())
            raise RecordError(
                f"{lock.folder} was moved or replaced while it was being written; what was written"
                f" is now in {place}"
            )


class Lock:
    """Holds the exclusive right to write to a folder.

    The lock is released on exit, or when the process ends.
    """

    def __init__(self, folder: Path, *, seconds: float = 0.0) -> None:
        """Make the folder and lock it, or wait up to `seconds` for another writer to end.

        Raises:
            RecordError: another process writes the folder, it cannot be written, it has a link to
                a file outside, or see `check_same_folder`.
        """
        from filelock import FileLock, Timeout  # slow to import

        self.folder = folder
        check_same_folder(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _check_links(folder)
            self._file = FileLock(folder / LOCK, timeout=seconds, thread_local=False)
            self._file.acquire()
            self.handle = os.open(folder, os.O_RDONLY)
        except Timeout:
            raise RecordError(
                f"{folder} is being written by another process; wait until it ends, or"
                f" {_OTHER_FOLDER}"
            ) from None
        except (OSError, NotImplementedError) as error:  # the latter: no locks on its file system
            why = getattr(error, "strerror", None) or error
            raise RecordError(f"{folder} cannot be written: {why}; {_OTHER_FOLDER}") from error
        self._close = finalize(self, os.close, self.handle)
        _HELD_LOCKS.add(self)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock, and remove the folder if it is otherwise empty."""
        if self not in _HELD_LOCKS:
            return
        with suppress(OSError):
            names = [path.name for path in self.folder.iterdir()]
            if names == [LOCK] and self.is_in_place():
                (self.folder / LOCK).unlink()
                self.folder.rmdir()
        _HELD_LOCKS.remove(self)
        self._close()
        self._file.release()

    def is_in_place(self) -> bool:
        """Return True if the folder's path still leads to the folder that was locked."""
        return self.folder.exists() and samestat(self.folder.stat(), os.fstat(self.handle))


_HELD_LOCKS = WeakSet[Lock]()
"""Locks of the folders that this process writes."""
