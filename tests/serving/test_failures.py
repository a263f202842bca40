"""Failures in an episode are reported to the client with their real cause."""

import json
from typing import Any

import httpx
import pytest
from support.openai_server import OpenAIServer
from support.served import DUO, SOLO, Server, Talker, error, recipe
from support.service import status as answer_status

from collab.models.hosted.openai_engine import OpenAIEngine
from collab.recipe.hosted import OpenAISpec

USER = {"role": "user", "content": "Hello."}


@pytest.mark.parametrize(
    ("fails", "status", "reason"),
    [
        ("ContextOverflow", 400, "context_length_exceeded"),
        ("ModelUnavailable", 503, "engine_unavailable"),
        ("ModelTimeout", 504, "timeout"),
        ("ModelDenied", 422, "ModelDenied"),
        ("ModelRefused", 422, "ModelRefused"),
    ],
)
def test_episode_failures_have_matching_status_codes(fails: str, status: int, reason: str) -> None:
    with Server(recipe(DUO), model=Talker(fails=fails)) as server:
        for stream in (False, True):
            answer = server.ask(model="duo", stream=stream)
            assert error(answer)[:2] == (status, reason)
            assert "secret" not in answer.text
            assert ("--record" in answer.text) == (reason == "ModelRefused")
            assert ("retry-after" in answer.headers) == (status == 503)


@pytest.mark.parametrize(
    ("fails", "requests"),
    [
        ("ModelDenied", 1),
        ("ModelRefused", 1),
        ("AgentError", 1),
        ("ModelTimeout", 1),
        ("ModelUnavailable", 2),
    ],
)
def test_only_failures_that_may_pass_are_repeated_by_clients(
    fails: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openai

    monkeypatch.setattr("collab.serving.refusal.RETRY_SECONDS", 0)

    talker = Talker(fails=fails)
    with Server(recipe(SOLO), model=talker) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=1)
        parameters: Any = {"model": "solo", "messages": [USER]}
        with client, pytest.raises(openai.APIStatusError):
            client.chat.completions.create(**parameters)
    assert len(talker.requests) == requests


@pytest.mark.parametrize(
    ("code", "kind", "status", "logged"),
    [
        (401, "invalid_api_key", 422, "401 invalid_api_key; check OPENAI_API_KEY"),
        (429, "insufficient_quota", 422, "429 insufficient_quota; check the account"),
        (
            404,
            "model_not_found",
            422,
            "404 model_not_found; check the model's name and the address",
        ),
        (503, "overloaded", 503, "503 overloaded"),
        (400, "Hello. is not allowed", 422, "400"),
    ],
)
def test_log_names_the_cause_but_no_texts(
    code: int,
    kind: str,
    status: int,
    logged: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with OpenAIServer(answer_status(code, kind, "bad sk-k***: Hello.")) as upstream:
        spec = OpenAISpec(name="qwen", base_url=upstream.base_url, retries=0)
        with Server(recipe(SOLO), model=OpenAIEngine(spec)) as server:
            answer = server.ask()
            address = upstream.base_url.removeprefix("http://").removesuffix("/v1")
    assert answer.status_code == status
    assert f"(openai:qwen at {address}: {logged}), request " in caplog.text
    for text in ("sk-k", "Hello"):
        assert text not in caplog.text + answer.text


def test_episode_beyond_the_time_limit_times_out() -> None:
    talker = Talker(holding=True)
    with Server(recipe(SOLO), model=talker, seconds=0.3) as server:
        assert error(server.ask())[:2] == (504, "timeout")
        assert (talker.cancelled, talker.under_way) == (1, 0)


class Corrected(Talker):
    """Records another text than it streams."""

    async def generate(self, requests: Any, progress: Any = None) -> Any:
        actions = await super().generate(requests, progress)
        return [action.model_copy(update={"text": "Something else."}) for action in actions]


def test_streamed_reasoning_that_differs_from_the_record_is_warned_about() -> None:
    with Server(recipe(DUO), model=Corrected()) as server:
        text = server.ask(model="duo", stream=True).text
    events = [line.removeprefix("data: ") for line in text.splitlines() if "warnings" in line]
    [warning] = json.loads(events[-1])["collab"]["warnings"]
    assert "streamed text of aux differs from" in warning


@pytest.mark.parametrize("path", ["chat/completions", "responses"])
def test_streamed_answer_that_differs_from_the_record_fails(path: str) -> None:
    body = {"model": "solo", "messages": [USER], "input": "Hello.", "stream": True}
    del body["input" if path.startswith("chat") else "messages"]
    with Server(recipe(SOLO), model=Corrected()) as server:
        text = httpx.post(f"{server.url}/v1/{path}", json=body, timeout=20).text
    last = json.loads(text.strip().split("data: ")[-1])
    assert last["error"]["code"] == "stream_differs"


def test_error_after_the_stream_began_ends_the_stream() -> None:
    import openai

    with (
        Server(recipe(SOLO), model=Talker(after=1, holding=True), seconds=0.5) as server,
        server.client() as client,
    ):
        parameters: Any = {"model": "solo", "messages": [USER], "stream": True}
        chunks = client.chat.completions.create(**parameters)
        received = [next(chunks).choices[0].delta.content for _ in range(2)]
        with pytest.raises(openai.APIError, match="no answer within") as caught:
            next(chunks)
        assert received == ["", "one"]
        assert caught.value.code == "timeout"
