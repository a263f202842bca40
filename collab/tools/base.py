"""A tool: what a model is told of it, and how it is called."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from collab.errors import CollabError, told
from collab.records import ToolSpec


@dataclass(frozen=True)
class Tool:
    """Something that an agent may call with arguments, and that answers in text."""

    spec: ToolSpec
    run: Callable[[Mapping[str, Any]], Awaitable[str]]

    async def answer(self, arguments: Mapping[str, Any], *, seconds: float) -> str:
        """What the tool says, within `seconds`; an error of the tool is an answer too.

        Raises:
            CollabError: trouble of ours, such as a sandbox that is not to be had.
        """
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self.run(arguments)
        except CollabError:
            raise
        except Exception as error:
            if limit.expired():
                return f"Error: {self.spec.name} was stopped at its time limit of {seconds:g} s"
            return f"Error: {told(error)}"
