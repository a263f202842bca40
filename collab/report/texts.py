"""Every text of a report once, as it may be shown, and packed."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

_STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


class Texts:
    """A table of texts. A text is at most `limit` characters long, and says what is left out."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.shortened = 0
        """Texts of which something was left out."""
        self._places: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The place of a text in the table."""
        if len(text) > self.limit:
            left_out = len(text) - self.limit
            text = f"{text[: self.limit]}\n[{left_out:,} more characters are left out here]"
            self.shortened += text not in self._places
        return self._places.setdefault(text, len(self._places))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)


def visible(text: str) -> str:
    """The text with a name in place of each character that steers what is around it."""
    text = text.replace("\r\n", "\n")
    return _STEERING.sub(lambda found: _name(ord(found.group())), text)


def _name(point: int) -> str:
    return f"\\x{point:02x}" if point < 256 else f"\\u{point:04x}"


def pack(data: Any) -> str:
    """JSON, gzipped, in base64: nothing in it can be read as markup."""
    text = json.dumps(_plain(data), ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def _plain(data: Any) -> Any:
    """The data with its texts visible, and its numbers as JSON has them, to six digits."""
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, float):
        return float(f"{data:.6g}") if isfinite(data) else None
    if isinstance(data, dict):
        return {visible(key): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    return data
