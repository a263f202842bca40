"""Sampling of tokens: the distribution follows the settings, and log-probs match it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from collab.models.local.batching import pack
from collab.models.local.sampling import BLOCK_SIZE, NUCLEUS_WIDTH, _inverse_cdf, draw, settings_of
from collab.records import Sampling

CPU = torch.device("cpu")
LOGITS = [2.0, 1.0, 0.5, -1.0, -3.0, 0.4]


def expected(sampling: Sampling, logits: list[float]) -> list[float]:
    """Compute the distribution after temperature, top_k and top_p in plain Python."""
    weights = [math.exp(x / sampling.temperature) for x in logits]
    order = sorted(range(len(logits)), key=lambda i: -weights[i])
    if sampling.top_k:
        order = order[: sampling.top_k]
    mass = sum(weights[i] for i in order)
    nucleus: list[int] = []
    for i in order:
        if sum(weights[j] for j in nucleus) / mass < sampling.top_p:
            nucleus.append(i)
    total = sum(weights[i] for i in nucleus)
    return [weights[i] / total if i in nucleus else 0.0 for i in range(len(logits))]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0),
        Sampling(temperature=0.6),
        Sampling(temperature=2.0, top_k=3),
        Sampling(temperature=1.0, top_p=0.8),
        Sampling(temperature=1.5, top_p=0.7, top_k=5),
        Sampling(temperature=1.0, top_p=0.05),
    ],
)
def test_tokens_follow_the_requested_distribution(sampling: Sampling) -> None:
    n = 4000
    prepared = settings_of([sampling] * n, range(n), len(LOGITS), CPU)
    tokens, logprobs = draw(torch.tensor([LOGITS] * n), prepared, step=0)
    wanted = expected(sampling, LOGITS)
    for token, logprob in zip(tokens.tolist(), logprobs.tolist(), strict=True):
        assert logprob == pytest.approx(math.log(wanted[token]), abs=1e-5)
    frequencies = torch.bincount(tokens, minlength=len(LOGITS)) / n
    assert frequencies.tolist() == pytest.approx(wanted, abs=0.03)


def test_greedy_takes_the_likeliest_token_and_its_plain_logprob() -> None:
    prepared = settings_of([Sampling(temperature=0.0, top_p=0.5)], [3], len(LOGITS), CPU)
    tokens, logprobs = draw(torch.tensor([LOGITS]), prepared, step=0)
    assert tokens.tolist() == [0]
    assert logprobs[0] == pytest.approx(torch.tensor(LOGITS).log_softmax(0)[0].item())


def test_a_wide_nucleus_is_found_beyond_the_first_candidates() -> None:
    size = 3 * NUCLEUS_WIDTH
    sampling = Sampling(temperature=1.0, top_p=0.9)
    prepared = settings_of([sampling] * 400, range(400), size, CPU)
    tokens, logprobs = draw(torch.zeros(400, size), prepared, step=0)
    assert len(set(tokens.tolist())) > 300
    assert logprobs.exp().mean() == pytest.approx(1 / (0.9 * size), rel=1e-3)


@pytest.mark.parametrize("width", [3, BLOCK_SIZE, 2 * BLOCK_SIZE, 5 * BLOCK_SIZE + 7])
def test_inverse_cdf_maps_each_interval_to_its_token(width: int) -> None:
    chance = torch.Generator().manual_seed(width)
    weights = torch.rand(width, generator=chance, dtype=torch.float64).round(decimals=1)
    weights[width // 2 : width // 2 + BLOCK_SIZE] = 0
    weights[0] = weights[-1] = 0
    weights[1] = 1
    line = weights.cumsum(0) / weights.sum()
    middles = (line + torch.cat([torch.zeros(1), line[:-1]])) / 2
    uniforms = torch.cat([torch.tensor([0.0, 1 - 2**-53]), middles[weights > 0]])
    tokens = _inverse_cdf(weights.float().expand(len(uniforms), -1), uniforms)
    places = weights.nonzero()[:, 0].tolist()
    assert tokens.tolist() == [places[0], places[-1], *places]


def test_rows_keep_their_random_numbers_when_others_leave() -> None:
    samplings = [Sampling(temperature=t, top_p=p) for t, p in [(1, 1), (0, 1), (2, 0.9), (1, 1)]]
    prepared = settings_of(samplings, [5, 6, 7, 8], len(LOGITS), CPU)
    logits = torch.tensor([LOGITS] * 4)
    tokens, logprobs = draw(logits, prepared, step=1)
    keep = [2, 3]
    fewer, their_logprobs = draw(logits[keep], prepared.select(keep), step=1)
    assert fewer.tolist() == tokens[keep].tolist()
    assert their_logprobs.tolist() == logprobs[keep].tolist()


SIZES = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), max_size=40)


@given(sizes=SIZES, budget=st.integers(256, 4000))
def test_batches_cover_all_requests_in_budget(sizes: list[tuple[int, int]], budget: int) -> None:
    batches = pack(sizes, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(sizes)))
    for batch in batches:
        width = max(sizes[i][0] for i in batch) + max(sizes[i][1] for i in batch)
        assert len(batch) == 1 or len(batch) * width <= budget


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0), Sampling(top_p=0.5)])
@pytest.mark.parametrize("width", [3, 2 * BLOCK_SIZE, 2 * BLOCK_SIZE + 7])
def test_bad_logits_give_no_finite_logprob(width: int, sampling: Sampling, value: float) -> None:
    prepared = settings_of([sampling] * 2, [1, 2], width, CPU)
    logits = torch.zeros(2, width)
    finite_tokens, _ = draw(logits, prepared, step=0)
    logits[1] = value
    tokens, logprobs = draw(logits, prepared, step=0)
    assert tokens[0] == finite_tokens[0]
    assert tokens[1] < width
    assert logprobs.isfinite().tolist() == [True, False]


def test_settings_are_exact_under_a_bfloat16_default_dtype() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)  # like transformers while it builds a model
    try:
        prepared = settings_of([Sampling(temperature=0.7, top_p=0.9)], [1], len(LOGITS), CPU)
    finally:
        torch.set_default_dtype(before)
    assert prepared.temperature.tolist() == pytest.approx([0.7], rel=1e-6)
    assert prepared.top_p.tolist() == pytest.approx([0.9], rel=1e-6)
