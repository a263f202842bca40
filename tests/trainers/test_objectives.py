"""Objectives per token and sampler corrections, on tokens with known ratios."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError

from collab.recipe import TrainerSpec
from collab.records import Sampling
from collab.trainers.learner.loss import token_loss
from collab.trainers.learner.samples import Sample

LENGTHS = (3, 1, 2)
WEIGHTS = (1.0, -2.0, 0.5)
LOGPROBS = (-0.5, -1.0, -2.0, -0.1, -0.7, -0.3)


def samples_with(sampler: tuple[float, ...], scale: float = 1.0) -> list[Sample]:
    found, first = [], 0
    for length, weight in zip(LENGTHS, WEIGHTS, strict=True):
        logprobs = sampler[first : first + length]
        found.append(Sample("a", (1,), tuple(range(length)), logprobs, Sampling(), weight, scale))
        first += length
    return found


def gradient(sampler: tuple[float, ...], **options: Any) -> list[float]:
    logprobs = torch.tensor(LOGPROBS, dtype=torch.float64, requires_grad=True)
    found = token_loss(logprobs, samples_with(sampler), TrainerSpec(**options))
    found.total.backward()
    assert logprobs.grad is not None
    return (-logprobs.grad).tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "ppo", "clip_ratio": 0.2},
        {"objective": "ppo", "clip_ratio": 0.2, "clip_ratio_high": 0.28},
        {"objective": "gspo", "clip_ratio": 0.0003},
        {"objective": "cispo", "clip_ratio_high": 4.0},
        {"importance_cap": 2.0},
        {"importance_band": (0.5, 5.0)},
        {"sequence_limit": 3.0},
    ],
)
def test_objectives_have_equal_gradients_on_policy(options: dict[str, Any]) -> None:
    plain = gradient(LOGPROBS)
    assert plain == pytest.approx([1.0, 1.0, 1.0, -2.0, 0.5, 0.5], abs=1e-12)
    assert gradient(LOGPROBS, **options) == pytest.approx(plain, abs=1e-12)


OFF = tuple(value - 0.3 for value in LOGPROBS)
"""A sampler that made each token less likely: every ratio is exp(0.3) = 1.35."""


def test_a_higher_upper_clip_lets_good_tokens_rise_further() -> None:
    ratio = 1.3498588
    clipped = gradient(OFF, clip_ratio=0.2)
    higher = gradient(OFF, clip_ratio=0.2, clip_ratio_high=0.4)
    assert clipped == pytest.approx([0, 0, 0, -2 * ratio, 0, 0])
    assert higher == pytest.approx([ratio, ratio, ratio, -2 * ratio, ratio / 2, ratio / 2])


def test_gspo_clips_whole_responses_by_the_mean_of_their_log_ratios() -> None:
    # The first response's log-ratios are 0.9, 0 and 0: their mean exceeds the limit.
    sampler = (LOGPROBS[0] - 0.9, *LOGPROBS[1:])
    by_response = gradient(sampler, objective="gspo", clip_ratio=0.2)
    by_token = gradient(sampler, objective="ppo", clip_ratio=0.2)
    assert by_response == pytest.approx([0, 0, 0, -2, 0.5, 0.5])
    assert by_token == pytest.approx([0, 1, 1, -2, 0.5, 0.5])


def test_cispo_bounds_the_ratio_and_loses_no_token() -> None:
    found = gradient(OFF, objective="cispo", clip_ratio_high=0.1)
    assert found == pytest.approx([1.1 * w for w in (1, 1, 1, -2, 0.5, 0.5)])


def test_band_masks_tokens_and_limit_masks_responses() -> None:
    sampler = (LOGPROBS[0] - 2.0, *LOGPROBS[1:])  # ratio 7.39, then 1
    assert gradient(sampler, importance_band=(0.5, 5.0)) == pytest.approx([0, 1, 1, -2, 0.5, 0.5])
    assert gradient(sampler, sequence_limit=3.0) == pytest.approx([0, 0, 0, -2, 0.5, 0.5])
    assert gradient(sampler, importance_cap=2.0) == pytest.approx([2, 1, 1, -2, 0.5, 0.5])


def test_masked_tokens_are_reported() -> None:
    sampler = (LOGPROBS[0] - 2.0, *LOGPROBS[1:])
    spec = TrainerSpec(importance_band=(0.5, 5.0))
    found = token_loss(torch.tensor(LOGPROBS), samples_with(sampler), spec)
    assert found.masked.tolist() == [True, False, False, False, False, False]
    assert found.ratio.tolist() == pytest.approx([7.389056, 1, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "ppo"}, "needs clip_ratio, e.g. 0.2"),
        ({"objective": "gspo"}, "needs clip_ratio, e.g. 0.0003"),
        ({"objective": "cispo", "clip_ratio": 0.2}, "set clip_ratio_high, e.g. 4.0"),
        ({"objective": "reinforce", "clip_ratio": 0.2}, "has no ratio to clip"),
        ({"clip_ratio_high": 0.2}, "has no ratio to clip"),
        ({"importance_band": (1.5, 5.0)}, "must contain 1, the ratio"),
        ({"importance_band": (0.5, 5.0), "importance_cap": 2.0}, "set one"),
    ],
)
def test_conflicting_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TrainerSpec(**options)
