"""Training steps of other libraries, with the load and the adapters of ours.

A step is timed from its rewards to those of the next one.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gpu_parts.shapes import random_model, save_description

STEPS, GROUP = 4, 8


class StepLoad(NamedTuple):
    """Sizes of a step: numbers and lengths of each agent's prompts and responses."""

    prompts: int
    prompt: int
    """Tokens, which are letters."""
    new: int

    def texts(self) -> list[str]:
        """The prompts of all steps."""
        return [
            "".join(chr(97 + (7 * n + k) % 26) for k in range(self.prompt))
            for n in range(STEPS * self.prompts)
        ]


def seconds_of(steps: list[float]) -> dict[str, float]:
    """The first step and the median of the others."""
    return {
        "first_seconds": round(steps[0], 3),
        "step_seconds": round(statistics.median(steps[1:]), 3),
    }


def ones(texts: list[str]) -> list[float]:
    return [text.count("1") / max(1, len(text)) for text in texts]


def tokenizer_of(shape: str) -> Any:
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as name:
        save_description(shape, Path(name))
        return AutoTokenizer.from_pretrained(name)


def lora() -> Any:
    from peft import LoraConfig

    from collab.recipe import LoraSpec

    ours = LoraSpec()
    return LoraConfig(r=ours.rank, lora_alpha=int(ours.alpha), target_modules="all-linear")


def by_trl(shape: str, device: str, load: StepLoad) -> dict[str, Any]:
    """GRPO of one agent."""
    import pyarrow
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    calls: list[float] = []

    def reward(completions: list[str], **_: Any) -> list[float]:
        calls.append(time.perf_counter())
        return ones(completions)

    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=random_model(shape, torch.device(device)),
            processing_class=tokenizer_of(shape),
            reward_funcs=reward,
            train_dataset=Dataset(pyarrow.table({"prompt": load.texts()}), fingerprint="ours"),
            peft_config=lora(),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=STEPS,
                per_device_train_batch_size=GROUP,
                gradient_accumulation_steps=load.prompts,
                num_generations=GROUP,
                max_completion_length=load.new,
                temperature=1.0,
                beta=0.0,
                gradient_checkpointing=False,
                bf16=device == "cuda",
                use_cpu=device == "cpu",
                save_strategy="no",
                report_to=[],
            ),
        )
        trainer.train()
    return seconds_of(gaps(calls))


def by_comlrl(shape: str, device: str, load: StepLoad) -> dict[str, Any]:
    """MAGRPO of two agents, each with a base model of its own."""
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer
    from peft import get_peft_model

    place, calls = torch.device(device), list[float]()

    def reward(*completions: list[str]) -> list[float]:
        calls.append(time.perf_counter())
        return [sum(row) / len(row) for row in zip(*map(ones, completions), strict=True)]

    trainer = MAGRPOTrainer(
        agents=[get_peft_model(random_model(shape, place), lora()) for _ in range(2)],
        num_agents=2,
        tokenizer=tokenizer_of(shape),
        reward_func=reward,
        formatters=[lambda item: item["prompt"]] * 2,
        train_dataset=[{"prompt": text} for text in load.texts()],
        args=MAGRPOConfig(
            num_train_epochs=1,
            num_agents=2,
            agent_devices=device,
            num_generations=GROUP,
            max_new_tokens=load.new,
            temperature=1.0,
            top_p=1.0,
            top_k=None,
            num_turns=1,
            rollout_buffer_size=load.prompts,
            eval_interval=0,
        ),
    )
    trainer.train()
    return seconds_of(gaps(calls[:: len(calls) // STEPS]))


def gaps(starts: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(starts)]
