"""AdamW on float32 masters, gradient clipping, and the learning-rate schedule."""

import pytest
import torch
from torch import nn

from collab.recipe import TrainerSpec
from collab.trainers.learner.optimizer import Optimizer, rate_at


def parameter(dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(torch.full((4,), 1.0, dtype=dtype))


def test_float32_optimizer_matches_torch_adamw() -> None:
    ours, theirs = parameter(torch.float32), parameter(torch.float32)
    optimizer = Optimizer([ours], weight_decay=0.01)
    reference = torch.optim.AdamW([theirs], lr=1e-3, weight_decay=0.01)
    for step in range(3):
        gradient = torch.tensor([1.0, -2.0, 3.0, step])
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        optimizer.step(1e-3, None)
        reference.step()
    assert torch.allclose(ours, theirs, rtol=1e-6)


def test_updates_below_bfloat16s_rounding_add_up() -> None:
    narrow = parameter(torch.bfloat16)
    optimizer = Optimizer([narrow], weight_decay=0.0)
    for _ in range(100):
        narrow.grad = torch.ones_like(narrow)
        optimizer.step(1e-4, None)
    assert float(narrow[0].detach()) == pytest.approx(0.99, abs=5e-3)


def test_reported_norm_is_the_one_before_clipping() -> None:
    one = parameter(torch.float32)
    one.grad = torch.tensor([3.0, 4.0, 0.0, 0.0])
    assert Optimizer([one], weight_decay=0.0).step(1e-3, 1.0) == pytest.approx(5.0)


def test_nan_gradient_changes_nothing() -> None:
    one = parameter(torch.float32)
    one.grad = torch.tensor([float("nan"), 1.0, 1.0, 1.0])
    Optimizer([one], weight_decay=0.5).step(1e-3, None)
    assert torch.equal(one, parameter(torch.float32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_restored_optimizer_continues_bit_by_bit(dtype: torch.dtype) -> None:
    def steps(optimizer: Optimizer, one: nn.Parameter, n: int) -> None:
        for k in range(n):
            one.grad = torch.tensor([0.1, -0.3, 0.7, k], dtype=dtype)
            optimizer.step(1e-3, None)

    first = parameter(dtype)
    uninterrupted = Optimizer([first], weight_decay=0.01)
    steps(uninterrupted, first, 3)
    second = nn.Parameter(first.detach().clone())
    resumed = Optimizer([second], weight_decay=0.01)
    resumed.restore(uninterrupted.state())
    steps(uninterrupted, first, 3)
    steps(resumed, second, 3)
    assert torch.equal(first, second)


def test_schedules() -> None:
    def course(**options: object) -> list[float]:
        spec = TrainerSpec.model_validate({"learning_rate": 1.0, **options})
        return [round(rate_at(step, 5, spec), 3) for step in range(5)]

    assert course() == [1.0] * 5
    assert course(warmup_steps=3) == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert course(schedule="linear") == [1.0, 0.8, 0.6, 0.4, 0.2]
    assert course(schedule="cosine", warmup_steps=1) == [0.5, 1.0, 0.854, 0.5, 0.146]


def test_default_learning_rate_depends_on_the_policies() -> None:
    assert TrainerSpec(policies="full").rate == 1e-5
    assert TrainerSpec().rate == 1e-4
    assert TrainerSpec(learning_rate=0.5).rate == 0.5


def test_float32_checkpoint_can_be_resumed_in_bfloat16() -> None:
    wide, narrow = parameter(torch.float32), parameter(torch.bfloat16)
    wide_optimizer, narrow_optimizer = (
        Optimizer([one], weight_decay=0.0) for one in (wide, narrow)
    )
    wide.grad = torch.ones_like(wide)
    wide_optimizer.step(0.1, None)
    with torch.no_grad():
        narrow.copy_(wide)
    narrow_optimizer.restore(wide_optimizer.state())
    assert torch.equal(narrow, wide.bfloat16())


def test_gradients_of_many_small_passes_add_up_in_float32() -> None:
    narrow = parameter(torch.bfloat16)
    optimizer = Optimizer([narrow], weight_decay=0.0)
    for _ in range(1000):  # a bfloat16 sum of ones stops at 256
        narrow.sum().backward()
    assert narrow.grad is None
    assert optimizer.step(1e-3, None) == pytest.approx(2000.0)
    assert optimizer.step(1e-3, None) == 0.0


def test_discarded_gradients_are_not_applied() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        one = parameter(dtype)
        optimizer = Optimizer([one], weight_decay=0.0)
        one.sum().backward()
        optimizer.zero_grad()
        assert optimizer.step(1e-3, None) == 0.0
