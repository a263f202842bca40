"""One agent's move in a turn: its responses, and its observations between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from collab.models.tool_text import UnreadableCall, read_calls, text_before_calls
from collab.records import Action, Failure, Message
from collab.tools import Tool

Generate = Callable[[int, Sequence[Message], bool], Awaitable[Action]]
"""Generates a response from its number, the messages so far, and whether it may call tools."""


class ActionFailed(Exception):
    """A model gave no answer, which ends the episode."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


@dataclass(frozen=True)
class MoveStep:
    """One response within a move, and the messages that led to it."""

    observation: tuple[Message, ...]
    action: Action


class Move:
    """The input of a harness: the agent's history, its model and its tools.

    Each response is a separate decision in the record. Only tokens that the model sampled are
    trained. The harness's own messages carry no gradient.
    """

    def __init__(
        self,
        agent: str,
        history: Sequence[Message],
        observed: Sequence[Message],
        ask: Generate,
        tools: Mapping[str, Tool] | None = None,
    ) -> None:
        """Start a move with the messages `observed`, after those of earlier moves (`history`)."""
        self.agent = agent
        self.tools: Mapping[str, Tool] = tools or {}
        """Tools that the agent may call, by name."""
        self.steps: list[MoveStep] = []
        """Responses so far."""
        self._history = list(history)
        self._pending = list(observed)
        self._ask = ask

    @property
    def messages(self) -> tuple[Message, ...]:
        """Messages that the agent has observed and written so far."""
        return (*self._history, *self._pending)

    @property
    def answer(self) -> str:
        """Text of the last response, without tool calls that got no result."""
        action = self.steps[-1].action
        is_call = bool(action.tool_calls) or bool(self.call_fault(action))
        return text_before_calls(action.text) if is_call else action.text

    def call_fault(self, action: Action) -> str:
        """Describe the malformed tool call in the response, or return "" if there is none."""
        if self.tools and not action.tool_calls:
            try:
                read_calls(action.text, self.tools)
            except UnreadableCall as error:
                return str(error)
        return ""

    def observe(self, *messages: Message) -> None:
        """Add an observation before the agent's next response."""
        self._pending.extend(messages)

    async def generate(self, *, may_call: bool = True) -> Action:
        """Return one response of the agent's model to all observations so far.

        The response's `tool_calls` are not executed here. Without `may_call`, the agent must answer
        without a call.

        Raises:
            ActionFailed: the model gave no answer. A harness does not catch it.
        """
        observation = tuple(self._pending)
        action = await self._ask(len(self.steps), self.messages, may_call)
        if self.tools and not action.tool_calls:
            with suppress(UnreadableCall):
                calls = read_calls(action.text, self.tools)
                action = action.model_copy(update={"tool_calls": calls})
        self.steps.append(MoveStep(observation, action))
        if action.failure:
            raise ActionFailed(action.failure)
        self._history += [*observation, action.message]
        self._pending = []
        return action
