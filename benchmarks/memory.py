"""Peak memory of training, and the plans: teams of one and of eight adapters, and whole models.

    python benchmarks/memory.py [--steps 2]

SmolLM2-135M on short tasks, with G = 4, prompts of about 150 tokens and 64 new tokens. Each case
runs in a separate process. `gigabytes` is the peak of the resident set, and `planned` is the number
of `collab train --dry-run`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CASES = (("adapters", 1), ("adapters", 8), ("full", 1), ("full", 2))
MOST_FOR_EIGHT = 1.5
"""Maximum memory of eight adapters, relative to one."""
MOST_ERROR = 0.15
"""Allowed range of a plan, relative to the measurement."""

TEXT = "Tell a story about the number {n}. " + "It should be short and of plain words. " * 12


def starts_late(context: Any) -> float:
    """A reward that differs between responses: the position of the first space."""
    texts = list(context.artifacts.values())
    return float(sum(min(text.find(" "), 10) for text in texts) / (10 * len(texts)))


def recipe_of(policies: str, agents: int, steps: int, folder: Path) -> Any:
    from collab.recipe import Recipe

    rows = [{"task_id": str(n), "text": TEXT.format(n=n)} for n in range(8)]
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Recipe.model_validate(
        {
            "model": "smollm2-135m",
            "sampling": {"max_new_tokens": 64},
            "team": {
                "name": "memory",
                "agents": {f"agent{n}": {"prompt": "{{ task.text }}"} for n in range(agents)},
            },
            "task": {
                "name": "memory",
                "kind": "text",
                "source": {"path": str(path)},
                "reward": {"parts": {"late": {"use": f"{__file__}:starts_late"}}},
            },
            "trainer": {"steps": steps, "group_size": 4, "policies": policies},
        }
    )


def run_case(policies: str, agents: int, steps: int) -> None:
    """Print the case's result as JSON."""
    from collab.trainers import TrainingRun
    from collab.trainers.training.plan.plan import make_plan

    with tempfile.TemporaryDirectory() as name:
        recipe = recipe_of(policies, agents, steps, Path(name))
        asyncio.run(TrainingRun(recipe, Path(name) / "run").run())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        plan = make_plan(recipe)
    parts = {part: round(size / 1e9, 3) for part, size in plan.memory.items()}
    found = {"gigabytes": round(peak, 3), "planned": round(plan.total / 1e9, 3), "parts": parts}
    print(json.dumps(found))


def measure(policies: str, agents: int, steps: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--case", policies, "--agents", str(agents)]
    found = subprocess.run(
        [*command, "--steps", str(steps)], stdout=subprocess.PIPE, text=True, check=True
    )
    result: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--case", choices=("adapters", "full"))
    parser.add_argument("--agents", type=int, default=1)
    options = parser.parse_args()
    if options.case:
        run_case(options.case, options.agents, options.steps)
        return 0
    missed = 0
    one = 0.0
    for policies, agents in CASES:
        row = {"policies": policies, "agents": agents, **measure(policies, agents, options.steps)}
        row["plan_error"] = round(row["planned"] / row["gigabytes"] - 1, 3)
        missed += abs(row["plan_error"]) > MOST_ERROR
        if policies == "adapters" and agents == 1:
            one = row["gigabytes"]
        elif policies == "adapters":
            row["times_one"] = round(row["gigabytes"] / one, 2)
            missed += row["times_one"] > MOST_FOR_EIGHT
        print(json.dumps(row), flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
