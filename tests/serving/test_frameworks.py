"""A served team used by the Agents SDK and LangChain, if installed."""

import asyncio
from importlib import import_module
from typing import Any

import pytest
from support.served import DUO, Server, recipe

ANSWER = "aux says: Help with: A post.\n\nmain says: Answer: A post.\n"


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_the_agents_sdk(api: str) -> None:
    pytest.importorskip("agents.run", reason="needs openai-agents")  # tests/agents also exists
    agents = import_module("agents")
    openai = pytest.importorskip("openai", reason="needs openai")
    agents.set_tracing_disabled(True)

    async def ask(url: str) -> tuple[Any, Any, list[str]]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
            model = {
                "responses": agents.OpenAIResponsesModel,
                "chat": agents.OpenAIChatCompletionsModel,
            }[api](model="duo", openai_client=client)
            caller = agents.Agent(name="caller", model=model)
            plain = await agents.Runner.run(caller, "A post.")
            streamed = agents.Runner.run_streamed(caller, "A post.")
            kinds = [event.type async for event in streamed.stream_events()]
        return plain, streamed, kinds

    with Server(recipe(DUO)) as server:
        plain, streamed, kinds = asyncio.run(ask(server.url))
    assert plain.final_output == streamed.final_output == ANSWER
    assert kinds.count("raw_response_event") > 3
    assert plain.new_items[0].type == "reasoning_item"


@pytest.mark.parametrize("responses", [False, True])
def test_langchain(responses: bool) -> None:
    langchain = pytest.importorskip("langchain_openai", reason="needs langchain-openai")
    with Server(recipe(DUO)) as server:
        model = langchain.ChatOpenAI(
            base_url=f"{server.url}/v1", api_key="none", model="duo", use_responses_api=responses
        )
        plain = model.invoke("A post.")
        streamed = list(model.stream("A post."))
        with pytest.raises(Exception, match="a team answers in text"):
            model.invoke("A post.", response_format={"type": "json_object"})
    assert plain.text == "".join(chunk.text for chunk in streamed) == ANSWER
    assert plain.usage_metadata["total_tokens"] > 0
    if responses:
        names = [block["agent"]["agent_name"] for block in plain.content if "agent" in block]
        assert names == ["aux", "main"]
