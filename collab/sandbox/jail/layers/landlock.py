"""Landlock: limits the files that a worker can touch, also within its mounts."""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache

from . import linux

_VERSION_FLAG = 1
_PATH_BENEATH = 1
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Number of file rights per ABI, as the low bits of a mask. From ABI 5 on, it is 16."""
_NETWORK_ABI, _NETWORK_RIGHTS = 4, 0b11
_SCOPE_ABI, _SCOPE_RIGHTS = 6, 0b11


@cache
def abi() -> int:
    """Return the kernel's Landlock version.

    Raises:
        OSError: the kernel has no Landlock.
    """
    return linux.syscall(
        "landlock_create_ruleset", linux.LANDLOCK_CREATE_RULESET, 0, 0, _VERSION_FLAG
    )


def restrict(folder: str | None) -> None:
    """Deny this process TCP and all files outside `folder`.

    Signals and abstract sockets can only reach processes with the same restrictions.
    """
    version = abi()
    rights = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    words = [rights]
    if version >= _NETWORK_ABI:
        words.append(_NETWORK_RIGHTS)
    if version >= _SCOPE_ABI:
        words.append(_SCOPE_RIGHTS)
    attributes = struct.pack(f"={len(words)}Q", *words)
    ruleset = linux.syscall(
        "landlock_create_ruleset",
        linux.LANDLOCK_CREATE_RULESET,
        ctypes.c_char_p(attributes),
        len(attributes),
        0,
    )
    try:
        if folder is not None:
            _allow(ruleset, folder, rights)
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        linux.syscall("landlock_restrict_self", linux.LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, folder: str, rights: int) -> None:
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        rule = ctypes.c_char_p(struct.pack("=Qi", rights, fd))
        linux.syscall("landlock_add_rule", linux.LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(fd)
