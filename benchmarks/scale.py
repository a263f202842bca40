"""Rank 0's loop at scale, on one machine: many vLLM servers, and thousands of episodes in flight.

    python benchmarks/scale.py [--servers 64] [--episodes 10000] [--steps 2] [--seconds 5]

The servers are fakes, all in one separate process. Each response arrives after `--seconds` and has
64 tokens. In each step, a team whose second agent reads the first one's answer runs all episodes
at the same time. As in training, all episodes of a step are kept in memory, and then recorded. The
output has the memory of this process per step, the number of lost episodes, responses per second,
processor time per response, and the load of the servers. It also has the cost of recording a step,
and of sending it to 64 ranks.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import pickle
import resource
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
from scale_parts.servers import serve

from collab.models.vllm.engine import VLLMEngine
from collab.recipe import Recipe
from collab.recipe.model import VLLMSpec
from collab.records import Episode, Problem, Sampling
from collab.runtime import Session
from collab.runtime.episode import starts_of
from collab.runtime.events import EpisodeFinished
from collab.trainers.learner.samples import Sample

GROUP = 8
RANKS = 64


def recipe_of(episodes: int) -> Recipe:
    agents = {
        "planner": {"prompt": "Problem {{ task.text }}: say how you would go about it."},
        "writer": {"prompt": "Problem {{ task.text }}. {{ others.planner }} Now write it."},
    }
    return Recipe.model_validate(
        {
            "model": "echo",
            "concurrency": episodes,
            "sampling": {"max_new_tokens": 64},
            "team": {"name": "pair", "protocol": "sequential", "agents": agents},
        }
    )


class Watch:
    """Measures the memory of this process and the load of the servers, twice per second."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.peak = 0.0

    async def run(self) -> None:
        while True:
            self.peak = max(self.peak, self.memory())
            await asyncio.sleep(0.5)

    def memory(self) -> float:
        """Memory of this process in MB."""
        return float(self._process.memory_info().rss / 1e6)


async def play_steps(
    urls: tuple[str, ...], episodes: int, steps: int, record: Path
) -> list[Episode]:
    problems = [
        Problem(address=f"t/{n}", public={"text": f"number {n}"}) for n in range(episodes // GROUP)
    ]
    starts = starts_of(problems, GROUP)
    model = VLLMSpec(name="smollm2-135m", servers=urls, seconds=3600.0)
    engine, watch = VLLMEngine(model), Watch()
    watching = asyncio.create_task(watch.run())
    print(f"before: {watch.memory():.0f} MB", flush=True)
    print("| step | run in | responses/s | CPU ms each | lost | at a server | peak MB | after |")
    print("|---|---|---|---|---|---|---|---|")
    found: list[Episode] = []
    try:
        for step in range(steps):
            found = []  # drops the episodes of the previous step
            began, watch.peak, spent = time.perf_counter(), 0.0, time.process_time()
            models = {"planner": engine, "writer": engine}
            async with Session(recipe_of(episodes), models=models) as session:
                async for event in session.stream(starts, seed=step):
                    if isinstance(event, EpisodeFinished):
                        found.append(event.episode)
            seconds = time.perf_counter() - began
            each = (time.process_time() - spent) / (2 * len(starts))
            loads = (await engine.report()).metrics
            most = [value for name, value in loads.items() if name.endswith("in_flight")]
            lost = len(starts) - len({e.id for e in found if e.failure is None})
            spread = f"{min(most):.0f}-{max(most):.0f}"
            wrote = time.perf_counter()
            with record.open("a") as file:
                file.writelines(f"{episode.model_dump_json()}\n" for episode in found)
            wrote = time.perf_counter() - wrote
            cells = [step + 1, f"{seconds:.1f} s", f"{2 * len(starts) / seconds:.0f}"]
            cells += [f"{1000 * each:.1f}", lost, spread]
            cells += [f"{watch.peak:.0f}", f"{watch.memory():.0f}"]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    finally:
        watching.cancel()
        await engine.aclose()
    size = record.stat().st_size / steps
    print(f"records: {wrote:.2f} s and {size / 1e6:.1f} MB a step, by rank 0 alone for any ranks")
    return found


def hand_over(episodes: list[Episode]) -> None:
    """Measure the cost of sending a step's samples, which rank 0 packs once for all ranks."""
    samples = [
        Sample(d.agent, a.prompt_ids, a.token_ids, a.logprobs, Sampling(), weight=1.0, scale=1.0)
        for episode in episodes
        for turn in episode.turns
        for d in turn.decisions
        for a in (d.action,)
    ]
    began = time.perf_counter()
    packed = pickle.dumps(samples)
    packing = time.perf_counter() - began
    began = time.perf_counter()
    pickle.loads(packed)
    opening = time.perf_counter() - began
    lengths = statistics.fmean(len(sample.token_ids) for sample in samples)
    hops = (RANKS - 1).bit_length()
    print(
        f"hand-over of {len(samples)} samples of {lengths:.0f} tokens: {len(packed) / 1e6:.1f} MB,"
        f" packed in {packing:.2f} s and opened in {opening:.2f} s; to {RANKS} ranks in {hops} hops"
    )
    row = pickle.dumps([1.0] * 8)
    print(
        f"gather of what passes found: {len(row)} bytes a response,"
        f" {len(samples) * len(row) / 1e6:.1f} MB over all ranks, of which each receives all"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", type=int, default=64)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    context = multiprocessing.get_context("spawn")
    ours: Connection
    ours, theirs = context.Pipe()
    arguments = (options.servers, options.seconds, theirs)
    servers = context.Process(target=serve, args=arguments, daemon=True)
    servers.start()
    try:
        urls = tuple(f"http://127.0.0.1:{port}" for port in ours.recv())
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder) / "episodes.jsonl"
            found = asyncio.run(play_steps(urls, options.episodes, options.steps, record))
        hand_over(found)
    finally:
        servers.terminate()
        servers.join()


if __name__ == "__main__":
    main()
