"""Suites by the hundred: `reasoning_gym/NAME` is the suite of one of reasoning-gym's sets."""

from __future__ import annotations

import re
from typing import Any

REASONING_GYM = "reasoning_gym"
_MEMBER = re.compile(rf"({REASONING_GYM}/[a-z]\w*)(?:/(.*))?", re.ASCII | re.DOTALL)


def member(name: str) -> dict[str, Any] | None:
    """The suite of a set, as one that extends its family; None for any other name."""
    found = _MEMBER.fullmatch(name)
    if found is None or found[2] is not None:
        return None
    chosen = name.partition("/")[2]
    source = {"generate": {"use": REASONING_GYM, "options": {"name": chosen}}}
    return {"extends": REASONING_GYM, "name": name, "source": source}


def split_member(address: str) -> tuple[str, str] | None:
    """The suite of a set and what is selected in it, for an address in one."""
    found = _MEMBER.fullmatch(address)
    return (found[1], found[2] or "") if found else None
