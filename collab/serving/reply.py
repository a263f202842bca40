"""The form of an answer: OpenAI has two, and each is given whole or as a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from collab.records import Episode
from collab.serving.narration import Words
from collab.serving.refusal import Refused


class Reply(Protocol):
    """One answer. Streams are given as the texts of server-sent events."""

    def whole(self, episode: Episode) -> dict[str, Any]:
        """The JSON of an answer that is not streamed."""
        ...

    def begin(self) -> Iterable[str]:
        """What a stream begins with."""
        ...

    def words(self, words: Words) -> Iterable[str]:
        """What an agent has written."""
        ...

    def end(self, episode: Episode) -> Iterable[str]:
        """The answer, as far as it was not told, and all that closes the stream."""
        ...

    def fail(self, refused: Refused) -> Iterable[str]:
        """The end of a stream that had begun and has no answer."""
        ...


class Trimmed:
    """Text that comes in pieces, as its whole will be once it is stripped."""

    def __init__(self) -> None:
        self._kept = ""
        self.told = ""

    def add(self, text: str) -> str:
        """What can be told by now: white space at the end is kept until something follows it."""
        whole = self._kept + text
        if not self.told:
            whole = whole.lstrip()
        told = whole.rstrip()
        self._kept = whole[len(told) :]
        self.told += told
        return told

    def rest(self, whole: str) -> str:
        """What of the whole text was not told."""
        return "" if self.differs(whole) else whole[len(self.told) :]

    def differs(self, whole: str) -> bool:
        """Whether what was told is not the beginning of the whole, so that nothing can follow."""
        return not whole.startswith(self.told)


def warned(whose: str) -> str:
    """The warning that a client has heard another text than the record's."""
    return f"the streamed text of {whose} is not that of the record; collab.agents holds that one"
