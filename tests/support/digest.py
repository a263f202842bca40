"""Comparable numbers of a training run: its samples, rewards and updates."""

import json
from pathlib import Path
from typing import Any

from support.trainer_recipes import make_game

from collab.recipe import Recipe
from collab.records import read_episodes

CASES: dict[str, dict[str, Any]] = {
    "parallel": {},
    "sequential-marloo": {
        "protocol": "sequential",
        "turns": 2,
        "algorithm": "marloo",
        "normalize": "group",
    },
    "discussion-tree": {
        "protocol": "discussion",
        "turns": 2,
        "turn_structure": "tree",
        "group_size": 2,
        "discount": 0.9,
        "policies": "shared_adapter",
    },
    "whole-models": {
        "policies": "full",
        "kl_coef": 0.05,
        "clip_ratio": 0.2,
        "inner_epochs": 2,
        "token_weighting": "batch_tokens",
    },
}
TEAM = ("protocol", "turns")


def make_case(model: Path, folder: Path, name: str) -> Recipe:
    """Three steps of the word game, with the settings of the case `name`."""
    settings = CASES[name]
    trainer = {key: value for key, value in settings.items() if key not in TEAM}
    data = make_game(model, folder, **trainer).model_dump()
    data["team"] |= {key: value for key, value in settings.items() if key in TEAM}
    data["trainer"]["steps"] = 3
    return Recipe.model_validate(data)


def digest(run: Path) -> dict[str, Any]:
    """Rewards and decisions per episode, and gradient metrics per step."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "episodes": [
            {
                "id": episode.id,
                "rewards": [turn.score.reward for turn in episode.turns if turn.score],
                "decisions": [
                    [
                        decision.agent,
                        decision.round,
                        list(decision.action.prompt_ids),
                        list(decision.action.token_ids),
                        [round(value, 5) for value in decision.action.logprobs],
                    ]
                    for turn in episode.turns
                    for decision in turn.decisions
                ],
            }
            for episode in read_episodes(run)
        ],
        "gradients": [
            {key: row[key] for key in sorted(row) if "grad" in key}
            for row in rows
            if row["type"] == "step.finished"
        ],
    }
