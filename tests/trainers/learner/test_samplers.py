"""Samplers with their own copy of the weights are numbered by agent."""

import asyncio
from typing import Any

from collab.models.base import SamplerReport
from collab.trainers.learner.policy import Policies, Policy


class Sampler:
    name, batching = "sampler", "continuous"

    def __init__(self, waiting: float, place: int) -> None:
        self._waiting, self._place = waiting, place

    def __hash__(self) -> int:
        """Decide the place of the sampler in a set."""
        return self._place

    async def generate(self, *_: Any) -> list[Any]:
        return []

    async def aclose(self) -> None: ...

    async def publish(self, *_: Any) -> None: ...

    async def sleep(self) -> None: ...

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
