"""Distribute micro-batches over ranks and sum their gradients exactly."""

import random
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from collab.errors import TrainingError
from collab.trainers.learner.passes import pass_cost
from collab.trainers.learner.ranks import ALONE, Ranks
from collab.trainers.learner.update import NotFinite
from collab.trainers.ranks.group import (
    ExactSum,
    FlatSum,
    is_known_to_all,
    outcome_of,
    raise_failures,
)
from collab.trainers.ranks.launching import _explain_end

COSTS = st.lists(st.floats(min_value=0.1, max_value=1e6), max_size=40)


@given(costs=COSTS, world=st.integers(min_value=1, max_value=9))
def test_deal_is_an_even_and_deterministic_partition(costs: list[float], world: int) -> None:
    ranks = Ranks()
    ranks.world = world
    dealt = ranks.assign_work(costs)
    assert sorted(place for places in dealt for place in places) == list(range(len(costs)))
    assert all(places == sorted(places) for places in dealt)
    assert dealt == ranks.assign_work(list(costs))
    loads = [sum(costs[place] for place in places) for places in dealt]
    most = sum(costs) / world + max(costs, default=0.0)
    assert max(loads) <= most * (1 + 1e-9)


def test_attention_makes_long_rows_cost_more_than_their_tokens() -> None:
    assert pass_cost(1, 8000) > 2 * pass_cost(1, 4000)
    assert pass_cost(20, 100) < pass_cost(1, 2000)


def gradients(n: int) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
    generator = torch.Generator().manual_seed(n)
    first = torch.randn(4, 3, generator=generator) * 10.0 ** (n % 5 - 2)
    return [(first, None if n % 2 else torch.randn(2, generator=generator))]


def summed_exactly(order: list[int], world: int) -> list[torch.Tensor | None]:
    """Return rank 0's gradients after micro-batches in this order are dealt out in turn."""
    held = [[torch.zeros(4, 3), torch.zeros(2), torch.zeros(1)] for _ in range(world)]
    flats: list[torch.Tensor] = []
    sums = [ExactSum(parameters, flats.append, len(order)) for parameters in held]
    for place, n in enumerate(order):
        parameters = held[place % world]
        [(parameters[0].grad, parameters[1].grad)] = gradients(n)
        sums[place % world].add()
    for one in sums[1:]:
        one.finish()

    def add_others(flat: torch.Tensor) -> None:
        for other in flats:
            flat.add_(other)

    first = ExactSum(held[0], add_others, 1)
    first._total = sums[0]._total
    first.finish()
    return [parameter.grad for parameter in held[0]]


def test_an_exact_sum_is_the_same_in_any_order_over_any_ranks() -> None:
    order = list(range(9))
    wanted = summed_exactly(order, 1)
    assert wanted[2] is None
    plain = sum((gradients(n)[0][0] for n in order), torch.zeros(4, 3))
    assert wanted[0] is not None
    torch.testing.assert_close(wanted[0], plain, atol=1e-5, rtol=1e-5)
    for world in (1, 2, 3, 4):
        random.Random(world).shuffle(order)
        found = summed_exactly(order, world)
        assert found[2] is None
        for one, other in zip(found[:2], wanted[:2], strict=True):
            assert one is not None
            assert other is not None
            assert torch.equal(one, other)


def test_gradient_beyond_the_exact_range_stops_the_run() -> None:
    parameter = torch.zeros(2)
    parameter.grad = torch.tensor([1.0, 5e6])
    with pytest.raises(TrainingError, match="a gradient of 5e\\+06 is too large to add exactly"):
        ExactSum([parameter], lambda flat: None, pieces=2).add()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_gradient_makes_the_sum_nan(value: float) -> None:
    one, other = torch.zeros(2), torch.zeros(1)
    one.grad = torch.tensor([1.0, value])
    total = ExactSum([one, other], lambda flat: None, pieces=1)
    total.add()
    total.finish()
    assert one.grad is not None
    assert one.grad.isnan().all()


def test_flat_sum_skips_parameters_without_a_gradient() -> None:
    one, other = torch.zeros(2, 2), torch.zeros(3)
    one.grad = torch.ones(2, 2)

    def double(flat: torch.Tensor) -> None:
        flat.mul_(2)

    FlatSum([one, other], double).finish()
    assert torch.equal(one.grad, torch.full((2, 2), 2.0))
    assert other.grad is None


def test_failure_keeps_its_type_and_names_its_rank() -> None:
    def fail() -> None:
        raise NotFinite("the loss of policy 'a' is nan")

    with pytest.raises(NotFinite, match=r"^rank 1: the loss of policy 'a' is nan$") as raised:
        raise_failures([outcome_of(lambda: None), outcome_of(fail)])
    assert is_known_to_all(raised.value)
    with pytest.raises(NotFinite, match=r"^the loss"):
        raise_failures([outcome_of(fail), outcome_of(fail)])


def test_single_process_keeps_everything() -> None:
    [dealt] = ALONE.assign_work([3.0, 1.0])
    assert list(dealt) == [0, 1]
    assert ALONE.gather_results(lambda: [1, 2]) == [1, 2]
    assert ALONE.about() == {}


def test_last_log_line_of_a_rank_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "logs/rank-1.log"
    log.parent.mkdir()
    log.write_text("step 1: 2.0 s\nerror: rank 1 is out of memory\n")
    with pytest.raises(TrainingError, match="exit status 1: rank 1 is out of memory"):
        _explain_end({1: 1}, tmp_path)
