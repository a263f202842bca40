"""The descriptors of a process in a jail: none of them leads to a file of the machine."""

from __future__ import annotations

import fcntl
import os

FIRST_FD = 3
_MIN_COPY_FD = 16


def keep_descriptors(output: int, *kept: int) -> None:
    """Close all descriptors except `kept`, which become FIRST and the numbers after it. Printed
    text goes to `output`.

    Standard input is empty. Each descriptor is a pipe of this trial, not a shared device, so no
    other process sees a lock, time or owner that is set on it.
    """
    nothing, writer = os.pipe()
    os.close(writer)
    wanted = (nothing, output, output, *kept)
    for target, fd in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, _MIN_COPY_FD) for fd in wanted]):
        os.dup2(fd, target)
    os.closerange(len(wanted), os.sysconf("SC_OPEN_MAX"))
