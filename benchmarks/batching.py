"""Compares many tasks at the same time with one at a time, through the whole runtime.

    python benchmarks/batching.py [--new-tokens 96] [--model smollm2-135m]

The team `coding` runs humaneval/0-15, and is judged and recorded as usual. In one case, all agents
of all episodes share one batch per turn. In the other, one episode runs at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from collab.models import Model, Progress, Request
from collab.models.open import open_model
from collab.recipe import load_recipe
from collab.records import Action
from collab.runtime import Session
from collab.runtime.problems import find_problems
from collab.runtime.summary import summarize

TARGET = 3.0


class Counted(Model):
    """A model that counts its batches."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.batching = model.name, model.batching
        self.capabilities = model.capabilities
        self.sizes: list[int] = []

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        self.sizes.append(len(requests))
        return await self._model.generate(requests, progress)

    async def aclose(self) -> None:
        await self._model.aclose()


async def measure(model: Counted, new_tokens: int, concurrency: int, tasks: str) -> float:
    settings = [f"concurrency={concurrency}", f"sampling.max_new_tokens={new_tokens}"]
    recipe = load_recipe("coding", task="humaneval", settings=settings)
    recipe, problems = find_problems(recipe, [tasks])
    models = dict.fromkeys(recipe.team.agents, model)
    async with Session(recipe, models=models) as session:
        loop = asyncio.get_running_loop()
        started = loop.time()
        episodes = await session.rollout(problems, seed=0)
        summary = summarize(episodes, loop.time() - started)
    assert summary["failed"] == 0
    return float(summary["tokens_per_second"])


async def compare(new_tokens: int, name: str) -> dict[str, Any]:
    model = Counted(open_model(load_recipe("coding", model=name).model))
    await measure(model, 8, 1, "humaneval/0")
    model.sizes.clear()
    together = await measure(model, new_tokens, 16, "humaneval/0-15")
    batches = list(model.sizes)
    alone = await measure(model, new_tokens, 1, "humaneval/0-15")
    await model.aclose()
    return {
        "batches": batches,
        "together_tokens_per_s": together,
        "one_at_a_time_tokens_per_s": alone,
        "ratio": round(together / alone, 2),
        "target": TARGET,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--new-tokens", type=int, default=96)
    parser.add_argument("--model", default="smollm2-135m")
    options = parser.parse_args()
    result = asyncio.run(compare(options.new_tokens, options.model))
    print(json.dumps(result))
    return 0 if result["batches"] == [32] and result["ratio"] >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
