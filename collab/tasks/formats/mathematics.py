"""GSM8K (arXiv 2110.14168) and MATH (arXiv 2103.03874): questions with worked solutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collab.errors import TaskError
from collab.tasks.formats.fields import field

MARK = "####"


def gsm8k(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of GSM8K: `question`, and `answer`, whose number stands behind `####`.

    Raises:
        TaskError: a field is missing, or the answer has no such number.
    """
    solution, mark, answer = field(row, str, "answer").rpartition(MARK)
    if not mark or not answer.strip():
        raise TaskError(f"the answer has no number behind {MARK}")
    return {
        "prompt": field(row, str, "question"),
        "answer": answer.strip().replace(",", ""),
        "solution": solution.strip(),
    }


def competition(row: Mapping[str, Any]) -> dict[str, Any]:
    r"""A row of MATH: `problem`, and `solution` with its answer in `\boxed{}`, or `answer`.

    Raises:
        TaskError: a field is missing, or the solution has no such answer.
    """
    solution = str(row.get("solution") or "")
    answer = str(row.get("answer") or "") or _boxed(solution)
    return {
        "prompt": field(row, str, "problem"),
        "level": str(row.get("level", "")),
        "subject": str(row.get("subject") or row.get("type") or ""),
        "answer": answer,
        "solution": solution,
    }


def _boxed(solution: str) -> str:
    """What the last box of a solution holds."""
    start = max(solution.rfind("\\boxed"), solution.rfind("\\fbox"))
    depth, opened = 0, solution.find("{", start)
    for place in range(opened, len(solution)) if start >= 0 <= opened else ():
        depth += {"{": 1, "}": -1}.get(solution[place], 0)
        if depth == 0:
            return solution[opened + 1 : place].strip()
    words = solution[start:].partition("boxed ")[2].split() if start >= 0 else []
    if not words:
        raise TaskError("there is no answer, and the solution has none in \\boxed{}")
    return words[0].rstrip("$.")
