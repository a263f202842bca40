"""Every sampling setting reaches every engine and the trainer: none is silently ignored."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from collab.models import Call, Request
from collab.models.hosted.anthropic_engine import body_of
from collab.models.hosted.openai_engine import Dialect
from collab.models.local.sampling import settings_of
from collab.models.vllm.backend import GenerationRequest
from collab.recipe.hosted import OpenAISpec
from collab.recipe.model import ENGINES, SamplingSpec
from collab.records import Message, Sampling
from collab.trainers.learner.logprobs import token_settings

CHANGED: Mapping[str, Any] = {
    "temperature": 0.5, "top_p": 0.5, "top_k": 3, "max_new_tokens": 7, "stop": ("END",),
}  # fmt: skip
"""A value for each setting that is not the default."""


def request_with(sampling: Sampling) -> Request:
    call = Call(task="t/0", sample=0, turn=0, round=0, agent="a")
    messages = (Message(role="user", content="Hello."),)
    return Request(call=call, messages=messages, sampling=sampling, seed=1)


SENT: dict[str, Callable[[Sampling], object]] = {
    "openai": lambda s: Dialect(OpenAISpec(name="m")).body(request_with(s)),
    "openai with tokens": lambda s: Dialect(OpenAISpec(name="m", tokens=True)).body(
        request_with(s)
    ),
    "anthropic": lambda s: body_of("claude", request_with(s)),
    "vllm": lambda s: GenerationRequest([1], s, 1, [2], None, None).settings,
}
"""The request that each engine sends."""


def test_every_engine_with_settings_is_tested_here() -> None:
    fakes = {"echo", "scripted", "replay"}
    assert {name.partition(" ")[0] for name in SENT} == {*ENGINES} - fakes - {"transformers"}


def test_every_setting_of_a_recipe_is_recorded() -> None:
    assert set(SamplingSpec.model_fields) == set(Sampling.model_fields) == set(CHANGED)
    for name, field in SamplingSpec.model_fields.items():
        limits = [limit for limit in field.metadata if name != "stop"]
        assert limits == Sampling.model_fields[name].metadata


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("engine", SENT)
def test_engine_sends_every_setting(engine: str, name: str) -> None:
    send = SENT[engine]
    assert send(Sampling(**{name: CHANGED[name]})) != send(Sampling())


@pytest.mark.parametrize("name", sorted({*CHANGED} - {"max_new_tokens", "stop"}))
def test_local_model_and_trainer_read_every_setting_of_the_distribution(name: str) -> None:
    changed = Sampling(**{name: CHANGED[name]})
    assert token_settings(changed, 100) != token_settings(Sampling(), 100)
    one, other = (
        settings_of([sampling], [1], 100, torch.device("cpu")) for sampling in (changed, Sampling())
    )
    assert any(
        not torch.equal(value, getattr(other, field))
        for field, value in vars(one).items()
        if isinstance(value, torch.Tensor) and value.shape == (1,) and "rows" not in field
    )
