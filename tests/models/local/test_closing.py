"""Requests to a closed local engine, and canceled requests."""

import asyncio
from pathlib import Path
from threading import Event

import pytest
from support.loops import in_loop

from collab.errors import ModelUnavailable
from collab.models import Call, Request
from collab.models.local.engine import TransformersEngine
from collab.recipe.model import TransformersSpec
from collab.records import Message

CALL = Call(task="t", sample=0, turn=0, round=0, agent="a")
REQUEST = Request(call=CALL, messages=(Message(role="user", content="abc"),))


@in_loop
async def test_waiting_requests_fail_when_the_engine_is_closed(tiny: Path) -> None:
    """The requests fail instead of being canceled, so callers continue."""
    engine = TransformersEngine(TransformersSpec(name=str(tiny)))
    requests = [asyncio.create_task(engine.generate([REQUEST])) for _ in range(3)]
    await asyncio.sleep(0)  # at most one is being answered; the others wait
    await engine.aclose()
    await asyncio.gather(*requests, return_exceptions=True)
    for work in (requests[2], asyncio.create_task(engine.generate([REQUEST]))):
        with pytest.raises(ModelUnavailable, match="is closed"):
            await work


@in_loop
async def test_canceling_a_queued_request_returns_at_once(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TransformersEngine(TransformersSpec(name=str(tiny)))
    begun, go_on = Event(), Event()
    calls = []

    def slow(*_: object) -> None:
        calls.append(1)
        begun.set()
        go_on.wait(30)

    monkeypatch.setattr(engine, "_answer", slow)
    first, second = (
        asyncio.create_task(engine.answer_each([REQUEST], lambda *_: None)) for _ in range(2)
    )
    await asyncio.to_thread(begun.wait, 30)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(second, 10)
    assert not first.done()
    go_on.set()
    await first
    await engine.aclose()
    assert calls == [1], "a canceled request does not start later"
