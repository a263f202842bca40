"""Two files: programs of `step.py` and of `main.py`, which imports it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Literal

from collab.tasks.generated.pocket_code import pocket_code


def two_files(random: Random, *, level: Literal[1, 2, 3] = 2) -> Iterator[dict[str, Any]]:
    """The problems of pocket code, of which each half is a file of its own.

    `step` stands in `step.py`, and `main` in `main.py`; `helper` and `rest` tell what they do.
    """
    for number, row in enumerate(pocket_code(random, level=level)):
        told = {key: _renamed(row[key]) for key in ("prompt", "rest", "whole")}
        yield {
            **told,
            "task_id": f"two-files/{number}",
            "entry_point": "main",
            "helper": row["helper"],
            "test": row["test"],
            "canonical_solution": row["canonical_solution"],
            "canonical_step": f"# file: step.py\n{_renamed(row['canonical_aux'])}",
            "canonical_main": "# file: main.py\nfrom step import step\n\n\n"
            + _renamed(row["canonical_main"]),
        }


def _renamed(text: str) -> str:
    return text.replace("aux", "step")
