"""The worker's system-call filter: a Berkeley packet filter over `struct seccomp_data`.

Allowed calls pass, hostile ones kill the process with SIGSYS, and every other call fails with
EPERM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from functools import lru_cache

from . import linux
from .syscalls import ALLOWED, CONDITIONAL, HOSTILE, numbers

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000
CLONE_THREAD = 0x00010000

KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NR, _ARCH, _ARGUMENTS = 0, 4, 16

FIRST_PID, NO_PID = 1, 1 << 30
"""The first process of a namespace, and a process that never exists."""
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 1030)
"""Allowed commands: F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, the record locks,
F_DUPFD_CLOEXEC."""
_PR_SET_NAME, _PR_GET_NAME = 15, 16
_FUTEX_PRIVATE_FLAG = 128
"""Flag without which waiters on a page of a mapped file are visible to every process that maps
it."""
_MADVISE_ADVICE = (0, 1, 2, 4, 8, 14, 15, 16, 17, 18)
"""Advice about a process's own memory. Other values move pages of mapped files in and out."""

_MAP_HUGETLB = 0x40000
"""Flag of mappings that are files. A counter that outlives the trial numbers these files."""


def _instruction(code: int, k: int, jt: int = 0, jf: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jt, jf, k)


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, offset)


def _argument(index: int, *, high: bool = False) -> bytes:
    return _load(_ARGUMENTS + 8 * index + (4 if high else 0))


def _return_action(action: int) -> bytes:
    return _instruction(_RETURN, action)


def _return_error(code: int) -> bytes:
    return _return_action(ERRNO | code)


def _allow_values(values: tuple[int, ...], otherwise: bytes) -> bytes:
    """Allow the call if the loaded word is among `values`."""
    return (
        b"".join(_instruction(_EQUAL, v, 0, 1) + _return_action(ALLOW) for v in values) + otherwise
    )


def _conditional(pid: int) -> dict[str, bytes]:
    kill = _return_action(KILL_PROCESS)
    threads_only = _instruction(_ANY_BIT, CLONE_THREAD, 1, 0) + kill + _return_action(ALLOW)
    only_reading = _instruction(_EQUAL, 0, 1, 0) + _return_error(errno.EPERM)
    own_memory_only = _instruction(_ANY_BIT, _FUTEX_PRIVATE_FLAG, 0, 1) + _return_action(ALLOW)
    small_pages_only = _instruction(_ANY_BIT, _MAP_HUGETLB, 0, 1) + _return_error(errno.EPERM)
    return {
        "futex": _argument(1) + own_memory_only + _return_error(errno.EAGAIN),
        "clone": _argument(0) + threads_only,
        "clone3": _return_error(errno.ENOSYS),
        "kill": _argument(0) + _allow_values((pid,), kill),
        "tgkill": _argument(0) + _allow_values((pid,), kill),
        "fcntl": _argument(1) + _allow_values(_FCNTL_COMMANDS, _return_error(errno.EPERM)),
        "ioctl": _return_error(errno.ENOTTY),
        "madvise": _argument(2) + _allow_values(_MADVISE_ADVICE, _return_error(errno.EPERM)),
        "mmap": _argument(3) + small_pages_only + _return_action(ALLOW),
        "prctl": _argument(0)
        + _allow_values((_PR_SET_NAME, _PR_GET_NAME), _return_error(errno.EPERM)),
        "prlimit64": _argument(2)
        + only_reading
        + _argument(2, high=True)
        + only_reading
        + _return_action(ALLOW),
        "socketpair": _return_error(errno.EPERM),
    }


@lru_cache(maxsize=4)
def filter_program(pid: int, machine: str) -> bytes:
    """Return the filter for a worker with process id `pid`, as a `struct sock_filter` array."""
    if machine not in AUDIT_ARCH:
        raise OSError(f"the processor {machine} is not supported, only {', '.join(AUDIT_ARCH)}")
    kill, special = _return_action(KILL_PROCESS), _conditional(pid)
    code = [_load(_ARCH), _instruction(_EQUAL, AUDIT_ARCH[machine], 1, 0), kill, _load(_NR)]
    if machine == "x86_64":
        code += [_instruction(_AT_LEAST, X32_BIT, 0, 1), kill]
    bodies = {nr: special[name] for name, nr in numbers(CONDITIONAL, machine).items()}
    bodies |= dict.fromkeys(numbers(ALLOWED, machine).values(), _return_action(ALLOW))
    bodies |= dict.fromkeys(numbers(HOSTILE, machine).values(), kill)
    code += [_instruction(_EQUAL, nr, 0, len(body) // 8) + body for nr, body in bodies.items()]
    return b"".join([*code, _return_error(errno.EPERM)])


def prepare() -> None:
    """Make the filters that processes forked from this one will install."""
    for pid in (FIRST_PID, NO_PID):
        filter_program(pid, platform.machine())


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install() -> None:
    """Install the filter on this process, permanently.

    After that, the process can signal only itself, and only if it is the first process of a pid
    namespace.
    """
    code = filter_program(FIRST_PID if os.getpid() == FIRST_PID else NO_PID, platform.machine())
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    argument = _Program(len(code) // 8, code)
    set_mode_filter, every_thread = 1, 1
    linux.syscall(
        "seccomp", linux.number("seccomp"), set_mode_filter, every_thread, ctypes.byref(argument)
    )
