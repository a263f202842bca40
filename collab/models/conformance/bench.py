"""Helpers for the conformance checks: an engine under test, and methods to query it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from collab.models.base import Call, Capabilities, Model, Progress, Request
from collab.records import Action, Message, Sampling

LONG_ANSWER = "Count from 1 to 100, separated by commas. Write nothing else."


class CheckFailed(Exception):
    """The engine breaks the interface, or lacks a capability that it declares."""


class NotApplicable(Exception):
    """The check does not apply to this engine."""


class Bench:
    """The engine under test."""

    def __init__(self, model: Model, adapters: tuple[str, ...]) -> None:
        self.model = model
        self.adapters = adapters

    @property
    def capabilities(self) -> Capabilities:
        return self.model.capabilities

    def require_generation(self) -> None:
        """Raise NotApplicable if the engine's answers are fixed, as in a replay."""
        if not self.capabilities.generates:
            raise NotApplicable("its answers are fixed in advance")

    async def ask(self, *requests: Request, progress: Progress | None = None) -> list[Action]:
        """Return one action per request of a batch.

        CheckFailed is raised if a request fails.
        """
        actions = await self.try_to_ask(requests, progress)
        for action in actions:
            if action.failure is not None:
                raise CheckFailed(f"no answer: {action.failure.type}: {action.failure.message}")
        return actions

    async def try_to_ask(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """Return one action per request of a batch, including failed ones."""
        actions: list[Any] = await self.model.generate(requests, progress)
        if len(actions) != len(requests):
            raise CheckFailed(f"{len(requests)} requests returned {len(actions)} actions")
        if kinds := {type(a).__name__ for a in actions if not isinstance(a, Action)}:
            raise CheckFailed(f"a request returned a {min(kinds)}, not an Action")
        return actions


def request_of(
    text: str = LONG_ANSWER,
    *,
    number: int = 0,
    seed: int = 0,
    adapter: str | None = None,
    **sampling: Any,
) -> Request:
    """Return a request for a short greedy answer, unless `sampling` says otherwise."""
    return Request(
        call=Call(task="conformance/0", sample=number, turn=0, round=0, agent="agent"),
        messages=(Message(role="user", content=text),),
        sampling=Sampling(**{"temperature": 0.0, "max_new_tokens": 16, **sampling}),
        adapter=adapter,
        seed=seed,
    )


def require(holds: bool, why: str) -> None:
    """Raise CheckFailed with the reason `why` unless `holds` is True."""
    if not holds:
        raise CheckFailed(why)


ConformanceCheck = Callable[[Bench], Awaitable[str]]
"""A check returns its observation in a few words, or raises CheckFailed or NotApplicable."""
