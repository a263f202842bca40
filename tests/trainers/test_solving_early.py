"""Training with right or wrong programs: a team with a second turn learns to solve at once.

A wrong program that parses earns 1.5, a right one 2.5. Summed over the turns played, two wrong
answers (3.0) beat one right answer. If a solved task is an absorbing state, the right answer earns
more (5.0).
"""

import asyncio
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from support.recipes import recipe_from
from support.tiny_words import save_tiny

from collab.records import Episode, read_episodes
from collab.trainers import TrainingRun

ONE = """\
team:
  {name: one, protocol: single, join: python,
   agents: {main: {prompt: you, revise: end, parser: text}}}
task:
  name: programs
  kind: code
  reward: {parts: {syntax: {use: parses, weight: 1.5}, tests: {use: tests, weight: 1.0}}}
sampling: {max_new_tokens: 1}
trainer: {steps: 40, group_size: 12, learning_rate: 0.01, checkpoint_every: 1000}
"""
RIGHT, WRONG = "f=lambda:1", "f=lambda:0"
TEST = "def check(candidate):\n    assert candidate() == 1\n"
GROUP = 12


@pytest.fixture(scope="session")
def two_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("programs"), (RIGHT, WRONG), hidden=64, spread=0.1)


def train(model: Path, folder: Path, team: dict[str, Any], **trainer: Any) -> list[Episode]:
    """Train and return the episodes in the order of play."""
    row = {"task_id": "0", "prompt": "# f", "test": TEST, "entry_point": "f"}
    (folder / "programs.jsonl").write_text(json.dumps(row) + "\n")
    weights = {"name": str(model), "dtype": "float32", "device": "cpu"}
    task = {"source": {"path": str(folder / "programs.jsonl")}}
    recipe = recipe_from(ONE, model=weights, team=team, task=task, trainer=trainer)
    asyncio.run(TrainingRun(recipe, folder / "run").run())
    return list(read_episodes(folder / "run"))


def solved_first(episode: Episode) -> bool:
    score = episode.turns[0].score
    return bool(score and score.solved)


@pytest.mark.slow
def test_a_team_learns_to_solve_at_once(two_programs: Path, tmp_path: Path) -> None:
    last = train(two_programs, tmp_path, {"turns": 2})[-5 * GROUP :]
    assert fmean(map(solved_first, last)) > 0.95


@pytest.mark.parametrize("when_solved", ["absorb", "continue"])
def test_tree_continues_only_unsolved_branches(
    two_programs: Path, tmp_path: Path, when_solved: str
) -> None:
    team = {"turns": 2, "when_solved": when_solved}
    tree = {"turn_structure": "tree", "group_size": 3, "steps": 2}
    leaves = train(two_programs, tmp_path, team, **tree)
    assert {solved_first(leaf) for leaf in leaves} == {True, False}
    for leaf in leaves:
        over = solved_first(leaf) and when_solved == "absorb"
        assert len(leaf.turns) == (1 if over else 2)
        assert len(leaf.rewards) == 2
    if when_solved == "continue":
        assert len(leaves) == 2 * 3**2
