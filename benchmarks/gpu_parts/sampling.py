"""New tokens a second, by transformers in this process and by vLLM where it is installed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_parts.shapes import save_description

VLLM = """
import json, sys, time
from vllm import LLM, SamplingParams
folder, rows, prompt, new, share = sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5])
llm = LLM(folder, load_format="dummy", max_model_len=2048, gpu_memory_utilization=share)
ids = [[3 + (n // 8 * 7 + k) % 400 for k in range(prompt)] for n in range(rows)]
prompts = [{"prompt_token_ids": row} for row in ids]
params = SamplingParams(temperature=1.0, max_tokens=new, ignore_eos=True)
llm.generate(prompts[:2], params)
started = time.perf_counter()
found = llm.generate(prompts, params)
made = sum(len(x.outputs[0].token_ids) for x in found)
print(json.dumps({"tokens_per_second": round(made / (time.perf_counter() - started), 1)}))
"""


def by_transformers(engine: Any, rows: int, adapters: int, prompt: int, new: int) -> dict[str, Any]:
    """Eight rows to a prompt, and each prompt under one of the adapters."""
    import torch

    from collab.models import Call, Request
    from collab.models.local.batching import batch_bytes
    from collab.models.local.dimensions import dimensions_of
    from collab.recipe import LoraSpec
    from collab.records import Sampling
    from collab.trainers.learner.lora import add_adapter

    names = "abcd"[:adapters]

    def requests(n: int) -> list[Request]:
        return [
            Request(
                call=Call(task="t", sample=row, turn=0, round=0, agent="a"),
                prompt_ids=tuple(3 + (row // 8 * 7 + k) % 400 for k in range(prompt)),
                sampling=Sampling(max_new_tokens=new),
                adapter=names[row // 8 % adapters],
                seed=row,
            )
            for row in range(n)
        ]

    for name in names:
        add_adapter(engine, name, LoraSpec(), seed=0, start=None)
    asyncio.run(engine.generate(requests(2)))
    device, found = engine.load().device, {"rows": rows, "adapters": adapters}
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        shape = dimensions_of(engine.module.config.get_text_config(), engine.module.dtype.itemsize)
        planned = torch.cuda.memory_allocated(device) + batch_bytes(shape, rows, prompt + new)
    started = time.perf_counter()
    actions = asyncio.run(engine.generate(requests(rows)))
    seconds = time.perf_counter() - started
    made = sum(action.usage.new_tokens for action in actions)
    if device.type == "cuda":
        found |= {"peak_bytes": torch.cuda.max_memory_allocated(device), "planned_bytes": planned}
    return {**found, "tokens_per_second": round(made / seconds, 1)}


def by_vllm(shape: str, rows: int, prompt: int, new: int) -> dict[str, Any]:
    """In a process of its own, as it keeps the memory that it took."""
    with tempfile.TemporaryDirectory() as name:
        save_description(shape, Path(name))
        asked = [str(x) for x in (rows, prompt, new, 0.6)]
        command = [sys.executable, "-c", VLLM, name, *asked]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    # vLLM logs its shutdown to the same stream, after the numbers.
    [line] = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(line)
    return {"rows": rows, **found}
