"""Every refusal states its real cause, and requests that are too long or slow are limited."""

import gzip
import json
import logging
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.served import CHAT, DUO, SOLO, Server, error, recipe

import collab
import collab.serving
from collab.errors import RecipeError

USER = {"role": "user", "content": "Hello."}
KEY = "a-key-of-this-server"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(recipe(DUO), recipe(SOLO), keys=(KEY, "another-key"), max_body=5000) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=server.url, headers=headers) as client:
        yield client


def chat(http: httpx.Client, **body: Any) -> httpx.Response:
    return http.post("/v1/chat/completions", json={"model": "duo", "messages": [USER], **body})


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tools": [{}], "tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"functions": [{}], "function_call": {"name": "f"}}, "function_call"),
        ({"store": True}, "store"),
        ({"background": True}, "background"),
        ({"previous_response_id": "r"}, "previous_response_id"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"messages": []}, "messages"),
        ({"messages": "Hello."}, "messages"),
        ({"messages": [{"role": "tool", "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": "oracle", "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages"),
        ({"messages": [USER, {"role": "assistant", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "9"}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"seed": -1}, "seed"),
        ({"stream": "yes"}, "stream"),
        ({"collab": {"fields": {"x": {"y": 1}}}}, "collab.fields.x"),
        ({"collab": {"feilds": {}}}, "collab.feilds"),
    ],
)
def test_unsupported_values_name_their_parameter(
    http: httpx.Client, body: dict[str, Any], param: str
) -> None:
    answer = chat(http, **body)
    assert (answer.status_code, error(answer)[2]) == (400, param)
    assert param in answer.json()["error"]["message"]


def test_images_are_refused_and_text_parts_are_joined(http: httpx.Client) -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo."}]
    assert chat(http, messages=[{"role": "user", "content": parts}]).status_code == 200
    image = [*parts, {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]
    refused = chat(http, messages=[{"role": "user", "content": image}])
    assert error(refused) == (400, "unsupported_value", "messages[0].content[2].type")


@pytest.mark.parametrize("model", ["nobody", "../../etc/passwd", "/etc/passwd", "duo/../solo", ""])
def test_model_is_a_name_and_not_a_path(http: httpx.Client, model: str) -> None:
    answer = chat(http, model=model)
    assert error(answer) == (404, "model_not_found", "model")
    assert "duo, solo" in answer.text
    assert "passwd" not in answer.text
    assert http.get("/v1/models/..%2f..%2fetc%2fpasswd").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"null", b"{", b'"text"', b"\xff\xfe", b"[" * 4000, b'{"a":' * 900,
        b'{"model":"duo","messages":[{"role":"user","content":"\\ud800"}]}', b"9" * 4500,
    ],
)  # fmt: skip
def test_malformed_bodies_are_refused(http: httpx.Client, body: bytes) -> None:
    kind = {"content-type": "application/json"}
    answer = http.post("/v1/chat/completions", content=body, headers=kind)
    assert error(answer)[0] == 400


def test_only_json_is_accepted_to_prevent_cross_site_requests(http: httpx.Client) -> None:
    answer = http.post(
        "/v1/chat/completions", content=b"{}", headers={"content-type": "text/plain"}
    )
    assert error(answer)[0] == 415


def test_a_compressed_body_is_refused_with_its_header(http: httpx.Client) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = http.post("/v1/chat/completions", content=gzip.compress(b"{}"), headers=headers)
    assert error(answer)[0] == 415
    assert "content-encoding" in answer.json()["error"]["message"]
    plain = {**headers, "content-encoding": "identity"}
    assert error(http.post("/v1/chat/completions", content=b"{}", headers=plain))[0] == 400


def test_tool_messages_are_refused_with_a_remedy(http: httpx.Client) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    answer = chat(http, messages=[USER, call, {"role": "tool", "content": "5"}])
    assert "put the results of tools into the user's message" in answer.json()["error"]["message"]
    answer = http.post("/v1/responses", json={"input": [{"type": "reasonin", "content": "5"}]})
    assert "reasoning" in answer.json()["error"]["message"]
    assert "results of tools" not in answer.json()["error"]["message"]


def test_a_page_of_another_origin_is_refused(http: httpx.Client) -> None:
    answer = http.get("/v1/models", headers={"origin": "https://evil.example"})
    assert error(answer)[:2] == (403, "wrong_origin")


def test_unknown_paths_and_methods_are_refused(http: httpx.Client) -> None:
    unknown = http.get("/v1/files")
    assert error(unknown)[:2] == (404, "not_found")
    assert "/v1/chat/completions" in unknown.json()["error"]["message"]
    wrong = http.get("/v1/chat/completions")
    assert error(wrong)[0] == 405
    assert wrong.json()["error"]["message"] == "this path takes POST only"


PATHS = ["/ready", "/metrics", "/v1/models", "/v1/models/duo", "/v1/chat/completions", "/v1/x"]


@pytest.mark.parametrize("path", PATHS)
def test_every_path_asks_for_the_key(server: Server, path: str) -> None:
    with httpx.Client(base_url=server.url) as client:
        for sent in (None, "Bearer wrong", f"Basic {KEY}", f"Bearer {KEY}x", "Bearer"):
            answer = client.get(path, headers={"authorization": sent} if sent else {})
            assert error(answer)[:2] == (401, "invalid_api_key"), sent
            assert answer.headers["www-authenticate"] == "Bearer"


def test_health_needs_no_key_and_any_configured_key_works(server: Server) -> None:
    import openai

    assert httpx.get(f"{server.url}/health").json() == {"status": "ok"}
    for key in (KEY, "another-key"):
        with server.client(key) as client:
            assert len(list(client.models.list())) == 2
    with server.client("wrong") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    from starlette.datastructures import Headers

    from collab.serving import guard

    keys = []
    compare = hmac.compare_digest

    def watched(given: bytes, key: bytes) -> bool:
        keys.append(key)
        return compare(given, key)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    assert guard._has_valid_key(Headers({"authorization": "bearer one"}), ("one", "two"))
    assert keys == [b"one", b"two"], "all keys are compared, even after a match"


def test_settings_repr_hides_the_keys() -> None:
    from collab.serving.settings import Settings

    assert KEY not in repr(Settings(keys=(KEY,)))


def test_a_key_may_be_given_as_text() -> None:
    from collab.serving.settings import Settings

    settings: Any = {"keys": KEY, "hosts": "localhost", "origins": "https://example.org"}
    made = Settings(**settings)
    assert (made.keys, made.hosts) == ((KEY,), ("localhost",))
    assert made.origins == ("https://example.org",)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("keys", ("",), "an API key is empty"),
        ("concurrency", 0, "concurrency: must be at least 1, got 0"),
        ("seconds", 0, r"seconds: must be at least 0\.001, got 0"),
        ("history", "joined", "history: must be 'refuse' or 'join', got 'joined'"),
        ("key", KEY, "unknown key 'key'; did you mean 'keys'"),
    ],
)
def test_a_setting_out_of_range_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        collab.serving.app("tldr", **{name: value})


def test_server_without_keys_answers_only_to_local_host_names() -> None:
    with Server(recipe(SOLO), hosts=("localhost", "127.0.0.1", "::1")) as server:
        for host, status in [("localhost:1", 200), ("[::1]:80", 200), ("evil.example", 421)]:
            answer = httpx.get(f"{server.url}/v1/models", headers={"host": host})
            assert answer.status_code == status, host


def test_log_entry_is_one_line_without_the_body(
    http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "collab.serving"):
        answer = chat(http, messages=[{"role": "user", "content": "my secret"}])
        http.get("/v1/%0aINJECTED%1b", headers={"x-request-id": "a b"})
        named = http.get("/v1/models", headers={"x-request-id": "mine-1"})
    lines = [record.getMessage() for record in caplog.records if record.name == "collab.serving"]
    [line] = [line for line in lines if line.endswith(answer.headers["x-request-id"])]
    assert line.startswith("POST /v1/chat/completions 200 ")
    assert named.headers["x-request-id"] == "mine-1"
    assert not any("\n" in line or "\x1b" in line or "a b" in line for line in lines)
    assert not any("secret" in line or KEY in line for line in lines)


def test_internal_error_is_logged_with_its_source_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("collab.serving.team.transcript", lambda *_: json.loads("not JSON"))
    talk = [USER, {"role": "assistant", "content": "x"}, USER]
    with Server(recipe(SOLO), history="join") as running:
        body = {"model": "solo", "messages": talk}
        answer = httpx.post(f"{running.url}/v1/chat/completions", json=body)
    assert error(answer)[:2] == (500, "internal_error")
    [line] = [record.getMessage() for record in caplog.records if "defect" in record.getMessage()]
    assert "defect JSONDecodeError at team.py:" in line


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEYS = [
    "input", "text", "model", "messages", "stream", "seed", "n", "tools", "collab", "max_tokens",
    "user", "stop",
]  # fmt: skip


@given(
    path=st.sampled_from(["chat/completions", "responses"]),
    body=JSON | st.dictionaries(st.sampled_from(KEYS), JSON),
)
def test_no_json_brings_the_server_down(http: httpx.Client, path: str, body: Any) -> None:
    reason = json.dumps({"model": "duo", **body} if isinstance(body, dict) else body)
    kind = {"content-type": "application/json"}
    answer = http.post(f"/v1/{path}", content=reason, headers=kind)
    if path == "responses" and isinstance(body, dict) and isinstance(body.get("input"), str):
        assert answer.status_code < 500  # it may be a valid request
        return
    assert 400 <= answer.status_code < 500, answer.text
    assert "Traceback" not in answer.text
    assert str(Path(collab.__file__).parent) not in answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def open_server() -> Iterator[Server]:
    with Server(recipe(DUO), max_body=5000) as running:
        yield running


@pytest.fixture
def open_http(open_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=open_server.url) as client:
        yield client


def test_body_size_is_limited_with_or_without_content_length(open_http: httpx.Client) -> None:
    long = {"role": "user", "content": "x" * 6000}
    text = open_http.post(CHAT, json={"model": "duo", "messages": [long]})
    assert (text.status_code, text.json()["error"]["code"]) == (413, "request_too_large")

    def pieces() -> Iterator[bytes]:
        yield from [b" " * 1000] * 8

    kind = {"content-type": "application/json"}
    answer = open_http.post(CHAT, content=pieces(), headers=kind)
    assert answer.status_code == 413


@pytest.mark.parametrize("size", [6_000, 1_500_000, 8_000_000])
def test_every_client_receives_the_too_large_response(open_server: Server, size: int) -> None:
    """The first client keeps its connection and reads early answers; the second does neither."""
    url, body, kind = f"{open_server.url}{CHAT}", b" " * size, {"content-type": "application/json"}
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


def test_headers_are_bounded(open_server: Server) -> None:
    with socket.create_connection(("127.0.0.1", int(open_server.url.rpartition(":")[2]))) as client:
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
