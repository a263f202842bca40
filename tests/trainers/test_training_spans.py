"""A training as spans: its steps, its evaluations, and the episodes of both below them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from support.trainer_recipes import make_game

from collab.trainers import TrainingRun


def test_a_training_is_a_tree_of_spans(exported: Any, tiny_words: Path, tmp_path: Path) -> None:
    held_out = {"samples": 1, "greedy": False}
    recipe = make_game(tiny_words, tmp_path, steps=2, group_size=2, evaluation=held_out)
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    *spans, whole = exported.get_finished_spans()
    assert whole.name == "train pair"
    below: dict[int, list[Any]] = {}
    for span in spans:
        below.setdefault(span.parent.span_id, []).append(span)
    parts = below[whole.context.span_id]
    assert [(span.name, span.attributes["collab.step"]) for span in parts] == [
        ("evaluation", 0),
        ("training_step", 1),
        ("training_step", 2),
        ("evaluation", 2),
    ]
    for span in parts:
        [scored] = [e for e in span.events if e.name == "gen_ai.evaluation.result"]
        assert scored.attributes["gen_ai.evaluation.name"] == "return"
        episodes = below[span.context.span_id]
        assert {episode.name for episode in episodes} == {"invoke_workflow pair"}
        assert len(episodes) == 4  # four held-out tasks; two tasks by two samples
        assert len(below[episodes[0].context.span_id]) == 2
