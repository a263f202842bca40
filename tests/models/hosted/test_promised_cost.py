"""What a request may cost is set aside before it is sent, whatever script its prompt is in."""

from __future__ import annotations

import asyncio

import pytest
from support.claude_server import ClaudeServer
from support.claude_server import answer as claude_answer
from support.openai_server import OpenAIServer
from support.openai_server import answer as openai_answer

from collab.models import Call, Request
from collab.models.hosted.anthropic_engine import AnthropicEngine
from collab.models.hosted.engine import HostedEngine
from collab.models.hosted.openai_engine import OpenAIEngine
from collab.recipe.hosted import AnthropicModel, OpenAIModel
from collab.records import Action, Message, Sampling

CHINESE = "\u6c49" * 8000
PROMPT, ANSWER = 3.0, 15.0
"""US dollars for a million tokens."""


def claude(server: ClaudeServer, limit: float) -> HostedEngine:
    return AnthropicEngine(
        AnthropicModel(
            name="c", base_url=server.url, cost_limit=limit, input_price=PROMPT, output_price=ANSWER
        )
    )


def openai(server: OpenAIServer, limit: float) -> HostedEngine:
    return OpenAIEngine(
        OpenAIModel(
            name="o",
            base_url=f"{server.url}/v1",
            cost_limit=limit,
            input_price=PROMPT,
            output_price=ANSWER,
        )
    )


def ask(engine: HostedEngine) -> Action:
    async def go() -> Action:
        [action] = await engine.generate(
            [
                Request(
                    call=Call(task="t/0", sample=0, turn=0, round=0, agent="main"),
                    messages=(Message(role="user", content=CHINESE),),
                    sampling=Sampling(max_new_tokens=10),
                )
            ]
        )
        await engine.aclose()
        return action

    return asyncio.run(go())


@pytest.mark.parametrize("service", ["anthropic", "openai"])
def test_a_character_may_be_a_token(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And may be written to Claude's cache, which costs a quarter more."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-a")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-o")
    dearer = 1.25 if service == "anthropic" else 1.0
    most = (8000 * PROMPT * dearer + 10 * ANSWER) / 1e6

    def told(limit: float) -> Action:
        if service == "anthropic":
            with ClaudeServer(claude_answer("x")) as claude_server:
                return ask(claude(claude_server, limit))
        with OpenAIServer(openai_answer("x")) as openai_server:
            return ask(openai(openai_server, limit))

    refused = told(most - 1e-4).failure
    assert refused is not None
    assert refused.type == "BudgetExceeded"
    assert told(most + 1e-4).failure is None
