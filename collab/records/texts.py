"""Texts that a record can hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from collab.errors import RecordError

MAX_REASON_CHARACTERS = 10_000
"""Longest reason or error in a record. The rest is cut off."""


def _check_encodable(text: str) -> str:
    """Return a text, or raise RecordError if it contains half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        near = text[max(error.start - 20, 0) : error.start + 20]
        raise RecordError(
            f"a text contains half of a surrogate pair, which no file can hold: {near!a}"
        ) from None
    return text


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_REASON_CHARACTERS else f"{text[:MAX_REASON_CHARACTERS]}..."


Text = Annotated[str, AfterValidator(_check_encodable)]
Reason = Annotated[str, AfterValidator(_shorten), AfterValidator(_check_encodable)]
"""A text for people, cut after `MAX_REASON_CHARACTERS`."""
