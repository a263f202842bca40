"""vLLM's log-probs refer to the distribution that the tokens were sampled from."""

import asyncio
from pathlib import Path

import torch
from support.vllm_servers.twin import VLLMTwin
from transformers import AutoModelForCausalLM

from collab.models import Call, Request
from collab.models.open import open_model
from collab.recipe.model import VLLMSpec
from collab.records import Action, Sampling

NOISE = 1e-4
"""Difference, in nats, between a padded batch and a single row."""
WHOLE = Sampling(max_new_tokens=24)
SETTINGS = [
    WHOLE,
    WHOLE.model_copy(update={"temperature": 0.7, "top_p": 0.6}),
    WHOLE.model_copy(update={"top_k": 3}),
    WHOLE.model_copy(update={"temperature": 1.5, "top_p": 0.8, "top_k": 5}),
]


def sampled(tiny: Path) -> list[Action]:
    async def ask() -> list[Action]:
        with VLLMTwin(tiny) as server:
            engine = open_model(VLLMSpec(name=str(tiny), servers=(server.url,), seeds=True))
            try:
                return await engine.generate([request(s, n) for n, s in enumerate(SETTINGS)])
            finally:
                await engine.aclose()

    return asyncio.run(ask())


def request(sampling: Sampling, seed: int) -> Request:
    call = Call(task="t/0", sample=seed, turn=0, round=0, agent="a")
    return Request(call=call, prompt_ids=(1, 2, 3), sampling=sampling, seed=seed)


def test_logprobs_match_the_truncated_distribution(tiny: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    for sampling, action in zip(SETTINGS, sampled(tiny), strict=True):
        assert action.failure is None
        ids = torch.tensor([[*action.prompt_ids, *action.token_ids]])
        with torch.no_grad():
            logits = model(ids).logits[0, len(action.prompt_ids) - 1 : -1]
        token_ids = torch.tensor(action.token_ids)[:, None]
        found = torch.tensor(action.logprobs)
        expected = truncated(logits, sampling).log_softmax(-1).gather(1, token_ids)[:, 0]
        assert (found - expected).abs().max() < NOISE
        full = (logits / sampling.temperature).log_softmax(-1).gather(1, token_ids)[:, 0]
        assert ((found - full).abs().max() > 0.1) == (sampling != WHOLE)


def truncated(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Follow vLLM's documentation: temperature, then top_k, then top_p."""
    scaled = logits / sampling.temperature  # [tokens, vocabulary]
    if sampling.top_k:
        least = scaled.topk(sampling.top_k).values[:, -1:]
        scaled = scaled.masked_fill(scaled < least, -torch.inf)
    ordered, index = scaled.sort(descending=True)
    before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
    beyond = (before >= sampling.top_p).scatter(1, index, before >= sampling.top_p)
    return scaled.masked_fill(beyond, -torch.inf)
