"""One agent acting once in a turn: the responses it gives, and what it observes between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from collab.models.tool_text import UnreadableCall, before_calls, read_calls
from collab.records import Action, Failure, Message
from collab.tools import Tool

Generate = Callable[[int, Sequence[Message], bool], Awaitable[Action]]
"""From the number of the response within the move, all that the agent has observed and said, and
whether it may call tools, to the response."""


class ActionFailed(Exception):
    """A model gave no answer, which ends the episode."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


@dataclass(frozen=True)
class Step:
    """One response within a move, and the messages that it was given on."""

    observation: tuple[Message, ...]
    action: Action


class Move:
    """The input of a harness: the agent's history, its model and its tools.

    Each response is one decision of its own in the record. Only tokens that the model drew are
    trained; what the harness says in between carries no gradient.
    """

    def __init__(
        self,
        agent: str,
        history: Sequence[Message],
        observed: Sequence[Message],
        ask: Generate,
        tools: Mapping[str, Tool] | None = None,
    ) -> None:
        """`history` is what came before this move, `observed` what begins it."""
        self.agent = agent
        self.tools: Mapping[str, Tool] = tools or {}
        """By name: what the agent may call."""
        self.steps: list[Step] = []
        """The responses so far."""
        self._history = list(history)
        self._pending = list(observed)
        self._ask = ask

    @property
    def messages(self) -> tuple[Message, ...]:
        """All that the agent has observed and said."""
        return (*self._history, *self._pending)

    @property
    def answer(self) -> str:
        """The text of the last response, without calls of tools that nobody makes any more."""
        action = self.steps[-1].action
        is_call = bool(action.tool_calls) or bool(self.unreadable(action))
        return before_calls(action.text) if is_call else action.text

    def unreadable(self, action: Action) -> str:
        """Describe the fault in a tool call of the response; empty if there is none."""
        if self.tools and not action.tool_calls:
            try:
                read_calls(action.text, self.tools)
            except UnreadableCall as error:
                return str(error)
        return ""

    def observe(self, *messages: Message) -> None:
        """Tell the agent something before its next response."""
        self._pending.extend(messages)

    def say_nothing(self) -> None:
        """Answer with an empty text, of which the agent's model knows nothing."""
        self.steps.append(Step(tuple(self._pending), Action(text="")))

    async def generate(self, *, may_call: bool = True) -> Action:
        """Ask the agent's model for one response to all that it has observed.

        The response's `tool_calls` are the calls that it asks for; without `may_call` it is to
        answer now. None of them is made here.

        Raises:
            ActionFailed: the model gave no answer; a harness lets it pass.
        """
        observation = tuple(self._pending)
        action = await self._ask(len(self.steps), self.messages, may_call)
        if self.tools and not action.tool_calls:
            with suppress(UnreadableCall):
                calls = read_calls(action.text, self.tools)
                action = action.model_copy(update={"tool_calls": calls})
        self.steps.append(Step(observation, action))
        if action.failure:
            raise ActionFailed(action.failure)
        self._history += [*observation, action.message]
        self._pending = []
        return action
