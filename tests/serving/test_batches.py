"""A model that answers batches gets the requests of all clients at once."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest
from support.served import CHAT, DUO, SOLO, Server, Talker, recipe

from collab.models import Progress, Request
from collab.models.base import Batching
from collab.records import Action
from collab.serving.settings import Settings

REVISED = {"agents": {"one": {"prompt": "{{ task.prompt }}", "revise": "Again."}}, "turns": 2}


class Slow(Talker):
    """Needs the same time for a batch as for one request."""

    batching: Batching = "static"

    def __init__(self, seconds: float = 0.1, **named: Any) -> None:
        super().__init__(**named)
        self.batches: list[int] = []
        self._seconds = seconds

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        self.batches.append(len(requests))
        actions = await super().generate(requests, progress)
        await asyncio.sleep(self._seconds)
        return actions


async def ask_all(server: Server, texts: Sequence[str], **more: Any) -> list[httpx.Response]:
    async with httpx.AsyncClient(base_url=server.url, timeout=600) as client:
        bodies = [{"messages": [{"role": "user", "content": text}], **more} for text in texts]
        return await asyncio.gather(*(client.post(CHAT, json=body) for body in bodies))


def test_fifty_concurrent_requests_share_a_few_batches() -> None:
    model, texts = Slow(), [f"No. {number}" for number in range(50)]
    with Server(recipe(DUO), model=model) as server:
        answers = asyncio.run(ask_all(server, texts, model="duo"))
    assert [answer.status_code for answer in answers] == [200] * 50
    for text, answer in zip(texts, answers, strict=True):
        assert text in answer.json()["choices"][0]["message"]["content"]
    assert sum(model.batches) == 100, "two agents"
    assert len(model.batches) <= 12


def test_each_stream_receives_only_its_own_words() -> None:
    model, texts = Slow(), [f"No. {number}" for number in range(5)]
    with Server(recipe(SOLO), model=model) as server:
        answers = asyncio.run(ask_all(server, texts, model="solo", stream=True))
    for text, answer in zip(texts, answers, strict=True):
        events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        deltas = [json.loads(event)["choices"][0]["delta"] for event in events]
        assert (
            "".join(delta.get("content") or "" for delta in deltas).strip() == f"one says: {text}"
        )
    assert len(model.batches) <= 4


def test_second_turns_are_one_batch_too() -> None:
    model = Slow()
    team = {"name": "revised", "protocol": "single", "feedback": ["self"], **REVISED}
    with Server(recipe(team), model=model) as server:
        answers = asyncio.run(ask_all(server, [f"No. {n}" for n in range(8)], model="revised"))
    assert {answer.status_code for answer in answers} == {200}
    assert sum(model.batches) == 16
    assert len(model.batches) <= 5


def test_client_leaving_a_batch_does_not_affect_the_others() -> None:
    model = Slow(seconds=0.5, holding=True)

    async def one_leaves(server: Server) -> list[int]:
        async with httpx.AsyncClient(base_url=server.url, timeout=20) as client:

            async def ask(text: str) -> httpx.Response:
                user = {"role": "user", "content": text}
                return await client.post(CHAT, json={"model": "solo", "messages": [user]})

            first = asyncio.create_task(ask("first"))
            await wait_until(lambda: model.batches == [1])
            leaves, stays = asyncio.create_task(ask("a")), asyncio.create_task(ask("b"))
            await wait_until(lambda: server.queue.running == 3)
            model.go()
            await wait_until(lambda: model.batches == [1, 2])
            leaves.cancel()
            return [(await answer).status_code for answer in (first, stays)]

    with Server(recipe(SOLO), model=model) as server:
        assert asyncio.run(one_leaves(server)) == [200, 200]
    assert model.cancelled == 0


async def wait_until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.01)


def test_a_batch_that_nobody_waits_for_is_cancelled() -> None:
    model = Slow(holding=True)
    with Server(recipe(DUO), model=model) as server:
        for _ in range(2):  # the model is free for the next batch
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(
                    f"{server.url}{CHAT}",
                    json={"model": "duo", "messages": [{"role": "user", "content": "x"}]},
                    timeout=0.3,
                )
        asyncio.run(wait_until(lambda: model.cancelled == 2))
    assert (model.cancelled, model.under_way, model.batches) == (2, 0, [2, 2])


def test_failed_batch_fails_its_requests_but_not_the_next_batch() -> None:
    class Breaks(Slow):
        async def generate(self, requests: Any, progress: Any = None) -> list[Action]:
            actions = await super().generate(requests, progress)
            return actions[1:] if len(self.batches) == 1 else actions

    with Server(recipe(SOLO), model=Breaks()) as server:
        broken = asyncio.run(ask_all(server, "abc", model="solo"))
        working = asyncio.run(ask_all(server, "abc", model="solo"))
    assert {answer.json()["error"]["code"] for answer in broken} == {"ModelError"}
    assert {answer.status_code for answer in working} == {200}


def test_defaults_match_those_of_a_run() -> None:
    with Server(recipe(SOLO, concurrency=7), model=Slow()) as server:
        assert server.queue.places == 7 + Settings().queue
