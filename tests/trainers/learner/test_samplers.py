"""Samplers with their own copy of the weights, of trained and of frozen agents."""

import asyncio
from typing import Any

from collab.models import Model
from collab.models.base import SamplerReport
from collab.trainers.learner.policy import Policies, Policy


class Sampler(Model):
    name, batching, has_own_weights = "sampler", "continuous", True

    def __init__(self, waiting: float, place: int) -> None:
        self._waiting, self._place = waiting, place
        self.calls: list[Any] = []

    def __hash__(self) -> int:
        """Decide the place of the sampler in a set."""
        return self._place

    async def publish(self, adapters: Any, version: int) -> None:
        self.calls.append((sorted(adapters), version))

    async def sleep(self) -> None:
        self.calls.append("sleep")

    async def report(self) -> SamplerReport:
        return SamplerReport(metrics={"1/waiting": self._waiting})


def test_load_is_numbered_in_the_order_of_the_agents() -> None:
    engine: Any = None
    by_name = {name: Policy(name, (name,), engine, {}, is_adapter=True) for name in "ab"}
    for places in ((0, 1), (1, 0)):
        models: Any = {
            name: Sampler(waiting, place)
            for name, waiting, place in zip("ab", (3.0, 5.0), places, strict=True)
        }
        report = asyncio.run(Policies(by_name, models).report())
        assert report.metrics == {"1/waiting": 3.0, "2/1/waiting": 5.0}


def test_samplers_of_frozen_agents_also_sleep_while_the_trainer_learns() -> None:
    engine: Any = None
    trained, frozen = Sampler(0.0, 0), Sampler(0.0, 1)
    models: Any = {"a": trained, "b": frozen}
    policies = Policies({"a": Policy("a", ("a",), engine, {}, is_adapter=True)}, models, version=3)
    asyncio.run(policies.publish())
    asyncio.run(policies.sleep())
    assert trained.calls == [(["a"], 3), "sleep"]
    assert frozen.calls == [([], 3), "sleep"]
