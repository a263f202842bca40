"""Log-probabilities of response tokens, chunk by chunk."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from support.naive.held import Held
from support.tiny_models import tiny
from torch import Tensor

from collab.models.local.dimensions import dimensions_of
from collab.records import Sampling
from collab.trainers.learner import logprobs
from collab.trainers.learner.device_sizes import logit_bytes
from collab.trainers.learner.logprobs import logits_of, response_logprobs, token_settings
from collab.trainers.learner.prefix_tree.packing import PackedSequence
from collab.trainers.learner.samples import Sample

CPU = torch.device("cpu")

SAMPLES = [
    Sample("a", (1, 2, 3), (4, 5, 6, 7), (0.0,) * 4, Sampling(temperature=0.7), 1.0, scale=1.0),
    Sample("a", (1, 2), (9, 8, 7), (0.0,) * 3, Sampling(top_k=40), 1.0, scale=1.0),
]
ROWS = [PackedSequence([s]) for s in SAMPLES]
WEIGHTS = torch.arange(1.0, 8.0, dtype=torch.float64)
"""A different weight per response token, so mixed-up gradients are noticed."""


@pytest.mark.parametrize("learns", ["all", "body"])
@pytest.mark.parametrize("tokens", [2, 100])
def test_chunked_gradient_matches_the_full_one(learns: str, tokens: int) -> None:
    model = tiny("llama").double()
    model.lm_head.requires_grad_(learns == "all")
    learned = [p for p in model.parameters() if p.requires_grad]
    ours = response_logprobs(model, ROWS, CPU, chunk=tokens).logprobs
    theirs = naive(model)
    torch.testing.assert_close(ours, theirs)
    found, exact = (
        torch.cat([g.flatten() for g in torch.autograd.grad((WEIGHTS * x).sum(), learned)])
        for x in (ours, theirs)
    )
    assert (found - exact).norm() <= 1e-6 * exact.norm()  # Llama always computes norms in float32


def naive(model: Any) -> Tensor:
    """Compute log-probs token by token."""
    found = []
    for sample in SAMPLES:
        for place, token in enumerate(sample.token_ids):
            ids = torch.tensor([[*sample.prompt_ids, *sample.token_ids[:place]]])
            states = model.base_model(input_ids=ids).last_hidden_state[0, -1]
            logits = logits_of(model, states) / sample.sampling.temperature
            if sample.sampling.top_k:
                least = logits.topk(sample.sampling.top_k).values[-1]
                left_out = (logits < least) & (torch.arange(len(logits)) != token)
                logits = logits.masked_fill(left_out, -torch.inf)
            found.append(logits.log_softmax(dim=-1)[token])
    return torch.stack(found)


def test_logits_of_a_frozen_head_are_computed_once() -> None:
    model = tiny("llama")
    calls = []
    model.lm_head.register_forward_hook(lambda *_: calls.append(1))
    for frozen, times in ((True, 1), (False, 2)):
        model.lm_head.requires_grad_(not frozen)
        calls.clear()
        response_logprobs(model, ROWS, CPU, chunk=2).logprobs.sum().backward()
        assert len(calls) == 4 * times  # seven tokens in chunks of two


@pytest.mark.parametrize("learns", ["all", "body"])
@pytest.mark.parametrize("way", [{}, {"temperature": 0.7}, {"top_p": 0.9}, {"top_k": 9}])
def test_plan_covers_the_logits_of_a_chunk(way: dict[str, Any], learns: str) -> None:
    """Measured like on a GPU, where no value is read on the host."""
    vocabulary, tokens = 4096, 1024
    model = tiny("llama")
    model.config.vocab_size = vocabulary
    model.lm_head = torch.nn.Linear(32, vocabulary, bias=False).requires_grad_(learns == "all")
    hidden = torch.randn(tokens, 32, requires_grad=True)
    per_token = [token_settings(Sampling(**way), vocabulary)] * tokens
    with pytest.MonkeyPatch.context() as patch, Held([*model.parameters(), hidden]) as held:
        patch.setattr(logprobs, "_reads_are_free", lambda _: False)
        scored = logprobs._score_chunks(model, hidden, torch.arange(tokens), per_token, tokens)
        scored.logprobs.sum().backward()
    planned = logit_bytes(dimensions_of(model.config, model.dtype.itemsize), tokens)
    assert 0.9 * planned < held.most < 1.02 * planned


def test_number_of_tokens_sorted_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("llama")
    ways: list[dict[str, Any]] = [
        {"top_p": 0.5}, {"top_k": 7}, {}, {"top_p": 0.9, "top_k": 12}, {"top_p": 0.7},
    ]  # fmt: skip
    samples = [replace(SAMPLES[0], sampling=Sampling(temperature=1.3, **way)) for way in ways]
    found = []
    for looks, tokens in ((True, 1), (True, 3), (True, 100), (False, 3), (False, 100)):
        monkeypatch.setattr(logprobs, "NUCLEUS_CHUNK_TOKENS", tokens)
        monkeypatch.setattr(logprobs, "_reads_are_free", lambda _, looks=looks: looks)
        found.append(response_logprobs(model, [PackedSequence([s]) for s in samples], CPU))
    for other in found[1:]:
        assert torch.equal(other.logprobs, found[0].logprobs)
        assert torch.equal(other.outside_support, found[0].outside_support)
