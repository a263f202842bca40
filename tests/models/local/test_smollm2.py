"""The real default model: it answers sensibly, in one batch, and stops quickly."""

import asyncio
import time
from typing import Any

import pytest

from collab.models import Call, Request
from collab.models.local.engine import TransformersEngine
from collab.records import Action, Message, Sampling


def request_of(number: int, text: str, **sampling: Any) -> Request:
    return Request(
        call=Call(task="t", sample=number, turn=0, round=0, agent="main"),
        messages=(Message(role="user", content=text),),
        sampling=Sampling(**sampling),
        seed=number,
    )


def ask(engine: TransformersEngine, requests: list[Request]) -> list[Action]:
    return asyncio.run(engine.generate(requests))


def test_default_model_answers_and_ends_its_turn(smollm2: TransformersEngine) -> None:
    text = "What is the capital of France? Answer in one word."
    sampling = {"temperature": 0.0, "max_new_tokens": 24}
    first, again = ask(smollm2, [request_of(0, text, **sampling)] * 2)
    assert "Paris" in first.text
    assert "<|im_end|>" not in first.text
    assert first.finish_reason == "stop"
    assert first.token_ids[-1] == smollm2.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert first.token_ids == again.token_ids


def test_digits_are_tokenized_one_by_one(smollm2: TransformersEngine) -> None:
    pieces = smollm2.tokenizer.tokenize("if x:\n    12345\n")
    assert pieces == ["if", "Ġx", ":", "ĊĠĠĠĠ", "1", "2", "3", "4", "5", "Ċ"]


@pytest.mark.parametrize("prompt_words", [10, 900])
def test_cancelling_takes_effect_within_two_seconds(
    smollm2: TransformersEngine, prompt_words: int
) -> None:
    """Cancel between tokens, and while long prompts are read."""

    async def go() -> tuple[int, float]:
        text = "word " * prompt_words
        requests = [request_of(n, text, max_new_tokens=200) for n in range(24)]
        task = asyncio.create_task(smollm2.generate(requests))
        ticks = 0
        for _ in range(10):
            await asyncio.sleep(0.1)
            ticks += 1
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ticks, time.monotonic() - started

    ticks, seconds = asyncio.run(go())
    assert ticks == 10
    assert seconds < 2
