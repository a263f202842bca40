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
            self._seen.append(_canonical(answer["value"]))

    def taken(self) -> str | None:
        """A digest of the values since the last call; None where there was none, or an error."""
        seen, complete = self._seen, self._all
        self._seen, self._all = [], True
        if not seen or not complete:
            return None
        return _hashed("\n".join(seen))


def _canonical(tree: Any) -> str:
    """A text that is the same for equal values: sets and dictionaries have no order."""
    try:
        return json.dumps(_unordered(tree))
    except RecursionError:
        return "nested too deep"


def _unordered(tree: Any) -> Any:
    """The tree with digests, sorted, for what stands in a set or dictionary.

    A digest is as short at every depth, where a text within a text is quoted once more at each.
    """
    if isinstance(tree, list):
        return list(map(_unordered, tree))
    if not isinstance(tree, dict):
        return tree
    found = {}
    for tag, payload in tree.items():
        if tag in _UNORDERED and isinstance(payload, list):
            found[tag] = sorted(map(_digest, payload))
        else:
            found[tag] = _unordered(payload)
    return found


def _digest(tree: Any) -> str:
    return _hashed(json.dumps(_unordered(tree)))


def _hashed(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
