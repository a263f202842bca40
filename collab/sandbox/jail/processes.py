"""Forks sealed processes.

The pid namespaces are nested. The zygote is the first process of one namespace, and each worker is
the first process of another one below it. When a worker ends, all its child processes end. When the
zygote ends, for any reason, all workers end.

Layers may be shared: the zygote applies them to itself, so forking is cheap. Its processes then
share one environment, in which none can leave anything for the next one.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from .layers import linux
from .layers.stack import INSIDE_UID, Setting, drop_uid, prepare, raise_if_refused, seal
from .limits import NO_LIMITS, Limits

FIRST_FD = 3
_MIN_COPY_FD = 16


class Jail:
    """Starts processes behind the layers of `names`. Without any layer, the jail is unsafe.

    `enter` applies the layers in `shared`, for all processes at once.
    """

    def __init__(self, names: frozenset[str], shared: frozenset[str] = frozenset()) -> None:
        self._names, self._shared = names, names & shared
        self._namespaces = "namespaces" in names
        self._own_namespaces = self._namespaces and "namespaces" not in shared
        self._pid_namespace = -1
        self._mapped = 0

    def enter(self) -> None:
        """Apply the shared layers to this process. The code after the call may run in a child
        process.

        Raises:
            LayerUnavailable: the system refuses a layer.
        """
        if "uid" in self._names:
            with raise_if_refused("uid"):
                drop_uid()
        linux.die_with_parent()
        linux.limit_malloc_arenas()
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
        self._mapped = pages * os.sysconf("SC_PAGE_SIZE")
        # If memory runs out, this process and its children are the first victims, largest first.
        Path("/proc/self/oom_score_adj").write_bytes(b"1000")
        if self._namespaces:
            with raise_if_refused("namespaces"):
                # The network is empty and slow to create, so all processes share one.
                linux.enter_user_namespace(linux.NEWPID | linux.NEWNET, INSIDE_UID)
                _continue_in_child()
                linux.die_with_parent()
                self._pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
        prepare(self._names)
        if self._shared:
            seal(Setting(NO_LIMITS, self._shared, self._mapped, writable=False))
            linux.die_with_parent()

    def spawn(self, limits: Limits, body: Callable[[Callable[[], None]], None]) -> int:
        """Fork a process that runs `body`, and return the process id.

        `body` gets a function that seals the process.

        Raises:
            LayerUnavailable: the system refuses a layer.
        """
        if self._own_namespaces:
            with raise_if_refused("namespaces"):
                linux.unshare(linux.NEWPID)
        pid = os.fork()
        if pid == 0:
            self._run(limits, body)
        if self._own_namespaces:
            linux.setns(self._pid_namespace, linux.NEWPID)
        return pid

    def _run(self, limits: Limits, body: Callable[[Callable[[], None]], None]) -> NoReturn:
        try:
            if not self._namespaces:
                os.setpgid(0, 0)
                linux.die_with_parent()
            body(lambda: seal(Setting(limits, self._names - self._shared, self._mapped)))
        finally:
            os._exit(0)

    def end(self, pid: int) -> int:
        """Kill the process and all its children, and return its wait status."""
        if not self._namespaces:
            _kill_group(pid)
        os.kill(pid, signal.SIGKILL)
        return os.waitpid(pid, 0)[1]


def keep_descriptors(output: int, *kept: int) -> None:
    """Close all descriptors except `kept`, which become FIRST_FD and the numbers after it. Printed
    text goes to `output`.

    Standard input is empty. Each descriptor is a pipe of this trial, not a shared device. No other
    process sees a lock, time or owner that is set on it.
    """
    nothing, writer = os.pipe()
    os.close(writer)
    wanted = (nothing, output, output, *kept)
    for target, fd in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, _MIN_COPY_FD) for fd in wanted]):
        os.dup2(fd, target)
    os.closerange(len(wanted), os.sysconf("SC_OPEN_MAX"))


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it has no group yet, and therefore no children


def _continue_in_child() -> None:
    """Fork, and let the parent wait, as the only way into a new pid namespace."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        os._exit(0)
