"""The final answer of a worked solution, as GSM8K and MATH mark it. All of it is linear in time."""

from __future__ import annotations

import re

_BOX = re.compile(r"\\f?boxed\b|\\fbox\b")
_SAID = re.compile(r"\banswer(?: is|:)\s*(\S[^\n]*)", re.IGNORECASE)
_END = re.compile(r"\.(?:\s|$)")


def final_answer(text: str) -> str | None:
    r"""What stands in the last `\boxed{...}`, behind the last `####`, or behind "answer is" or
    "answer:"; the first of these that the text has, and None where it has none.
    """
    boxes = list(_BOX.finditer(text))
    if boxes:
        return _braced(text[boxes[-1].end() :])
    _, mark, behind = text.rpartition("####")
    if mark:
        return behind.strip().partition("\n")[0].strip()
    said = list(_SAID.finditer(text))
    return _END.split(said[-1].group(1))[0].strip(" *$") if said else None


def _braced(text: str) -> str | None:
    """What the braces at the beginning hold; without braces, the first word."""
    text = text.lstrip()
    if not text.startswith("{"):
        return (text.split() or [""])[0].rstrip("$.") or None
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return text[1:place].strip()
    return None
