"""Asks an engine, and fails without an answer."""

import asyncio
from typing import Any

from collab.models import Call, Model, Request
from collab.records import Action, Message, Sampling


def request(text: str, number: int = 0, *, adapter: str | None = None, **sampling: Any) -> Request:
    return Request(
        call=Call(task="t/0", sample=number, turn=0, round=0, agent="a"),
        messages=(Message(role="user", content=text),),
        sampling=Sampling(**{"max_new_tokens": 16, **sampling}),
        adapter=adapter,
        seed=number,
    )


def ask(engine: Model, requests: list[Request]) -> list[Action]:
    actions = asyncio.run(engine.generate(requests))
    assert [action.failure for action in actions] == [None] * len(actions)
    return actions
