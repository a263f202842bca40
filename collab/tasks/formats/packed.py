"""LiveCodeBench's private cases, which are published packed: base64 of zlib of a pickled text.

A pickle is a program, and none is run here. The text is read off the few instructions that a pickle
of one text consists of; one with any other instruction is refused.
"""

from __future__ import annotations

import base64
import pickletools
import zlib
from collections.abc import Iterator

from collab.errors import TaskError

MOST_UNPACKED = 1 << 27
"""Bytes that the packed cases of one problem may hold."""
REMEDY = "write the cases as JSON, or as base64 of zlib of JSON"

_PICKLED = b"\x80"
_TEXTS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_EMPTY = frozenset({"PROTO", "FRAME", "MEMOIZE", "BINPUT", "STOP"})


def unpacked(told: str) -> str:
    """The JSON that a text holds: as it is, or as base64 of zlib of it, pickled or not.

    Raises:
        TaskError: it holds anything else, or more than MOST_UNPACKED bytes.
    """
    if told.lstrip().startswith("["):
        return told
    try:
        data = _inflated(base64.b64decode("".join(told.split()), validate=True))
        return _pickled_text(data) if data.startswith(_PICKLED) else data.decode()
    except (ValueError, zlib.error) as error:
        raise TaskError(f"they cannot be unpacked: {error}; {REMEDY}") from error


def _inflated(data: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(data, MOST_UNPACKED)
    if unpacking.unconsumed_tail:
        raise TaskError(f"they unpack to more than {MOST_UNPACKED:,} bytes; {REMEDY}")
    if not unpacking.eof:
        raise TaskError(f"they are cut off; {REMEDY}")
    return found


def _pickled_text(data: bytes) -> str:
    texts = list(_texts(data))
    if len(texts) != 1:
        raise TaskError(f"they are a pickle of {len(texts)} texts, not of one; {REMEDY}")
    return texts[0]


def _texts(data: bytes) -> Iterator[str]:
    for instruction, argument, _ in pickletools.genops(data):
        if instruction.name in _TEXTS:
            yield str(argument)
        elif instruction.name not in _EMPTY:
            raise TaskError(
                f"they are a pickle of more than a text ({instruction.name}), which is never run;"
                f" {REMEDY}"
            )
