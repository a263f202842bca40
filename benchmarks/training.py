"""Compares training with CoMLRL, the published implementation, on the same tiny model.

    python benchmarks/training.py [--steps 12] [--rounds 3]

A random Llama of 8.4 M parameters (hidden 256, 4 layers, vocabulary 8192), G = 4, 64 new tokens,
one turn, the same reward, and two prompts per step (the peer's default) or one. Every case runs in
a separate process, limited to as many cores as it has threads. The cases alternate, and a ratio is
the median of the ratios of all rounds. `processor_seconds` is the processor time of a step, which
is more reliable on a busy machine. The peer's cases need `pip install comlrl==1.4.3`, and are
skipped without it.

peer      float32, every agent a whole model
full      the same precision and parameters with this library
default   our defaults: one adapter per agent, in bfloat16 if the processor supports it well

Equal: model, prompts, G, lengths, sampling, reward, AdamW, prompts per step, no evaluation.
Different: this library also writes episodes and metrics; `default` also trains other parameters in
another precision.
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
from typing import Any, NamedTuple

VOCABULARY, PROMPT_WORDS, NEW_TOKENS, GROUP = 8192, 32, 64, 4
CHAT = "{% for m in messages %}{{ m.content }} {% endfor %}"
KINDS = ("peer", "full", "default")


class Setting(NamedTuple):
    agents: int
    threads: int
    prompts: int
    """Number of prompts per step."""


SETTINGS = [Setting(*row) for row in ((2, 1, 2), (2, 2, 2), (4, 2, 2), (2, 1, 1), (2, 2, 1))]
WARM_UP = 2
TARGETS = {"full": 1.5, "default": 3.0}


def save_model(folder: Path) -> None:
    """Save the model, and a tokenizer whose tokens are numbers."""
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
    """The reward of a response: the share of its words that are even numbers."""
    words = text.split()
    return sum(word[-1] in "02468" for word in words) / max(len(words), 1)


def even_part(context: Any) -> float:
    return sum(even(text) for text in context.artifacts.values()) / len(context.artifacts)


def now() -> tuple[float, float]:
    """Return the wall time and the processor time."""
    return time.perf_counter(), time.process_time()


def run_ours(kind: str, setting: Setting, steps: int, folder: Path) -> list[tuple[float, float]]:
    """Return the end time of each step."""
    from collab.recipe import Recipe
    from collab.trainers import TrainingRun

    rows = [
        {"task_id": str(n), "text": text} for n, text in enumerate(prompts(steps * setting.prompts))
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    agent = {"prompt": "{{ task.text }}"}
    trainer = {
        "group_size": GROUP,
        "tasks_per_step": setting.prompts,
        "checkpoint_every": 10_000,
        "policies": "full" if kind == "full" else "adapters",
    }
    recipe = Recipe.model_validate(
        {
            "model": {
                "name": str(folder / "model"),
                "dtype": "float32" if kind == "full" else "auto",
            },
            "sampling": {"max_new_tokens": NEW_TOKENS},
            "team": {
                "name": "bench",
                "agents": {f"agent{n}": agent for n in range(setting.agents)},
            },
            "task": {
                "name": "bench",
                "kind": "text",
                "source": {"path": str(folder / "tasks.jsonl")},
                "reward": {"parts": {"even": {"use": f"{__file__}:even_part"}}},
            },
            "trainer": trainer,
        }
    )
    ends: list[tuple[float, float]] = []

    def watch(event: Any) -> None:
        if event.type == "step.finished":
            ends.append(now())

    asyncio.run(TrainingRun(recipe, folder / "run", emit=watch).run())
    return ends


def run_peer(setting: Setting, steps: int, folder: Path) -> list[tuple[float, float]]:
    """Return the time of the same point in each step, found by the peer's reward calls."""
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    models = [AutoModelForCausalLM.from_pretrained(folder / "model") for _ in range(setting.agents)]
    calls: list[tuple[float, float]] = []

    def reward(*completions: list[str]) -> list[float]:
        calls.append(now())
        return [sum(map(even, said)) / len(said) for said in zip(*completions, strict=True)]

    trainer = MAGRPOTrainer(
        agents=models,
        num_agents=setting.agents,
        tokenizer=tokenizer,
        reward_func=reward,
        formatters=[lambda item: item["prompt"]] * setting.agents,
        train_dataset=[{"prompt": text} for text in prompts(steps * setting.prompts)],
        args=MAGRPOConfig(
            num_train_epochs=1,
            num_agents=setting.agents,
            num_generations=GROUP,
            max_new_tokens=NEW_TOKENS,
            temperature=1.0,
            top_p=1.0,
            top_k=None,
            num_turns=1,
            rollout_buffer_size=setting.prompts,
            eval_interval=0,
        ),
    )
    trainer.train()
    return [*calls[:: GROUP * setting.prompts], now()]


def run_case(kind: str, setting: Setting, steps: int) -> None:
    """Print the case's result as JSON."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder / "model")
        ends = (
            run_peer(setting, steps, folder)
            if kind == "peer"
            else run_ours(kind, setting, steps, folder)
        )
    pairs = list(itertools.pairwise(ends[WARM_UP:]))
    seconds, processor = (
        statistics.median(after[n] - before[n] for before, after in pairs) for n in (0, 1)
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"seconds": seconds, "processor_seconds": processor, "gigabytes": peak}))


def measure(kind: str, setting: Setting, steps: int) -> dict[str, float]:
    found = subprocess.run(
        [sys.executable, __file__, "--steps", str(steps), "--case", kind, *map(str, setting)],
        env={**os.environ, "OMP_NUM_THREADS": str(setting.threads), "WANDB_MODE": "disabled"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return result


def compare(kinds: list[str], setting: Setting, steps: int, rounds: int) -> dict[str, Any]:
    """Return the medians over the rounds, by kind."""
    results: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            results[kind].append(measure(kind, setting, steps))
    table: dict[str, Any] = {}
    for kind, found in results.items():
        seconds = statistics.median(row["seconds"] for row in found)
        row = {"case": kind, **setting._asdict(), "seconds": round(seconds, 3)}
        row["episodes_per_s"] = round(setting.prompts * GROUP / seconds, 2)
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
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", choices=KINDS, help="run this one alone, in this process")
    parser.add_argument("setting", nargs="*", type=int, help="agents, threads, prompts a step")
    options = parser.parse_args()
    if options.case:
        setting = Setting(*options.setting)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: setting.threads])
        run_case(options.case, setting, options.steps)
        return 0
    kinds = list(KINDS)
    if importlib.util.find_spec("comlrl") is None:
        print("comlrl is not installed; its cases are left out", file=sys.stderr)
        kinds.remove("peer")
    tables = {
        setting: compare(kinds, setting, options.steps, options.rounds) for setting in SETTINGS
    }
    missed = sum(
        row.get("times_the_peer", row.get("target", 0.0)) < row.get("target", 0.0)
        for table in tables.values()
        for row in table.values()
    )
    for kind in kinds:
        few, many = (tables[Setting(agents, 2, 2)][kind]["seconds"] for agents in (2, 4))
        print(json.dumps({"case": kind, "seconds_from_2_to_4_agents": round(many / few, 2)}))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
