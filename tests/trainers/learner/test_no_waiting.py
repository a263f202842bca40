"""Learning reads values from the device only once per micro-batch.

Tensors on `meta` have no values: torch raises an error on `float()`, `nonzero`, `tolist` or `any()`
in an `if`.
"""

from typing import Any

import pytest
import torch
from support.tiny_models import tiny
from torch import Tensor

from collab.models.local.sampling import nucleus
from collab.recipe import TrainerSpec
from collab.records import Sampling
from collab.runs import metric_names as names
from collab.trainers.learner.logprobs import SamplingSettings, response_logprobs
from collab.trainers.learner.logprobs import _score as score
from collab.trainers.learner.loss import token_loss
from collab.trainers.learner.passes import ResponseSums
from collab.trainers.learner.prefix_tree.attention import tree_attention
from collab.trainers.learner.prefix_tree.packing import pack_samples
from collab.trainers.learner.samples import Sample
from collab.trainers.learner.update import KL_TOKENS, TOKENS, Update

META = torch.device("meta")
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tempered": {"temperature": 0.7},
    "top_p": {"top_p": 0.9},
    "top_k": {"top_k": 20, "top_p": 0.95},
}
LOSSES: dict[str, dict[str, Any]] = {
    "reinforce": {},
    "gspo": {"objective": "gspo", "clip_ratio": 0.01},
    "corrected": {"importance_band": (0.5, 5.0), "sequence_limit": 3.0},
    "kl": {"kl_coef": 0.1},
}


def group(ways: list[dict[str, Any]]) -> list[Sample]:
    return [
        Sample("a", (1, 2, 3), (4, n, 6, 7), (0.0,) * 4, Sampling(**way), weight=1.0, scale=1.0)
        for n, way in enumerate(ways)
    ]


def learn(samples: list[Sample], shared: bool, **options: Any) -> ResponseSums:
    """Compute a micro-batch up to the point where its values go to the host."""
    spec = TrainerSpec.model_validate({"steps": 1, **options})
    model = tiny("llama").to(META)
    model.lm_head.requires_grad_(False)
    rows = pack_samples(samples, 1000, shared=shared)
    learned = [sample for row in rows for sample in row.samples]
    found = response_logprobs(model, rows, META)
    assert found.logprobs.device == META
    reference = found.logprobs.detach() if spec.kl_coef else None
    loss = token_loss(found.logprobs, learned, spec, reference=reference)
    sums = ResponseSums(learned, loss, found.logprobs.detach(), found.outside_support)
    with tree_attention(model):
        loss.total.backward()
    return sums


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_forward_and_backward_pass_never_sync_with_the_device(way: str, shared: bool) -> None:
    learn(group([WAYS[way]] * 3), shared)
    learn(group([WAYS[way], {}, WAYS[way]]), shared)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_never_sync_with_the_device(loss: str) -> None:
    learn(group([{}] * 3), True, **LOSSES[loss])


def test_metrics_of_a_micro_batch_are_transferred_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = []

    def tolist(self: Tensor) -> list[float]:
        moved.append(self.shape)
        return [0.5] * self.numel()

    computed = learn(group([{}] * 3), True, kl_coef=0.1)
    monkeypatch.setattr(Tensor, "tolist", tolist)
    update = Update()
    number, responses = computed.read()
    update.add(responses)
    assert len(moved) == 1
    assert number == 0.5
    sums = update.sums["a"]
    assert (sums[TOKENS], sums[KL_TOKENS]) == (12, 12)
    assert (sums[names.KL], sums[names.AGENT_MISMATCH]) == (1.5, 1.5)


@pytest.mark.parametrize("top_k", [3, 50])
def test_nucleus_with_a_known_width_gives_the_same_distribution(top_k: int) -> None:
    """On a GPU the width comes from the settings, on a CPU from the values."""
    torch.manual_seed(1)
    hidden, targets = torch.randn(6, 32), torch.randint(50, (6,))
    sampling_settings = [
        SamplingSettings(1.0, top_p, top_k) for top_p in (0.2, 0.5, 0.9, 0.95, 0.99, 1.0)
    ]
    model, settings = tiny("llama"), torch.tensor(sampling_settings)
    found, _ = score(model, hidden, targets, settings, sampling_settings)
    probabilities = model.lm_head(hidden).softmax(dim=-1)
    weights, index = nucleus(probabilities, settings[:, 1], settings[:, 2], width=top_k)
    nucleus_probabilities = torch.zeros_like(probabilities).scatter(1, index, weights)
    nucleus_probabilities = nucleus_probabilities.scatter(
        1, targets[:, None], probabilities.gather(1, targets[:, None])
    )
    exact = (
        (nucleus_probabilities / nucleus_probabilities.sum(dim=1, keepdim=True))
        .gather(1, targets[:, None])[:, 0]
        .log()
    )
    torch.testing.assert_close(found, exact)
