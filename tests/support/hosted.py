"""Requests to hosted models."""

import asyncio
import time
from typing import Any

from collab.models import Call, Request
from collab.models.hosted.engine import HostedEngine
from collab.records import Action, Message, Sampling

KEY = "sk-secret-0123456789"
SYSTEM = Message(role="system", content="You write code.")


def request_of(*messages: Message, adapter: str | None = None, **sampling: Any) -> Request:
    return Request(
        call=Call(task="t/0", sample=0, turn=0, round=0, agent="main"),
        messages=messages or (SYSTEM, Message(role="user", content="Add two numbers.")),
        sampling=Sampling(**sampling),
        adapter=adapter,
        seed=2**40 + 7,
    )


def ask(engine: HostedEngine, *requests: Request, progress: Any = None) -> list[Action]:
    """Send all requests in one call; check that it ends soon and hides the key."""

    async def go() -> list[Action]:
        try:
            return await engine.generate(requests or [request_of()], progress)
        finally:
            await engine.aclose()

    started = time.monotonic()
    actions = asyncio.run(go())
    assert time.monotonic() - started < 20
    assert all(KEY not in action.model_dump_json() for action in actions)
    return actions
