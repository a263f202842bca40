"""Whole commands: the doctor, the tests on a GPU, and training of a random model."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from gpu_parts.peers import GROUP, STEPS, StepLoad, seconds_of
from gpu_parts.shapes import random_model, save_description

ROOT = Path(__file__).parents[2]

REWARD = """
def ones(context):
    text = context.joint.text
    return text.count("1") / max(1, len(text))
"""


def run_doctor() -> dict[str, Any]:
    command = [sys.executable, "-m", "collab", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {"doctor": json.loads(done.stdout)}


def run_tests() -> dict[str, Any]:
    command = [sys.executable, "-m", "pytest", "-W", "default", "-m", "gpu", "-rs", "-q"]
    done = subprocess.run(
        [*command, "tests/with_gpu"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return {"status": done.returncode, "said": lines[-1]}


def run_training(
    shape: str, device: str, load: StepLoad, agents: int, ranks: int | None = None
) -> dict[str, Any]:
    """Steps of `collab train`, with an adapter for each agent."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_description(shape, folder / "model")
        random_model(shape, torch.device(device)).save_pretrained(folder / "model")
        recipe = {
            "team": {
                "name": "ones",
                "agents": {f"a{n}": {"prompt": "{{ task.text }}"} for n in range(agents)},
            },
            "task": {
                "name": "ones",
                "kind": "text",
                "source": {"path": "rows.jsonl"},
                "reward": {"parts": {"ones": {"use": "rewards.py:ones"}}},
            },
            "model": {"name": str(folder / "model"), "device": device},
            "sampling": {"max_new_tokens": load.new},
            "trainer": {
                "extends": "magrpo",
                "steps": STEPS,
                "tasks_per_step": load.prompts,
                "group_size": GROUP,
                "mismatch_tolerance": 10.0,
            },
        }
        (folder / "recipe.yaml").write_text(json.dumps(recipe))
        (folder / "rewards.py").write_text(REWARD)
        rows = [json.dumps({"text": text}) for text in load.texts()]
        (folder / "rows.jsonl").write_text("\n".join(rows))
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        command = [sys.executable, *(torchrun if ranks else []), "-m", "collab"]
        done = subprocess.run(
            [*command, "train", "recipe.yaml", "--out", "run", "--trust"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
        steps = [json.loads(line) for line in lines if '"step.finished"' in line]
        about = json.loads((folder / "run" / "run.json").read_text())
    return {
        **seconds_of([step["seconds"] for step in steps]),
        **{key: steps[-1][key] for key in ("mismatch", "memory/gb") if key in steps[-1]},
        "attention": about["attention"]["a0"],
    }
