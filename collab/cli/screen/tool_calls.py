"""Calls of tools on a page: what an agent asked for, and what it was told."""

from __future__ import annotations

import json
from collections.abc import Iterator

from collab.cli.screen.page import Block, Page
from collab.records import ToolCall, Turn


def show_calls(page: Page, turn: Turn) -> None:
    """Every call of the turn with its result, in the order of the record."""
    for block in _calls_of(turn):
        page.blocks([block])


def _calls_of(turn: Turn) -> Iterator[Block]:
    for decision in turn.decisions:
        for message in decision.observation:
            if call := message.answers:
                yield call_block(decision.agent, call)
                yield Block(f"{call.name} answers {decision.agent}", message.content, "text")


def call_block(agent: str, call: ToolCall) -> Block:
    """A call; code on its own is shown as code."""
    title, code = f"{agent} calls {call.name}", call.arguments.get("code")
    if isinstance(code, str) and len(call.arguments) == 1:
        return Block(title, code, "python")
    return Block(title, json.dumps(call.arguments, ensure_ascii=False), "text")
