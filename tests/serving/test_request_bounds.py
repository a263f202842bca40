"""Requests that are too long or too slow are limited."""

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import httpx
import pytest
from support.served import CHAT, DUO, SOLO, Server, recipe


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(recipe(DUO), max_body=5000) as running:
        yield running


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as client:
        yield client


def test_body_size_is_limited_with_or_without_content_length(http: httpx.Client) -> None:
    long = {"role": "user", "content": "x" * 6000}
    text = http.post(CHAT, json={"model": "duo", "messages": [long]})
    assert (text.status_code, text.json()["error"]["code"]) == (413, "request_too_large")

    def pieces() -> Iterator[bytes]:
        yield from [b" " * 1000] * 8

    kind = {"content-type": "application/json"}
    answer = http.post(CHAT, content=pieces(), headers=kind)
    assert answer.status_code == 413


@pytest.mark.parametrize("size", [6_000, 1_500_000, 8_000_000])
def test_every_client_receives_the_too_large_response(server: Server, size: int) -> None:
    """The first client keeps its connection and reads early answers; the second does neither."""
    url, body, kind = f"{server.url}{CHAT}", b" " * size, {"content-type": "application/json"}
    with httpx.Client() as client:
        with_keep_alive = [
            client.post(url, content=body, headers=kind).status_code for _ in range(33)
        ]
    without_keep_alive = []
    for _ in range(34):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(url, body, kind))
        without_keep_alive.append(caught.value.code)
        caught.value.close()
    assert {*with_keep_alive, *without_keep_alive} == {413}


def test_headers_are_bounded(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 70_000)
        client.settimeout(10)
        assert b" 400 " in client.recv(100)


def test_slow_request_body_times_out() -> None:
    with Server(recipe(SOLO), client_seconds=0.3) as server:
        place = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        with socket.create_connection(place) as client:
            client.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 90\r\n"
                b"content-type: application/json\r\n\r\n{"
            )
            client.settimeout(10)
            began = time.monotonic()
            assert b" 408 " in client.recv(100)
            assert time.monotonic() - began < 8
