"""A prompt with several samples is read once; the answers match separate reads."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from collab.models import Call, Request
from collab.models.local.engine import TransformersEngine
from collab.models.local.fast.equivalence import supports_shared_prefix
from collab.records import Sampling

SHORT, LONG = (5, 6, 7), (9, 8, 7, 6, 5, 4)


def requests_of(prompts: list[tuple[int, ...]], adapters: list[str | None]) -> list[Request]:
    return [
        Request(
            call=Call(task="t", sample=n, turn=0, round=0, agent="a"),
            prompt_ids=prompt,
            sampling=Sampling(max_new_tokens=6),
            adapter=adapters[n % len(adapters)],
            seed=n,
        )
        for n, prompt in enumerate(prompts)
    ]


def prompt_tokens_read(engine: TransformersEngine, requests: list[Request]) -> tuple[int, Any]:
    """Return the number of prompt tokens read, including padding, and the actions."""
    supports_shared_prefix(engine.module)  # run its probe now, because it reads tokens too
    sizes: list[tuple[int, int]] = []
    embeddings = engine.module.get_input_embeddings()
    hook = embeddings.register_forward_pre_hook(lambda _, ids: sizes.append(tuple(ids[0].shape)))
    actions = asyncio.run(engine.generate(requests))
    hook.remove()
    return sum(rows * time for rows, time in sizes if time > 1), actions


@pytest.mark.parametrize("with_adapters", [False, True])
def test_a_prompt_is_read_once(
    tiny_engine: TransformersEngine, adapters: dict[str, Path], with_adapters: bool
) -> None:
    named: list[str | None] = [None]
    if with_adapters:
        named = [str(adapters["aux"]), None, str(adapters["main"])]
    requests = requests_of([SHORT, LONG, LONG] * 4, named)
    tokens, together = prompt_tokens_read(tiny_engine, requests)
    # Each distinct prompt, padded to the longest.
    assert tokens == (3 if with_adapters else 2) * len(LONG)
    for request, action in zip(requests, together, strict=True):
        (alone,) = asyncio.run(tiny_engine.generate([request]))
        assert action.token_ids == alone.token_ids
        assert action.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


@pytest.mark.parametrize("prompts", [[SHORT, LONG], [(5,), (5,), LONG]])
def test_distinct_prompts_share_nothing(
    tiny_engine: TransformersEngine, prompts: list[tuple[int, ...]]
) -> None:
    requests = requests_of(prompts, [None])
    tokens, together = prompt_tokens_read(tiny_engine, requests)
    assert tokens == len(set(prompts)) * len(LONG)
    alone = [asyncio.run(tiny_engine.generate([request]))[0] for request in requests]
    assert [a.token_ids for a in together] == [a.token_ids for a in alone]


@pytest.mark.parametrize("with_adapters", [False, True])
def test_common_beginnings_are_read_once(
    tiny_engine: TransformersEngine, adapters: dict[str, Path], with_adapters: bool
) -> None:
    """In a sequential team, a second agent's prompts differ only in the first one's answer."""
    one, other = tuple(range(5, 25)), tuple(range(25, 35))
    prompts = [(*one, 3), (*one, 4, 5), (*one, 4, 6, 7), (*other, 3), (*other, 4), (*one[:3], 30)]
    named: list[str | None] = [str(adapters["aux"]) if with_adapters else None]
    requests = requests_of(prompts, named)
    tokens, together = prompt_tokens_read(tiny_engine, requests)
    assert tokens == 3 * len(one) + 6 * 3
    for request, action in zip(requests, together, strict=True):
        (alone,) = asyncio.run(tiny_engine.generate([request]))
        assert action.token_ids == alone.token_ids
        assert action.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


def test_adapters_share_no_beginning(
    tiny_engine: TransformersEngine, adapters: dict[str, Path]
) -> None:
    prompts = [(*range(5, 15), token) for token in (3, 4)]
    requests = requests_of(prompts, [str(adapters["aux"]), str(adapters["main"])])
    tokens, together = prompt_tokens_read(tiny_engine, requests)
    assert tokens == 2 * 11
    alone = [asyncio.run(tiny_engine.generate([request]))[0] for request in requests]
    assert [a.token_ids for a in together] == [a.token_ids for a in alone]
