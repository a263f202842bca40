"""The form of an answer: OpenAI has two, and each is given whole or as a stream."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Protocol

from collab.records import Episode
from collab.serving.asking import Asked
from collab.serving.details import details
from collab.serving.narration import Words
from collab.serving.refusal import Refused
from collab.serving.team import ServedTeam


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


class TeamReply:
    """What an answer of a team holds in either form; `all_of_it` adds the details of `collab`."""

    def __init__(self, team: ServedTeam, asked: Asked, *, all_of_it: bool) -> None:
        self._team, self._asked = team, asked
        self._all_of_it = all_of_it
        self._created = int(time.time())
        self._answer = Trimmed()
        self._warnings: list[str] = []

    def _check(self, words: Words) -> None:
        """Warn that an agent's streamed text is not that of the record."""
        if words.differs:
            self._warnings.append(_warned(words.agent))

    def _rest(self, episode: Episode) -> str:
        """What of the joint answer was not told; another text than was told is warned of once."""
        joint = episode.turns[-1].joint
        if self._answer.differs(joint) and not self._warnings:
            self._warnings.append(_warned("the answer"))
        return self._answer.rest(joint)

    def _details(self, episode: Episode) -> dict[str, Any] | None:
        if not self._all_of_it:
            return None
        return details(self._team, self._asked, episode, self._warnings)


def _warned(whose: str) -> str:
    """The warning that a client has heard another text than the record's."""
    return f"the streamed text of {whose} is not that of the record; collab.agents holds that one"
