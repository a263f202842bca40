"""Whole commands: the doctor, the tests on a GPU, a training of a random model."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from gpu_parts.shapes import config_of, save_description

ROOT = Path(__file__).parents[2]

RECIPE = """
team:
  name: ones
  agents:
    a: {{prompt: "{{{{ task.text }}}}"}}
    b: {{prompt: "{{{{ task.text }}}}"}}
task:
  name: ones
  kind: text
  source: {{path: rows.jsonl}}
  reward: {{parts: {{ones: {{use: "rewards.py:ones"}}}}}}
model: {{name: {model}, device: {device}}}
sampling: {{max_new_tokens: 64}}
trainer: {{extends: magrpo, steps: 3, tasks_per_step: 2, group_size: 8, mismatch_tolerance: 10.0}}
"""

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


def run_training(shape: str, device: str, ranks: int | None) -> dict[str, Any]:
    """Three steps of two agents by `collab train`; the seconds and the mismatch of each."""
    from transformers import AutoModelForCausalLM

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_description(shape, folder / "model")
        torch.manual_seed(0)
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(config_of(shape), dtype=torch.bfloat16)
        model.save_pretrained(folder / "model")
        del model
        (folder / "recipe.yaml").write_text(RECIPE.format(model=folder / "model", device=device))
        (folder / "rewards.py").write_text(REWARD)
        rows = [json.dumps({"text": f"w{n}"}) for n in range(8)]
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
    kept = ("seconds", "mismatch", "memory/gb")
    return {
        "attention": about["attention"]["a"],
        "steps": {row["step"]: {k: row[k] for k in kept if k in row} for row in steps},
    }
