"""Linux system calls that Python does not offer. Every one raises OSError on failure."""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
import signal
from functools import cache
from pathlib import Path

NEWNS = 0x00020000
NEWCGROUP = 0x02000000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 1 << 14, 1 << 18
MS_RDONLY, MS_REMOUNT = 1, 32
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE = 1, 3, 4
PR_CAPBSET_READ, PR_CAPBSET_DROP = 23, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
_NUMBERS = {
    "x86_64": {"pivot_root": 155, "capset": 126, "seccomp": 317},
    "aarch64": {"pivot_root": 41, "capset": 91, "seccomp": 277},
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


def number(name: str) -> int:
    """Return the system call's number on this machine."""
    machine = platform.machine()
    if machine not in _NUMBERS:
        raise OSError(f"the processor {machine} is not supported, only {', '.join(_NUMBERS)}")
    return _NUMBERS[machine][name]


def _checked(name: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def syscall(name: str, nr: int, *arguments: object) -> int:
    """Make the system call `nr`, and return its result. `name` is for the error."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(name, _libc.syscall(ctypes.c_long(nr), *words))


def prctl(option: int, *arguments: int) -> int:
    """Call prctl, and return its result."""
    result: int = _libc.prctl(option, *arguments, *[0] * (4 - len(arguments)))
    return result if result >= 0 else _checked(f"prctl({option})", result)


def limit_malloc_arenas() -> None:
    """Keep glibc from reserving 64 MiB of address space per thread."""
    if hasattr(_libc, "mallopt"):
        m_arena_max = -8
        _libc.mallopt(m_arena_max, 1)


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _checked("unshare", _libc.unshare(flags))


def setns(fd: int, kind: int) -> None:
    """Move this process into the namespace of a descriptor."""
    _checked("setns", _libc.setns(fd, kind))


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount a file system at `target`."""
    kind_bytes = kind.encode() if kind else None
    result = _libc.mount(
        source.encode(), target.encode(), kind_bytes, ctypes.c_ulong(flags), options.encode()
    )
    _checked(f"mount {target}", result)


def pivot_to_working_directory() -> None:
    """Make the working directory the root, and detach the old root."""
    syscall("pivot_root", number("pivot_root"), b".", b".")
    _checked("umount2", _libc.umount2(b".", MNT_DETACH))


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def enter_user_namespace(flags: int, inside: int) -> None:
    """Enter a new user namespace, and the other namespaces in `flags`.

    The only user of the new namespace is `inside`.
    """
    uid, gid = os.getuid(), os.getgid()
    unshare(NEWUSER | flags)
    maps = {"setgroups": "deny", "uid_map": f"{inside} {uid} 1", "gid_map": f"{inside} {gid} 1"}
    for name, text in maps.items():
        Path(f"/proc/self/{name}").write_bytes(text.encode())


def drop_capabilities() -> None:
    """Drop every capability, and any way to gain one by running another program."""
    dropped = [_libc.prctl(PR_CAPBSET_DROP, each, 0, 0, 0) for each in capabilities()]
    _checked("prctl(PR_CAPBSET_DROP)", min(dropped))
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    version_3, this_process = 0x20080522, 0
    header = (ctypes.c_uint32 * 2)(version_3, this_process)
    none = (ctypes.c_uint32 * 6)()
    syscall("capset", number("capset"), ctypes.byref(header), ctypes.byref(none))
    prctl(PR_SET_NO_NEW_PRIVS, 1)


@cache
def capabilities() -> tuple[int, ...]:
    """Return the numbers of all capabilities that this kernel knows."""
    return tuple(
        itertools.takewhile(lambda n: _libc.prctl(PR_CAPBSET_READ, n, 0, 0, 0) >= 0, range(64))
    )
