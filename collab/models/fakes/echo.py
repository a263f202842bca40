"""A model that answers with its last message."""

from __future__ import annotations

import time
from collections.abc import Sequence

from collab.models.base import Batching, Capabilities, Progress, Request
from collab.records import Action, FinishReason, Usage


class EchoModel:
    """Gives back the last message. Its tokens are the bytes of its text in UTF-8.

    It keeps to `max_new_tokens` and the stop strings, and needs no weights.
    """

    batching: Batching = "static"
    capabilities = Capabilities(generates=False)

    def __init__(self, name: str = "echo") -> None:
        self.name = name

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """One action for each request, at once."""
        started = time.perf_counter()
        actions = [self._answer(request, started) for request in requests]
        if progress:
            for request, action in zip(requests, actions, strict=True):
                progress(request, len(action.token_ids), action.text)
        return actions

    async def aclose(self) -> None:
        """Do nothing: the model holds no resources."""

    def _answer(self, request: Request, started: float) -> Action:
        if request.messages:
            text = request.messages[-1].content
        else:
            text = bytes(request.prompt_ids).decode(errors="replace")
        sampling = request.sampling
        ends = [at for stop in sampling.stop if (at := text.find(stop)) >= 0]
        encoded = (text[: min(ends)] if ends else text).encode()
        kept = encoded[: sampling.max_new_tokens]
        finish_reason: FinishReason = "stop" if len(kept) == len(encoded) else "length"
        return Action.model_construct(
            text=kept.decode(errors="ignore"),
            token_ids=tuple(kept),
            finish_reason=finish_reason,
            model=self.name,
            adapter=request.adapter,
            usage=Usage.model_construct(prompt_tokens=count_bytes(request), new_tokens=len(kept)),
            seconds=time.perf_counter() - started,
        )


def count_bytes(request: Request) -> int:
    """The prompt's length, for models whose tokens are bytes."""
    if request.prompt_ids:
        return len(request.prompt_ids)
    return sum(len(message.content.encode()) for message in request.messages)
