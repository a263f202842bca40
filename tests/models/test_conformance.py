"""The conformance suite on all our engines, and on one that breaks every rule."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import claude_server, openai_server
from support.claude_server import ClaudeServer
from support.openai_server import OpenAIServer

from collab.models import Capabilities, Progress, Request
from collab.models.base import Batching
from collab.models.conformance import CheckOutcome, conform
from collab.models.conformance.suite import CHECKS
from collab.models.fakes import EchoModel, ReplayModel, ScriptedModel
from collab.models.hosted.anthropic_engine import AnthropicEngine
from collab.models.hosted.openai_engine import OpenAIEngine
from collab.models.local.engine import TransformersEngine
from collab.models.open import open_model
from collab.recipe.hosted import AnthropicSpec, OpenAISpec
from collab.recipe.model import PluginSpec, TransformersSpec
from collab.records import Action, Decision, Episode, Turn, Usage

GENERATION = {"lengths", "stop", "context", "missing adapter"}


def verdicts_of(model: Any, *adapters: Path) -> dict[str, CheckOutcome]:
    async def go() -> list[CheckOutcome]:
        return [v async for v in conform(model, [str(adapter) for adapter in adapters])]

    verdicts = asyncio.run(go())
    assert [verdict.check for verdict in verdicts] == list(CHECKS)
    return {verdict.check: verdict for verdict in verdicts}


def outcomes(verdicts: dict[str, CheckOutcome], outcome: str) -> set[str]:
    return {name for name, verdict in verdicts.items() if verdict.outcome == outcome}


def assert_conforms(verdicts: dict[str, CheckOutcome], *, not_applicable: set[str]) -> None:
    assert not outcomes(verdicts, "failed"), [v for v in verdicts.values() if v.outcome == "failed"]
    assert outcomes(verdicts, "not applicable") == not_applicable


def test_transformers(tiny_engine: TransformersEngine, adapters: dict[str, Path]) -> None:
    verdicts = verdicts_of(tiny_engine, adapters["aux"], adapters["main"])
    assert_conforms(verdicts, not_applicable=set())


def test_transformers_without_the_fast_paths(tiny: Path, adapters: dict[str, Path]) -> None:
    engine = TransformersEngine(TransformersSpec(name=str(tiny), dtype="float32", fast=False))
    verdicts = verdicts_of(engine, adapters["aux"], adapters["main"])
    assert_conforms(verdicts, not_applicable=set())


@pytest.mark.slow
def test_transformers_with_the_real_small_model(smollm2_adapters: list[Path]) -> None:
    engine = TransformersEngine(TransformersSpec(name="smollm2-135m", device="cpu"))
    assert_conforms(verdicts_of(engine, *smollm2_adapters), not_applicable=set())


def test_a_server_of_chat_completions() -> None:
    with OpenAIServer(openai_server.talk()) as server:
        engine = OpenAIEngine(OpenAISpec(name="qwen", base_url=server.base_url))
        assert_conforms(verdicts_of(engine), not_applicable={"tokens", "seeds", "adapters"})


def test_server_that_returns_tokens() -> None:
    with OpenAIServer(openai_server.talk()) as server:
        engine = OpenAIEngine(OpenAISpec(name="qwen", base_url=server.base_url, tokens=True))
        assert_conforms(verdicts_of(engine), not_applicable={"seeds", "adapters"})


def test_claude(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    with ClaudeServer(claude_server.talk()) as server:
        engine = AnthropicEngine(AnthropicSpec(name="claude-test", base_url=server.url))
        assert_conforms(verdicts_of(engine), not_applicable={"tokens", "seeds", "adapters"})


def test_models_with_prepared_answers(tmp_path: Path) -> None:
    prepared = GENERATION | {"seeds", "adapters"}
    assert_conforms(verdicts_of(EchoModel()), not_applicable=prepared)
    assert_conforms(verdicts_of(ScriptedModel(["1, 2"] * 100)), not_applicable=prepared)
    episodes = "".join(recorded(number).model_dump_json() + "\n" for number in range(8))
    (tmp_path / "episodes.jsonl").write_text(episodes)
    assert_conforms(verdicts_of(ReplayModel(tmp_path)), not_applicable=prepared)


def recorded(sample: int) -> Episode:
    usage = Usage(prompt_tokens=2, new_tokens=3)
    action = Action(text="1, 2", token_ids=(1, 2, 3), usage=usage)
    turn = Turn(index=0, decisions=(Decision(agent="agent", observation=(), action=action),))
    return Episode(id=f"e{sample}", task="conformance/0", team="t", sample=sample, turns=(turn,))


def test_a_script_that_is_too_short_does_not_pass() -> None:
    verdicts = verdicts_of(ScriptedModel(["1, 2"] * 4))
    assert "batching" in outcomes(verdicts, "failed")
    assert "has run out" in verdicts["batching"].why


class Broken:
    """A third-party engine that claims every capability and has none."""

    name = "broken"
    batching: Batching = "continuous"
    capabilities = Capabilities(tokens=True, seeds=True, adapters=True)

    def __init__(self) -> None:
        self.answered = 0
        self.open = True

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        for count in (3, 2):
            if progress:
                progress(requests[0], count, "no")
        if any(request.sampling.max_new_tokens == 100 for request in requests):
            await self._sit_out()
        return [self._answer(request) for request in reversed(requests)]

    async def _sit_out(self) -> None:
        """Ignore cancellation."""
        until = time.monotonic() + 2.2
        while time.monotonic() < until:
            try:
                await asyncio.sleep(until - time.monotonic())
            except asyncio.CancelledError:
                continue

    def _answer(self, request: Request) -> Action:
        self.answered += 1
        text = f"answer {self.answered} of many, many words"
        prompt = len(request.messages[0].content)
        usage = Usage(prompt_tokens=prompt, new_tokens=2)
        return Action(text=text, token_ids=(self.answered,), logprobs=(0.5,), usage=usage)

    async def aclose(self) -> None:
        if not self.open:
            raise RuntimeError("closed already")
        self.open = False


def test_a_broken_engine_fails_every_check() -> None:
    verdicts = verdicts_of(Broken(), Path("a"), Path("b"))
    assert outcomes(verdicts, "failed") == set(CHECKS) - {"answering"}
    for check, words in {
        "batching": "counted as [89,",
        "streaming": "backwards: [3, 2]",
        "lengths": "'stop', not length",
        "stop": "continues past the stop string",
        "usage": "1 token_ids, 2 counted",
        "tokens": "prompt_ids are declared but missing",
        "seeds": "gave different answers",
        "adapters": "a was asked, None answered",
        "missing adapter": "is not there, and",
        "context": "was answered",
        "cancellation": "had not returned after 2 s",
        "closing": "closed already",
    }.items():
        assert words in verdicts[check].why, verdicts[check]


def test_the_engine_in_the_docs_conforms(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs" / "engines.md"
    _, _, rest = docs.read_text().partition("```python\n# engine.py\n")
    (tmp_path / "engine.py").write_text(rest.partition("```")[0])
    engine = open_model(PluginSpec(engine=f"{tmp_path / 'engine.py'}:counter"))
    assert_conforms(verdicts_of(engine), not_applicable={"tokens", "seeds", "adapters"})


def test_hanging_engine_does_not_block_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(EchoModel):
        async def generate(self, *_: Any, **__: Any) -> list[Action]:
            await asyncio.Event().wait()
            return []

    monkeypatch.setattr("collab.models.conformance.suite.CHECK_SECONDS", 0.05)
    verdicts = verdicts_of(Hanging())
    assert verdicts["answering"].why == "it did not end within 0.05 s"
    assert outcomes(verdicts, "failed") == {"answering"}
    assert outcomes(verdicts, "ok") == {"closing"}
    assert verdicts["batching"].why == "it does not answer"
