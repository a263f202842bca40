"""On a GPU, a step samples the responses of all its episodes at once."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from collab.models import Request
from collab.models.local.engine import TransformersEngine
from collab.recipe import Recipe
from collab.recipe.recipe import DEFAULT_CONCURRENCY
from collab.runtime.session import Session
from collab.tasks import open_suite
from collab.trainers.learner.policy import Policies, open_policies

EPISODES = 48


def on_device(policies: Policies, agent: str, device: str) -> None:
    """Let the agent's policy report a device; its model stays on the CPU."""
    real = policies.by_name[agent]
    fields = {"name": agent, "agents": (agent,), "is_adapter": True, "device": torch.device(device)}
    policies.by_name[agent] = SimpleNamespace(**fields, engine=real.engine)  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("devices", "concurrency", "batches"),
    [
        (("cpu", "cpu"), None, [2 * DEFAULT_CONCURRENCY, 2 * (EPISODES - DEFAULT_CONCURRENCY)]),
        (("cuda", "cuda:1"), None, [2 * EPISODES]),
        (("cpu", "cuda"), None, [2 * EPISODES]),
        (("cuda", "cuda"), 16, [32, 32, 32]),
    ],
)
def test_gpu_gets_all_responses_of_a_step_in_one_call(
    game: Recipe,
    devices: tuple[str, str],
    concurrency: int | None,
    batches: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[int] = []
    answer = TransformersEngine.answer_each

    async def counted(self: TransformersEngine, requests: Sequence[Request], *rest: Any) -> None:
        called.append(len(requests))
        await answer(self, requests, *rest)

    monkeypatch.setattr(TransformersEngine, "answer_each", counted)
    recipe = game.model_copy(update={"concurrency": concurrency})
    assert recipe.trainer is not None
    assert recipe.task is not None
    problems = open_suite(recipe.task).select("0-7")

    async def play(policies: Policies, spec: Recipe) -> int:
        async with Session(spec, models=policies.models) as session:
            return len(await session.rollout(problems, samples=EPISODES // 8))

    policies = open_policies(recipe, recipe.trainer)
    for agent, device in zip("ab", devices, strict=True):
        on_device(policies, agent, device)
    assert asyncio.run(play(policies, policies.recipe_with_adapters(recipe))) == EPISODES
    assert called == batches
    asyncio.run(policies.aclose())
