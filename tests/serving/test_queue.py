"""Limits on running and waiting requests, shutdown, and clients that leave."""

import asyncio
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from support.served import CHAT, DUO, SOLO, Server, Talker, recipe

pytestmark = pytest.mark.slow


def body(text: str = "Hello.", **more: Any) -> dict[str, Any]:
    return {"model": "solo", "messages": [{"role": "user", "content": text}], **more}


def until(true: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.01)


def test_request_beyond_the_queue_is_refused_and_order_is_kept() -> None:
    talker = Talker(holding=True)
    with (
        Server(recipe(SOLO), model=talker, concurrency=1, queue=1) as server,
        ThreadPoolExecutor() as pool,
    ):
        first = pool.submit(server.ask, "first")
        until(lambda: server.queue.running == 1)
        second = pool.submit(server.ask, "second", stream=True)
        until(lambda: server.queue.waiting == 1)
        third = server.ask("third")
        assert third.status_code == 429
        assert third.json()["error"]["code"] == "rate_limit_exceeded"
        assert int(third.headers["retry-after"]) >= 1
        talker.go()
        assert (first.result().status_code, second.result().status_code) == (200, 200)
        until(lambda: server.queue.is_idle)
        assert [request.messages[0].content for request in talker.requests] == ["first", "second"]


@pytest.mark.parametrize("when", ["plain", "before the first word", "in the middle"])
def test_an_episode_ends_when_its_client_leaves(
    when: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "collab.serving")
    talker = Talker(holding=True, after=2 if when == "in the middle" else 0)
    with Server(recipe(DUO), model=talker, ping_seconds=60.0) as server:
        request = {**body(), "model": "duo", "stream": when != "plain"}

        async def leave() -> None:
            async with httpx.AsyncClient(base_url=server.url) as client:
                asking = asyncio.create_task(read(client))
                while talker.under_way < 2 or (when == "in the middle" and not received):
                    await asyncio.sleep(0.01)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

        async def read(client: httpx.AsyncClient) -> None:
            url = "/v1/chat/completions"
            async with client.stream("POST", url, json=request, timeout=20) as answer:
                async for line in answer.aiter_lines():
                    received.append(line)

        received: list[str] = []
        asyncio.run(asyncio.wait_for(leave(), 20))
        until(lambda: talker.under_way == 0, 2)
        assert talker.cancelled == 2
        until(lambda: server.queue.is_idle, 2)
    status = 200 if when == "in the middle" else 499  # middleware of a host needs a status
    assert f"POST {CHAT} {status} " in caplog.text


def test_client_leaving_the_queue_is_removed() -> None:
    talker = Talker(holding=True)
    with (
        Server(recipe(SOLO), model=talker, concurrency=1, queue=1) as server,
        ThreadPoolExecutor() as pool,
    ):
        first = pool.submit(server.ask)
        until(lambda: server.queue.running == 1)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/v1/chat/completions", json=body(), timeout=0.3)
        until(lambda: server.queue.waiting == 0)
        talker.go()
        assert first.result().status_code == 200
        assert len(talker.requests) == 1


def test_silent_stream_sends_keep_alive_comments() -> None:
    talker = Talker(holding=True)
    with (
        Server(recipe(SOLO), model=talker, ping_seconds=0.05) as server,
        httpx.stream(
            "POST", f"{server.url}/v1/chat/completions", json=body(stream=True), timeout=20
        ) as answer,
    ):
        lines = answer.iter_lines()
        received = [next(lines) for _ in range(6)]
        talker.go()
        rest = list(lines)
    assert json.loads(received[0].removeprefix("data: "))["choices"][0]["delta"]["role"]
    assert received[2] == received[4] == ": still working"
    assert rest[-2:] == ["data: [DONE]", ""]


def test_running_requests_finish_before_shutdown() -> None:
    talker = Talker(holding=True)
    with ThreadPoolExecutor() as pool:
        with Server(recipe(SOLO), model=talker, drain=20) as server:
            service = server.app.service  # type: ignore[union-attr]
            pending = pool.submit(server.ask)
            until(lambda: talker.under_way == 1)
            service.drain()
            refused = server.ask()
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert httpx.get(f"{server.url}/ready").status_code == 503
            assert httpx.get(f"{server.url}/health").status_code == 200
            talker.go()
            assert pending.result().status_code == 200
        assert talker.cancelled == 0


def test_slow_client_gets_the_end_of_its_answer_before_shutdown() -> None:
    """The answer is larger than the buffers of its connection."""
    with (
        Server(recipe(SOLO), model=Talker(fills=20_000_000), drain=20) as server,
        httpx.stream("POST", f"{server.url}{CHAT}", json=body(stream=True), timeout=20) as answer,
    ):
        until(lambda: server.queue.running == 0)
        server.app.service.drain()  # type: ignore[union-attr]
        time.sleep(0.5)
        assert answer.read().endswith(b"data: [DONE]\n\n")


def test_unfinished_request_is_canceled_at_shutdown_with_an_error() -> None:
    talker = Talker(holding=True)
    with ThreadPoolExecutor() as pool:
        with Server(recipe(SOLO), model=talker) as server:
            pending = pool.submit(server.ask)
            until(lambda: talker.under_way == 1)
        answer = pending.result()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_unavailable")
    assert (talker.cancelled, talker.under_way) == (1, 0)


def test_counters_use_the_prometheus_format() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    with Server(recipe(DUO)) as server:
        request = {**body(), "model": "duo", "stream": True}
        httpx.post(f"{server.url}/v1/chat/completions", json=request, timeout=20)
        httpx.post(f"{server.url}/v1/chat/completions", json={**body("x"), "n": 3, "model": "duo"})
        text = httpx.get(f"{server.url}/metrics").text
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["collab:request_success_total", "duo", "stop"] == 1
    assert samples["collab:prompt_tokens_total", "aux", "duo"] == 7
    assert samples["collab:episode_seconds_count", "duo"] == 1
    assert samples["collab:agent_seconds_count", "duo", "main"] == 1
    assert samples["collab:time_to_first_chunk_seconds_count", "duo"] == 1
    assert (samples["collab:requests_running",], samples["collab:requests_waiting",]) == (0, 0)
    assert "Hello" not in text


def samples_of(server: Server) -> dict[str, float]:
    """Request counters, by the start of their lines."""
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    rows = [line.removeprefix("collab:").rsplit(" ", 1) for line in lines if line[0] != "#"]
    return {name: float(value) for name, value in rows}


FIRST = 'time_to_first_chunk_seconds_%s{team="solo"}'


def test_time_to_first_chunk_includes_the_wait_and_ignores_pings() -> None:
    talker = Talker(holding=True)
    with (
        Server(recipe(SOLO), model=talker, ping_seconds=0.05, concurrency=1) as server,
        ThreadPoolExecutor() as pool,
    ):
        first = pool.submit(server.ask, "first", stream=True)
        until(lambda: server.queue.running == 1)
        second = pool.submit(server.ask, "second", stream=True)
        until(lambda: server.queue.waiting == 1)
        time.sleep(0.4)
        talker.go()
        assert ": still working" in first.result().text
        assert second.result().status_code == 200
        message = samples_of(server)
        assert message[FIRST % "count"] == 2, "a ping does not count as a chunk"
        assert message[FIRST % "sum"] >= 0.8, "both requests waited"


def test_many_concurrent_requests_leave_nothing_behind() -> None:
    with Server(recipe(DUO), concurrency=4, queue=64) as server, ThreadPoolExecutor(8) as pool:
        request = {**body(), "model": "duo", "stream": True}
        url = f"{server.url}/v1/chat/completions"
        with httpx.Client(timeout=60) as client:
            answers = list(pool.map(lambda _: client.post(url, json=request), range(40)))
        assert {answer.status_code for answer in answers} == {200}
        assert {answer.text.count("[DONE]") for answer in answers} == {1}
        until(lambda: server.queue.is_idle)
        assert server.model.under_way == 0


def unread(server: Server, **more: Any) -> socket.socket:
    """Connect a client that sends a request and never reads."""
    client = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
    sent = json.dumps(body(**more)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(sent)}\r\n"
    client.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + sent)
    return client


def test_client_that_does_not_read_does_not_block_others() -> None:
    talker = Talker(fills=4_000_000)
    with (
        Server(recipe(SOLO), model=talker, client_seconds=0.5, concurrency=1, queue=0) as server,
        unread(server),
    ):
        until(lambda: len(talker.requests) == 1 and server.queue.is_idle)
        assert server.ask().status_code == 200


def test_unread_answer_is_not_counted_as_a_success() -> None:
    talker = Talker(fills=4_000_000)
    with (
        Server(recipe(SOLO), model=talker, client_seconds=0.3) as server,
        unread(server, stream=True),
    ):
        failure = 'request_failure_total{team="solo",type="client left"}'
        until(lambda: failure in samples_of(server))
        samples = samples_of(server)
    assert samples[failure] == 1
    assert not [name for name in samples if name.startswith("request_success_total")]
