"""A small project: a team of two agents that say words, and a reward that compares them."""

import json
from pathlib import Path

TASK = """\
description: Words to be said.
kind: text
source: {path: words.jsonl}
hidden: [answer]
splits: {first: "0-1"}
reward:
  parts:
    right: {use: "parts.py:right"}
"""
PARTS = """\
def right(context):
    answer = context.problem.hidden["answer"]
    said = sum(artifact == answer for artifact in context.artifacts.values())
    return said / len(context.artifacts), f"{said} of {len(context.artifacts)} said {answer}"
"""


def make_project(folder: Path, team: str, *, n_words: int) -> None:
    """Write `team` as the team `pair`, and the suite `words` with the words w0, w1, ..."""
    for subfolder in ("agents", "tasks"):
        (folder / subfolder).mkdir()
    (folder / "agents" / "pair.yaml").write_text(team)
    (folder / "tasks" / "words.yaml").write_text(TASK)
    rows = [{"task_id": str(n), "word": f"w{n}", "answer": f"Say w{n}."} for n in range(n_words)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "tasks" / "words.jsonl").write_text(lines)
    (folder / "parts.py").write_text(PARTS)
