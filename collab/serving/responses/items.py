"""The items of a response: what each agent wrote, and the joint answer, the only message."""

from __future__ import annotations

from typing import Any, Literal

Status = Literal["in_progress", "completed", "incomplete"]


def reasoning(answer: str, number: int, agent: str, text: str | None) -> dict[str, Any]:
    """One agent's response; without its text while it is written."""
    return {
        "type": "reasoning",
        "id": f"rs_{answer}_{number}",
        "summary": [],
        "content": [] if text is None else [{"type": "reasoning_text", "text": text}],
        "status": "in_progress" if text is None else "completed",
        "agent": {"agent_name": agent},
    }


def message(answer: str, status: Status, text: str | None) -> dict[str, Any]:
    """The joint answer; without its text while it is not made."""
    return {
        "type": "message",
        "id": f"msg_{answer}",
        "role": "assistant",
        "status": status,
        "phase": "final_answer",
        "content": [] if text is None else [part(text)],
    }


def part(text: str) -> dict[str, Any]:
    """The content of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
