"""Requests to a local engine that is closed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collab.errors import ModelUnavailable
from collab.models import Call, Request
from collab.models.local.engine import TransformersEngine
from collab.recipe.model import TransformersModel
from collab.records import Message

CALL = Call(task="t", sample=0, turn=0, round=0, agent="a")
REQUEST = Request(call=CALL, messages=(Message(role="user", content="abc"),))


def test_what_waits_when_the_engine_is_closed_fails(tiny: Path) -> None:
    """And is not cancelled: whoever asked goes on."""

    async def go() -> None:
        engine = TransformersEngine(TransformersModel(name=str(tiny)))
        asked = [asyncio.create_task(engine.generate([REQUEST])) for _ in range(3)]
        await asyncio.sleep(0)  # one is answered at most, and the others wait for it
        await engine.aclose()
        await asyncio.gather(*asked, return_exceptions=True)
        for work in (asked[2], asyncio.create_task(engine.generate([REQUEST]))):
            with pytest.raises(ModelUnavailable, match="was closed"):
                await work

    asyncio.run(go())
