"""What a program answered since the last check, as a short text to compare with."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_UNORDERED = frozenset({"set", "frozenset", "dict"})


class Answers:
    """The answers that one check depends on."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._all = True

    def note(self, answer: dict[str, Any]) -> None:
        """Take one frame of the worker's."""
        self._all = self._all and "value" in answer
        if "value" in answer:
            self._seen.append(_ordered(answer["value"]))

    def taken(self) -> str | None:
        """A digest of the values since the last call; None where there was none, or an error."""
        seen, complete = self._seen, self._all
        self._seen, self._all = [], True
        if not seen or not complete:
            return None
        return hashlib.blake2b("\n".join(seen).encode(), digest_size=12).hexdigest()


def _ordered(tree: Any) -> str:
    """A text that is the same for equal values: sets and dictionaries have no order."""
    try:
        return json.dumps(_sorted(tree))
    except RecursionError:
        return "nested too deep"


def _sorted(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_sorted(item) for item in tree]
    if isinstance(tree, dict):
        return {
            tag: sorted(map(_ordered, payload))
            if tag in _UNORDERED and isinstance(payload, list)
            else _sorted(payload)
            for tag, payload in tree.items()
        }
    return tree
