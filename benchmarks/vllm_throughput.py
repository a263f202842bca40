"""Compares vLLM through the whole runtime with `vllm.LLM.generate` on the same prompts.

    python benchmarks/vllm_throughput.py [--episodes 16] [--new-tokens 64] [--train]

Two agents answer in every episode, on problems of HumanEval. The same prompts, with the same
settings, then go to a separate vLLM engine. Both take turns within one process, after a warm-up
round. On a GPU, or with --train, a training step with vLLM is also compared with the same step with
transformers. It needs vLLM; `make test-vllm` makes an environment with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from collab.models import store
from collab.models.open import open_model
from collab.models.weights import pick_device, pick_dtype
from collab.recipe import Recipe, load_recipe
from collab.recipe.model import VLLMSpec
from collab.records import Action, Sampling
from collab.runtime import Session
from collab.runtime.problems import find_problems
from collab.trainers import TrainingRun

TARGET = 0.9
ROUNDS = 3
SHARE, CONTEXT = 0.2, 2048


def make_recipe(model: str, new_tokens: int, episodes: int) -> Recipe:
    settings = [f"concurrency={episodes}", f"sampling.max_new_tokens={new_tokens}"]
    recipe = load_recipe("coding", task="humaneval", settings=settings)
    spec = VLLMSpec(name=model, memory_share=SHARE, context=CONTEXT)
    return recipe.model_copy(update={"model": spec})


class Ours:
    """Rounds of episodes, timed up to the last response. Judging comes later and does not count."""

    def __init__(self, recipe: Recipe, episodes: int) -> None:
        self._recipe, self._episodes = recipe, episodes
        self.engine = open_model(recipe.model)

    async def play(self, seed: int) -> tuple[list[Action], float]:
        recipe, problems = find_problems(self._recipe, [f"humaneval/0-{self._episodes - 1}"])
        recipe = recipe.model_copy(update={"task": None})
        async with Session(
            recipe, models=dict.fromkeys(recipe.team.agents, self.engine)
        ) as session:
            started = time.perf_counter()
            episodes = await session.rollout(problems, seed=seed)
            seconds = time.perf_counter() - started
        actions = [d.action for e in episodes for turn in e.turns for d in turn.decisions]
        assert all(action.failure is None for action in actions), actions
        return actions, seconds


class Raw:
    """vLLM alone."""

    def __init__(self, recipe: Recipe) -> None:
        from vllm import LLM

        model = recipe.model
        self._llm = LLM(
            model=str(store.resolve(model.name)),
            dtype=pick_dtype("auto", pick_device("auto")),
            max_model_len=CONTEXT,
            gpu_memory_utilization=SHARE,
            enforce_eager=not torch.cuda.is_available(),
            enable_chunked_prefill=torch.cuda.is_available(),
            logprobs_mode="processed_logprobs",
            generation_config="vllm",
        )

    def play(self, actions: Sequence[Action], sampling: Sampling) -> tuple[int, float]:
        from vllm import SamplingParams, TokensPrompt

        prompts = [TokensPrompt(prompt_token_ids=list(action.prompt_ids)) for action in actions]
        params = [
            SamplingParams(
                temperature=sampling.temperature,
                max_tokens=sampling.max_new_tokens,
                seed=seed,
                logprobs=0,
            )
            for seed in range(len(prompts))
        ]
        started = time.perf_counter()
        outputs = self._llm.generate(prompts, params, use_tqdm=False)
        seconds = time.perf_counter() - started
        return sum(len(output.outputs[0].token_ids) for output in outputs), seconds


async def compare(recipe: Recipe, episodes: int) -> dict[str, Any]:
    ours = Ours(recipe, episodes)
    await ours.play(0)
    raw = Raw(recipe)
    tokens, seconds = [0, 0], [0.0, 0.0]
    sampling = recipe.sampling_of(next(iter(recipe.team.agents)))
    for number in range(ROUNDS):
        actions, mine = await ours.play(number)
        count, theirs = raw.play(actions, sampling)
        if number:
            tokens = [tokens[0] + sum(len(a.token_ids) for a in actions), tokens[1] + count]
            seconds = [seconds[0] + mine, seconds[1] + theirs]
    await ours.engine.aclose()
    rates = [n / s for n, s in zip(tokens, seconds, strict=True)]
    return {
        "requests": len(actions),
        "runtime_tokens_per_s": round(rates[0], 1),
        "raw_tokens_per_s": round(rates[1], 1),
        "ratio": round(rates[0] / rates[1], 3),
        "target": TARGET,
    }


async def train(recipe: Recipe, episodes: int) -> dict[str, Any]:
    """Measure the second training step with each engine: tokens per second, shares of time."""
    found: dict[str, Any] = {}
    assert isinstance(recipe.model, VLLMSpec)
    trainer = load_recipe("coding", task="humaneval", settings=["trainer=magrpo"]).trainer
    assert trainer is not None
    spec = trainer.model_copy(update={"steps": 2, "group_size": episodes})
    for model in (recipe.model, recipe.model.weights):
        chosen = recipe.model_copy(update={"model": model, "trainer": spec})
        rows: list[dict[str, float]] = []

        def watch(event: Any, rows: list[dict[str, float]] = rows) -> None:
            if event.type == "step.finished":
                rows.append(event.metrics)

        with tempfile.TemporaryDirectory() as folder:
            await TrainingRun(chosen, Path(folder) / "run", emit=watch).run()
        names = ("tokens_per_second", "seconds", "mismatch", "memory_gb")
        shares = (name for name in rows[-1] if name.startswith("time/"))
        found[model.engine] = {name: round(rows[-1][name], 4) for name in (*names, *shares)}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--train", action="store_true", default=torch.cuda.is_available())
    options = parser.parse_args()
    if find_spec("vllm") is None:
        print(json.dumps({"left_out": "vllm is not installed"}))
        return 0
    recipe = make_recipe(options.model, options.new_tokens, options.episodes)
    result = asyncio.run(compare(recipe, options.episodes))
    if options.train:
        result["step"] = asyncio.run(train(recipe, options.episodes))
    print(json.dumps(result))
    return 0 if result["ratio"] >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
