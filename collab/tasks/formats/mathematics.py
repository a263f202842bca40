"""GSM8K (arXiv 2110.14168) and MATH (arXiv 2103.03874): questions with worked solutions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from collab.agents.parsers import braces_content
from collab.errors import TaskError
from collab.tasks.formats.fields import field

ANSWER_MARK = "####"

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_UNBRACED_ANSWER = re.compile(r"(?:(?!\\[)\]])[^\s$])+")
"""Matches up to the next whitespace or the end of the formula."""
_LEVEL = re.compile(r"(?:level)?\s*(\d+)(?:\.0)?", re.IGNORECASE)


def gsm8k(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row of GSM8K: `question`, and `answer`, with its number after `####`.

    Raises:
        TaskError: a field is missing, or the answer has no such number.
    """
    solution, mark, answer = field(row, str, "answer").rpartition(ANSWER_MARK)
    if not mark or not answer.strip():
        raise TaskError(f"the answer has no number after {ANSWER_MARK}")
    return {
        "prompt": field(row, str, "question"),
        "answer": answer.strip().replace(",", ""),
        "solution": solution.strip(),
    }


def competition(row: Mapping[str, Any]) -> dict[str, Any]:
    r"""Convert a row of MATH: `problem`, and `solution` with its answer in `\boxed{}`, or `answer`.

    Its `level` is the number in "Level 5". A row without a number, such as "Level ?", gets no
    `level`.

    Raises:
        TaskError: a field is missing, or the solution has no such answer.
    """
    solution = str(row.get("solution") or "")
    published = row.get("answer")
    answer = _boxed_answer(solution) if published in (None, "") else str(published)
    return {
        "prompt": field(row, str, "problem"),
        **_level(row.get("level")),
        "subject": str(row.get("subject") or row.get("type") or ""),
        "answer": answer,
        "solution": solution,
    }


def _level(published: Any) -> dict[str, int]:
    matched = _LEVEL.fullmatch(str(published).strip())
    return {"level": int(matched[1])} if matched else {}


def _boxed_answer(solution: str) -> str:
    r"""Return the content of the last box, or without braces the next word, as in `\boxed 3`."""
    *_, box = (None, *_BOX.finditer(solution))
    content = solution[box.end() :] if box else ""
    inner = braces_content(content) if content.startswith("{") else _leading_word(content)
    if not inner:
        raise TaskError("the row has no answer, and its solution has none in \\boxed{}")
    return inner


def _leading_word(text: str) -> str:
    matched = _UNBRACED_ANSWER.match(text)
    return matched[0].rstrip(".,;") if matched else ""
