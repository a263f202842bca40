"""A short text of a program's answers since the last check, for comparison."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_UNORDERED_TAGS = frozenset({"set", "frozenset", "dict"})


class Answers:
    """Records the answers on which one check depends."""

    def __init__(self) -> None:
        self._values: list[str] = []
        self._is_complete = True

    def note(self, answer: dict[str, Any]) -> None:
        """Add the answer in a frame from the worker."""
        self._is_complete = self._is_complete and "value" in answer
        if "value" in answer:
            self._values.append(_canonical(answer["value"]))

    def next_digest(self) -> str | None:
        """Return a digest of the values since the last call. The result is None if there was no
        value, or if an answer was an error."""
        seen, complete = self._values, self._is_complete
        self._values, self._is_complete = [], True
        if not seen or not complete:
            return None
        return _hash_text("\n".join(seen))


def _canonical(tree: Any) -> str:
    """Return a string that is the same for equal values: sets and dictionaries have no order."""
    try:
        return json.dumps(_sort_unordered(tree))
    except RecursionError:
        return "nested too deep"


def _sort_unordered(tree: Any) -> Any:
    """Return the tree with digests, sorted, for the content of a set or dictionary.

    A digest has the same length at every depth. A string within a string would be quoted again at
    each level.
    """
    if isinstance(tree, list):
        return list(map(_sort_unordered, tree))
    if not isinstance(tree, dict):
        return tree
    plain = {}
    for tag, payload in tree.items():
        if tag in _UNORDERED_TAGS and isinstance(payload, list):
            plain[tag] = sorted(map(_digest, payload))
        else:
            plain[tag] = _sort_unordered(payload)
    return plain


def _digest(tree: Any) -> str:
    return _hash_text(json.dumps(_sort_unordered(tree)))


def _hash_text(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
