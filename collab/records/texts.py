"""Texts that a record can hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from collab.errors import RecordError

MOST_CHARACTERS = 10_000
"""Longest reason or error in a record. The rest is cut off."""


def _whole(text: str) -> str:
    """Return a text that UTF-8 can encode.

    Raises:
        RecordError: it contains half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        near = text[max(error.start - 20, 0) : error.start + 20]
        raise RecordError(
            f"a text contains half of a surrogate pair, which no file can hold: {near!a}"
        ) from None
    return text


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


Text = Annotated[str, AfterValidator(_whole)]
Reason = Annotated[str, AfterValidator(_short), AfterValidator(_whole)]
"""A text for people, cut after `MOST_CHARACTERS`."""
