"""Training side by side with CoMLRL, the published implementation, on the same tiny model.

    python benchmarks/training.py [--prompts 12] [--rounds 3]

A random Llama of 8.4 M parameters (hidden 256, 4 layers, vocabulary 8192), G = 4, 64 new tokens,
one turn, one prompt a step, the same reward. Every case runs in a process of its own that is held
to as many cores as it has threads; the cases alternate, and a ratio is the median of those of each
round. `processor_seconds` is what a step took of the processor, which says more on a busy machine.
Cases of the peer need `pip install comlrl==1.4.3` and are left out where it is not installed.

peer      float32, every agent a whole model
full      the same precision and parameters by this library
default   our defaults: an adapter for each agent, bfloat16 where the processor is good at it

Equal: model, prompts, G, lengths, sampling, reward, AdamW, one step a prompt, no evaluation. Not
equal: ours also writes episodes and metrics, and of `default` the trained parameters and precision.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

VOCABULARY, PROMPT_WORDS, NEW_TOKENS, GROUP = 8192, 32, 64, 4
CHAT = "{% for m in messages %}{{ m.content }} {% endfor %}"
KINDS = ("peer", "full", "default")
SETTINGS = ((2, 1), (2, 2), (4, 2))
"""Agents and threads."""
WARM_UP = 2
TARGETS = {"full": 1.5, "default": 3.0}


def save_model(folder: Path) -> None:
    """The model, and a tokenizer whose tokens are numbers."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {f"w{n}": n for n in range(VOCABULARY)}
    core = Tokenizer(models.WordLevel(vocab=words, unk_token="w0"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="w1", pad_token="w2", chat_template=CHAT
    )
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=2,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)


def prompts(count: int) -> list[str]:
    return [
        " ".join(f"w{(7 * n + 13 * k) % VOCABULARY}" for k in range(PROMPT_WORDS))
        for n in range(count)
    ]


def even(text: str) -> float:
    """The reward of a response: the share of its words whose number is even."""
    words = text.split()
    return sum(word[-1] in "02468" for word in words) / max(len(words), 1)


def even_part(context: Any) -> float:
    return sum(even(text) for text in context.artefacts.values()) / len(context.artefacts)


def now() -> tuple[float, float]:
    """On the clock, and of the processor."""
    return time.perf_counter(), time.process_time()


def run_ours(kind: str, agents: int, count: int, folder: Path) -> list[tuple[float, float]]:
    """The ends of steps."""
    from collab.recipe import Recipe
    from collab.trainers import Training

    rows = [{"task_id": str(n), "text": text} for n, text in enumerate(prompts(count))]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    agent = {"prompt": "{{ task.text }}"}
    trainer = {"group_size": GROUP, "checkpoint_every": 10_000}
    recipe = Recipe.model_validate(
        {
            "model": {
                "name": str(folder / "model"),
                "dtype": "float32" if kind == "full" else "auto",
            },
            "sampling": {"max_new_tokens": NEW_TOKENS},
            "team": {"name": "bench", "agents": {f"agent{n}": agent for n in range(agents)}},
            "task": {
                "name": "bench",
                "kind": "text",
                "source": {"path": str(folder / "tasks.jsonl")},
                "reward": {"parts": {"even": {"use": f"{__file__}:even_part"}}},
            },
            "trainer": {**trainer, "policies": "full" if kind == "full" else "adapters"},
        }
    )
    ends: list[tuple[float, float]] = []

    def watch(event: Any) -> None:
        if event.type == "step.finished":
            ends.append(now())

    asyncio.run(Training(recipe, folder / "run", emit=watch).run())
    return ends


def run_peer(agents: int, count: int, folder: Path) -> list[tuple[float, float]]:
    """The same place in each step, told by its calls of the reward."""
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    models = [AutoModelForCausalLM.from_pretrained(folder / "model") for _ in range(agents)]
    calls: list[tuple[float, float]] = []

    def reward(*completions: list[str]) -> list[float]:
        calls.append(now())
        return [sum(map(even, said)) / len(said) for said in zip(*completions, strict=True)]

    trainer = MAGRPOTrainer(
        agents=models,
        num_agents=agents,
        tokenizer=tokenizer,
        reward_func=reward,
        formatters=[lambda item: item["prompt"]] * agents,
        train_dataset=[{"prompt": text} for text in prompts(count)],
        args=MAGRPOConfig(
            num_train_epochs=1,
            num_agents=agents,
            num_generations=GROUP,
            max_new_tokens=NEW_TOKENS,
            temperature=1.0,
            top_p=1.0,
            top_k=None,
            num_turns=1,
            rollout_buffer_size=1,
            eval_interval=0,
        ),
    )
    trainer.train()
    return [*calls[::GROUP], now()]


def run_case(kind: str, agents: int, count: int) -> None:
    """Print the case's result as JSON."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder / "model")
        ends = (
            run_peer(agents, count, folder)
            if kind == "peer"
            else run_ours(kind, agents, count, folder)
        )
    steps = list(itertools.pairwise(ends[WARM_UP:]))
    seconds, processor = (
        statistics.median(after[n] - before[n] for before, after in steps) for n in (0, 1)
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"seconds": seconds, "processor_seconds": processor, "gigabytes": peak}))


def measure(kind: str, agents: int, threads: int, count: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--case", kind, "--agents", str(agents)]
    found = subprocess.run(
        [*command, "--prompts", str(count), "--threads", str(threads)],
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "WANDB_MODE": "disabled"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return result


def compare(kinds: list[str], agents: int, threads: int, count: int, rounds: int) -> dict[str, Any]:
    """By kind: medians over the rounds."""
    results: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            results[kind].append(measure(kind, agents, threads, count))
    table: dict[str, Any] = {}
    for kind, found in results.items():
        seconds = statistics.median(row["seconds"] for row in found)
        row = {"case": kind, "agents": agents, "threads": threads, "seconds": round(seconds, 3)}
        row["episodes_per_s"] = round(GROUP / seconds, 2)
        processor = statistics.median(row["processor_seconds"] for row in found)
        row["processor_seconds"] = round(processor, 3)
        row["gigabytes"] = round(max(row["gigabytes"] for row in found), 2)
        if kind in TARGETS and "peer" in results:
            pairs = zip(results["peer"], found, strict=True)
            ratios = [theirs["seconds"] / ours["seconds"] for theirs, ours in pairs]
            row["times_the_peer"] = round(statistics.median(ratios), 2)
            row["of_each_round"] = [round(ratio, 2) for ratio in ratios]
            row["target"] = TARGETS[kind]
        table[kind] = row
        print(json.dumps(row), flush=True)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", choices=KINDS)
    parser.add_argument("--agents", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.case:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
        run_case(options.case, options.agents, options.prompts)
        return 0
    kinds = list(KINDS)
    if importlib.util.find_spec("comlrl") is None:
        print("comlrl is not installed; its cases are left out", file=sys.stderr)
        kinds.remove("peer")
    tables = {
        (agents, threads): compare(kinds, agents, threads, options.prompts, options.rounds)
        for agents, threads in SETTINGS
    }
    missed = sum(
        row.get("times_the_peer", row.get("target", 0.0)) < row.get("target", 0.0)
        for table in tables.values()
        for row in table.values()
    )
    for kind in kinds:
        growth = tables[4, 2][kind]["seconds"] / tables[2, 2][kind]["seconds"]
        print(json.dumps({"case": kind, "seconds_from_2_to_4_agents": round(growth, 2)}))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
