"""What a request asks for, whichever of OpenAI's two forms it came in."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from collab.records import Sampling

Value = str | int | float | bool | list[str]
"""Of a field of a problem."""


@dataclass(frozen=True)
class Said:
    """One message of a conversation."""

    role: str
    text: str


@dataclass(frozen=True)
class Asked:
    """One problem for one team."""

    model: str
    text: str
    """The last user message, with the system messages before it."""
    before: tuple[Said, ...] = ()
    """What was said before it."""
    fields: dict[str, Value] = field(default_factory=dict)
    seed: int | None = None
    most_tokens: int | None = None
    """Of each agent's response; never more than its recipe says."""
    temperature: float | None = None
    top_p: float | None = None
    stream: bool = False
    include_usage: bool = False
    warnings: tuple[str, ...] = ()
    id: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)
    """Of its answer and its episode. Never the client's `x-request-id`, which may come again."""

    def sampling(self, own: Sampling) -> Sampling:
        """An agent's settings for this request."""
        changes: dict[str, float] = {}
        if self.most_tokens is not None:
            changes["max_new_tokens"] = min(self.most_tokens, own.max_new_tokens)
        if self.temperature is not None:
            changes["temperature"] = self.temperature
        if self.top_p is not None:
            changes["top_p"] = self.top_p
        return own.model_copy(update=changes)

    def drawn_seed(self) -> int:
        """The seed that was asked for, or one that nobody chose."""
        return secrets.randbelow(2**31) if self.seed is None else self.seed


def transcript(before: Sequence[Said], text: str) -> str:
    """A conversation as one text, the last message at its end."""
    turns = [f"{said.role.capitalize()}: {said.text}" for said in before]
    return "\n\n".join([*turns, text])
