"""Small teams that can train a tiny model, and the metrics of their training."""

import json
from pathlib import Path
from typing import Any

from support.recipes import recipe_from

from collab.recipe import Recipe

WORDS = ("left", "right", "go", "stay", "agree", "refuse", "say", "a", "word", "again", "you")

GAME = """\
name: game
sampling: {max_new_tokens: 3}
team:
  name: pair
  agents:
    a: {prompt: "{{ task.text }}", revise: again}
    b: {role: you, prompt: "{{ task.text }} again", revise: a word}
task:
  name: game
  kind: text
  splits: {train: 0-7, test: 8-11}
  reward:
    parts:
      a_left: {use: contains, options: {phrases: [left, say], agent: a}}
      b_left: {use: contains, weight: 2, options: {phrases: [left, a], agent: b}}
trainer: {steps: 4, learning_rate: 0.01, tasks_per_step: 2}
"""


def make_game(model: Path, folder: Path, **trainer: Any) -> Recipe:
    rows = [
        {"task_id": str(n), "text": f"say a word {n}", "level": n % 4 // 2 + 1} for n in range(12)
    ]
    path = folder / "game.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    weights = {"name": str(model), "dtype": "float32", "device": "cpu"}
    task = {"source": {"path": str(path)}}
    return recipe_from(GAME, model=weights, task=task, trainer=trainer)


def make_solvable(model: Path, folder: Path, **trainer: Any) -> Recipe:
    """The game, solved when the first agent says `left`."""
    data = make_game(model, folder, **trainer).model_dump(mode="json", exclude_none=True)
    part = data["task"]["reward"]["parts"]["a_left"]
    part |= {"solves": True, "options": {"phrases": ["left"], "agent": "a"}}
    return Recipe.model_validate(data)


def one_step(recipe: Recipe) -> Recipe:
    """The same training for one step and without held-out tasks."""
    assert recipe.trainer is not None
    trainer = recipe.trainer.model_copy(update={"steps": 1, "evaluation": None})
    return recipe.model_copy(update={"trainer": trainer})


def steps_of(run: Path, kind: str = "step.finished") -> list[dict[str, Any]]:
    """The metrics of each step of a run, or of each evaluation."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [row for row in rows if row["type"] == kind]


def changed(recipe: Recipe, path: str, value: Any) -> Recipe:
    """The recipe with another value at `path`, e.g. `trainer.steps`."""
    data = recipe.model_dump()
    *keys, last = path.split(".")
    place = data
    for key in keys:
        place = place[key]
    place[last] = value
    return Recipe.model_validate(data)
